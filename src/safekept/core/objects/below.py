"""A view of a place from a directory in it: one destination holds several vaults and the archives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .base import Abilities, Content, NotThere, ObjectStore, Stored, Taken, checked, checked_prefix


class Below(ObjectStore):
    """Names are those of the place without the prefix; the root that can be missing is that of the place."""

    def __init__(self, place: ObjectStore, prefix: str) -> None:
        self.place = place
        self.prefix = checked_prefix(prefix if prefix.endswith("/") else f"{prefix}/")
        self.lanes = place.lanes

    @property
    def location(self) -> str:
        place, at, server = self.place.location.partition(" at ")
        return f"{place.rstrip('/')}/{self.prefix.rstrip('/')}{at}{server}"

    def present(self) -> bool:
        return self.place.present()

    def create(self) -> None:
        self.place.create()

    def list(self, prefix: str = "") -> Iterator[Stored]:
        start = len(self.prefix)
        for stored in self.place.list(self.prefix + checked_prefix(prefix)):
            yield Stored(stored.name[start:], stored.size, stored.modified)

    def directories(self, prefix: str = "") -> Iterator[str]:
        yield from self.place.directories(self.prefix + checked_prefix(prefix))

    def size(self, name: str) -> int:
        try:
            return self.place.size(self.prefix + checked(name))
        except NotThere:
            raise NotThere(name) from None

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        try:
            return self.place.read(self.prefix + checked(name), offset, length)
        except NotThere:
            raise NotThere(name) from None

    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        try:
            yield from self.place.stream(self.prefix + checked(name), offset)
        except NotThere:
            raise NotThere(name) from None

    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        try:
            self.place.write(self.prefix + checked(name), content, replace=replace)
        except Taken:
            raise Taken(name) from None

    def delete(self, name: str) -> None:
        self.place.delete(self.prefix + checked(name))

    def probe(self) -> Abilities:
        return self.place.probe()

    def room(self) -> tuple[int, int] | None:
        return self.place.room()

    def sweep(self, older_than: float = 86_400.0) -> Sequence[str]:
        return self.place.sweep(older_than)
