"""Every object of the store, wherever it lies: in packs of ours, in packs of git, loose.

A pack may vanish while we look because maintenance put its objects into a larger one; a reader that finds
nothing looks at the directory again before it says that an object is missing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator

from isal import isal_zlib

from safekept.core.files.small import open_regular

from .objects import BadObject
from .pack_reader import BROKEN, BadGitPack, Pack

#: Packs up to this many objects are kept as one table in memory; larger ones are searched.
_SMALL = 2000
#: How often the directory is looked at again for something that is not found: packs are replaced.
_PATIENCE = 4


class ObjectStore:
    """Reads objects by name (twenty bytes). Not for several threads at once."""

    def __init__(self, directory: str) -> None:
        self.directory = directory  # …/store/objects
        self._packs: dict[str, Pack] = {}
        self._small: dict[bytes, Pack] = {}
        self._large: list[Pack] = []
        self._doubtful: list[Pack] = []
        self._bad: set[str] = set()
        self._listed = False
        self.doubted: set[str] = set()  # names of packs that are known to be damaged: asked last
        self.failed: set[str] = set()  # names of packs that turned out to be damaged just now

    @property
    def pack_directory(self) -> str:
        return os.path.join(self.directory, "pack")

    def close(self) -> None:
        for pack in self._packs.values():
            pack.close()
        self._packs.clear()
        self._small.clear()
        self._large.clear()
        self._doubtful.clear()
        self._bad.clear()
        self._listed = False

    def refresh(self) -> None:
        """Look at the directory of packs again before the next answer."""
        self._listed = False

    def pack_names(self) -> set[str]:
        """The packs there are now: names without suffix, of those that have both files."""
        try:
            names = os.listdir(self.pack_directory)
        except FileNotFoundError:
            return set()
        found = {name[:-4] for name in names if name.endswith(".idx")}
        return {name[:-5] for name in names if name.endswith(".pack")} & found

    def doubt(self, packs: Collection[str]) -> None:
        """Never build on these packs; they are read from only where no other has an object."""
        fresh = set(packs) - self.doubted
        self.doubted |= fresh
        self._drop({pack for name, pack in self._packs.items() if name in fresh})
        self._listed = self._listed and not fresh

    def __contains__(self, oid: bytes) -> bool:
        """Whether it is there, as far as is known in a sound pack."""
        return self._find_sound(oid) is not None or os.path.exists(self._loose(oid))

    def missing(self, oids: set[bytes]) -> set[bytes]:
        """Those of many objects that are not there in a pack that is known as sound."""
        left = oids
        for _ in range(_PATIENCE):
            self._list()
            left = left - self._small.keys()
            for pack in self._large:
                if len(left) > 500:
                    left = left.difference(pack.oids())
                else:
                    left = {oid for oid in left if pack.offset(oid) < 0}
            left = {oid for oid in left if not os.path.exists(self._loose(oid))}
            if not left:
                break
        return left

    def read(self, oid: bytes) -> tuple[bytes, bytes]:
        """Kind and bytes. Raises BadObject when it is missing or damaged in every copy."""
        trouble = BadObject(oid.hex(), "is missing")
        for pack in self._copies(oid):
            try:
                return pack.read(pack.offset(oid), oid)
            except (BadObject, BadGitPack) as error:
                trouble = _as_bad_object(error, oid)
                self._fail(pack)
        loose = self._read_loose(oid)
        if loose is None:
            raise trouble
        return loose

    def read_as(self, kind: bytes, oid: bytes) -> bytes:
        found, data = self.read(oid)
        if found != kind:
            raise BadObject(oid.hex(), f"is a {found.decode()}, not a {kind.decode()}")
        return data

    def size(self, oid: bytes) -> int:
        for pack in self._copies(oid):
            with contextlib.suppress(BadGitPack, BadObject):
                return pack.size(pack.offset(oid), oid)
            self._fail(pack)
        return len(self.read(oid)[1])

    def stream(self, oid: bytes) -> Iterator[bytes]:
        """The bytes of a blob in pieces."""
        for pack in self._copies(oid):
            begun = False
            try:
                for piece in pack.stream(pack.offset(oid), oid):
                    begun = True
                    yield piece
                return
            except (BadObject, BadGitPack) as error:
                self._fail(pack)
                if begun:  # what was handed out cannot be taken back
                    raise _as_bad_object(error, oid) from error
        yield self.read(oid)[1]

    def _copies(self, oid: bytes) -> Iterator[Pack]:
        """Packs that hold an object, opened, the trustworthy ones first; none where it is loose.

        A pack that was replaced by a larger one since it was listed is looked for again.
        """
        asked: set[str] = set()
        for _ in range(_PATIENCE):
            pack = self._find(oid, asked)
            while pack is not None:
                name = os.path.basename(pack.path)
                try:
                    pack.open()
                except BadGitPack:
                    asked.add(name)
                    self._fail(pack)
                except OSError:
                    self._drop({pack})
                    self._listed = False
                    break
                else:
                    asked.add(name)
                    yield pack
                pack = self._find(oid, asked)
            if asked or os.path.exists(self._loose(oid)):
                return
            self._listed = False

    def _fail(self, pack: Pack) -> None:
        name = os.path.basename(pack.path)
        self.failed.add(name)
        self.doubt({name})

    def _find(self, oid: bytes, without: Collection[str] = ()) -> Pack | None:
        if not without:
            found = self._find_sound(oid)
            if found is not None:
                return found
        elif not self._listed:
            self._list()
        candidates = list(self._packs.values()) if without else self._doubtful
        for pack in sorted(candidates, key=lambda pack: os.path.basename(pack.path) in self.doubted):
            if os.path.basename(pack.path) not in without and pack.offset(oid) >= 0:
                return pack
        return None

    def _find_sound(self, oid: bytes) -> Pack | None:
        if not self._listed:
            self._list()
        pack = self._small.get(oid)
        if pack is not None:
            return pack
        for large in self._large:
            if large.offset(oid) >= 0:
                return large
        return None

    def _list(self) -> None:
        self._listed = True
        names = self.pack_names()
        self._drop({pack for name, pack in self._packs.items() if name not in names})
        for name in sorted(names - self._packs.keys() - self._bad):
            try:
                pack = Pack(os.path.join(self.pack_directory, name), self.read)
            except FileNotFoundError:
                continue  # replaced just now
            except (BadGitPack, OSError) as error:
                self._bad.add(name)  # damage of one pack is the loss of that pack
                if isinstance(error, BadGitPack):
                    self.failed.add(name)
                continue
            self._packs[name] = pack
            if name in self.doubted:
                self._doubtful.append(pack)
            elif pack.count <= _SMALL:
                self._small.update(dict.fromkeys(pack.oids(), pack))
            else:
                self._large.append(pack)

    def _drop(self, gone: set[Pack]) -> None:
        """Forget packs. They are not closed: one that is mapped may be being read."""
        if gone:
            self._packs = {name: pack for name, pack in self._packs.items() if pack not in gone}
            self._large = [pack for pack in self._large if pack not in gone]
            self._doubtful = [pack for pack in self._doubtful if pack not in gone]
            # An object may be in several packs, and the one that is remembered may be the one that went.
            self._small = {}
            for name, pack in self._packs.items():
                if pack.count <= _SMALL and name not in self.doubted:
                    self._small.update(dict.fromkeys(pack.oids(), pack))

    def _loose(self, oid: bytes) -> str:
        name = oid.hex()
        return os.path.join(self.directory, name[:2], name[2:])

    def _read_loose(self, oid: bytes) -> tuple[bytes, bytes] | None:
        try:
            with os.fdopen(open_regular(self._loose(oid)), "rb") as file:
                data = isal_zlib.decompress(file.read())
        except FileNotFoundError:
            return None
        except (BROKEN, OSError) as error:
            raise BadObject(oid.hex(), f"cannot be read: {error}") from error
        head, _, body = data.partition(b"\0")
        with contextlib.suppress(ValueError):
            kind, size = head.split(b" ")
            if int(size) == len(body):
                return kind, body
        raise BadObject(oid.hex(), "is not an object")


def _as_bad_object(error: BadObject | BadGitPack, oid: bytes) -> BadObject:
    return error if isinstance(error, BadObject) else BadObject(oid.hex(), f"cannot be read: {error}")
