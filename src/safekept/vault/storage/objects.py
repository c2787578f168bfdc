"""A vault in a place for objects, with restic's own layout, so that restic opens it there.

The place is any ObjectStore, on this host or off it; this is only the shape of names between the two. A
write is refused where the name is taken; where the place itself cannot refuse, a look before the write
(`CredentialRights.write_once` is false then) has to do. That is enough for files named by their content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from safekept.core.objects.base import NotThere, ObjectStore, Taken

from .base import AlreadyStored, FileKind, NotStored, Storage, is_name, stored_name

_FEW = 16  # so many looks cost less than a listing


class ObjectStorage(Storage):
    """The files of one vault below the root of an ObjectStore; see `ObjectStore.below`."""

    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects

    @property
    def location(self) -> str:
        return self.objects.location

    def create(self) -> None:
        self.objects.create()

    def list(self, kind: FileKind) -> Iterator[tuple[str, int]]:
        if kind is FileKind.CONFIG:
            if self.exists(kind):
                yield "", self.size(kind)
            return
        found = []
        for stored in self.objects.list(f"{kind.value}/"):
            name = stored.name.rpartition("/")[2]
            if is_name(name) and stored_name(kind, name) == stored.name:
                found.append((name, stored.size))
        yield from sorted(found)

    def size(self, kind: FileKind, name: str = "") -> int:
        try:
            return self.objects.size(stored_name(kind, name))
        except NotThere:
            raise NotStored(kind, name) from None

    def sizes(self, kind: FileKind, names: Iterable[str]) -> dict[str, int]:
        wanted = set(names)
        if len(wanted) > _FEW:
            return {name: size for name, size in self.list(kind) if name in wanted}
        found = {}
        for name in wanted:
            try:
                found[name] = self.size(kind, name)
            except NotStored:
                continue
        return found

    def written(self, kind: FileKind, name: str) -> float | None:
        place = stored_name(kind, name)
        for stored in self.objects.list(f"{kind.value}/"):
            if stored.name == place:
                return stored.modified or None
        return None

    def read(self, kind: FileKind, name: str = "", offset: int = 0, length: int | None = None) -> bytes:
        try:
            return self.objects.read(stored_name(kind, name), offset, length)
        except NotThere:
            raise NotStored(kind, name) from None

    def write(self, kind: FileKind, name: str, data: bytes | bytearray | memoryview) -> None:
        try:
            self.objects.write(stored_name(kind, name), data)
        except Taken:
            raise AlreadyStored(kind, name) from None

    def delete(self, kind: FileKind, name: str) -> None:
        self.objects.delete(stored_name(kind, name))

    def room(self) -> tuple[int, int] | None:
        return self.objects.room()

    def sweep(self) -> Sequence[str]:
        return self.objects.sweep()

    def close(self) -> None:
        self.objects.close()
