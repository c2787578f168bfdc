"""The contract of a place for objects: list, read, write, delete, in a directory or behind a network.

What every place promises, and `tests/contract` proves:

* A name is a relative path (`data/ab/ab12…`, `archives/host/NAME`); `valid_name` says which are allowed.
* A write is whole when it returns, and as durable as the place can make it, or it did not happen: no reader
  ever reads part of an object under its name. Without `replace` a name that is taken is refused with
  Taken, and what is there is not touched. A write never makes the place itself: a drive that is not
  mounted or a bucket that is gone is PlaceMissing, and only `create` makes a missing root.
* A read gives exactly the bytes asked for, fewer only where the object ends.
* Deleting what is not there is no error.
* A listing shows whole objects only; temporary names (`.safekept-tmp-…`) are passed over.
* Every method may be called from several threads at once; `lanes` says how many pay.
* No method waits for ever, and no secret is in `location`, in an error or in a repr.

Failures are those of `errors.py`. What may be tried again was tried again before an error is raised.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from ..files import TEMPORARY_PREFIX
from ..records import dataclass
from .errors import PlaceRefused

#: What can be written: bytes, or a file opened for reading, which is taken from where it stands to its end.
Content = bytes | bytearray | memoryview | BinaryIO

CHUNK = 1 << 20
OF_THE_DISK = "lost+found"  # at the top of every ext disk, and root's alone
#: What is read at once: no file of a vault is larger, whatever a server says its size is.
LARGEST_READ = 512 << 20
#: Names in one listing: more than a place of ours can hold. A vault of so many packs has five terabytes.
MOST_NAMES = 300_000
ENDLESS = "it lists more than a place of ours can hold"
NO_TRUST = "Do not trust that server; see what runs there"


class NotThere(Exception):
    """There is no such object."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Taken(Exception):
    """The name is taken; what is there was not touched."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class Stored:
    """One object of a listing."""

    name: str
    size: int
    modified: float  # seconds since 1970 by the clock of the place; 0 where it does not say


@dataclass(frozen=True, slots=True)
class CredentialRights:
    """What the credential may do in a place, found out by doing it; None where that is unknown."""

    write: bool
    overwrite: bool | None = None
    delete: bool | None = None
    versioning: bool | None = None  # an overwritten or deleted object can still be brought back
    write_once: bool | None = None  # a taken name is refused by the place itself, also in a race
    left: str = ""  # the name of the probe, where it could not be deleted

    def as_dict(self) -> dict[str, object]:
        return {
            "overwrite": self.overwrite,
            "delete": self.delete,
            "versioning": self.versioning,
            "keeps": self.keeps,
        }

    @property
    def keeps(self) -> bool:
        """Whether nothing that is there can be taken away with this credential: by having tried."""
        return self.delete is False and (self.overwrite is False or self.versioning is True)


class ObjectStore(ABC):
    """A place for objects, below one root."""

    #: How many calls at once are worth while.
    lanes: int = 1

    @property
    @abstractmethod
    def location(self) -> str:
        """The place as a person would name it; never with a secret in it."""

    @abstractmethod
    def present(self) -> bool:
        """Whether the root is there (the drive is plugged in, the bucket exists)."""

    @abstractmethod
    def create(self) -> None:
        """Make the root where it is missing; a bucket is never made, it is PlaceMissing."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[Stored]:
        """Every object below a directory (`data/`, or "" for all), at any depth, in no promised order."""

    @abstractmethod
    def size(self, name: str) -> int:
        """The size of one object; NotThere where there is none."""

    @abstractmethod
    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of one object, or a part of them; NotThere where there is none."""

    @abstractmethod
    def stream(self, name: str, offset: int = 0) -> Iterator[bytes]:
        """The bytes of one object in pieces, from `offset` on; NotThere where there is none."""

    @abstractmethod
    def write(self, name: str, content: Content, *, replace: bool = False) -> None:
        """Store one object, whole and checked; Taken where the name is taken, unless `replace`."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove one object."""

    @abstractmethod
    def probe(self) -> CredentialRights:
        """Find out what may be done here, with a small object that is removed again if that is allowed.

        What was left by the last time is used again.
        """

    def room(self) -> tuple[int, int] | None:
        """Bytes free and bytes in all; None where that is unknown."""
        return None

    def sweep(self, older_than: float = 86_400.0) -> Sequence[str]:
        """Remove what broken-off writes left under temporary names so many seconds ago; what was removed."""
        return ()

    def directories(self, prefix: str = "") -> Iterator[str]:
        """The names directly below a directory that are directories themselves, sorted.

        Cheaper than a listing where the place can look without going down.
        """
        found = {
            stored.name[len(prefix) :].split("/")[0]
            for stored in self.list(prefix)
            if "/" in stored.name[len(prefix) :]
        }
        yield from sorted(found)

    def below(self, prefix: str) -> ObjectStore:
        """The same place, seen from a directory in it; closing the view does not close the place."""

        return Below(self, prefix)

    def exists(self, name: str) -> bool:
        try:
            self.size(name)
        except NotThere:
            return False
        return True

    def close(self) -> None:  # noqa: B027 - some places hold nothing open
        """Let go of connections and processes; may be called twice."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.location}>"


def valid_name(name: str) -> bool:
    """Whether every place can keep a name: parts of printable characters, none that a listing hides."""
    if not name or len(name.encode("utf-8", "surrogateescape")) > 800:
        return False
    if any(part in ("", ".", "..") or part.startswith(TEMPORARY_PREFIX) for part in name.split("/")):
        return False
    if "\\" in name:
        return False
    if name.isascii():
        return name.isprintable()
    return all(unicodedata.category(char) not in ("Cc", "Cs") for char in name)


def checked(name: str) -> str:
    """The name, if it is one; ValueError otherwise, since names are made by us and not by people."""
    if not valid_name(name):
        raise ValueError(f"not a name of an object: {name!r}")
    return name


def checked_prefix(prefix: str) -> str:
    """A prefix is a directory: empty, or a name and a slash."""
    if prefix and not (prefix.endswith("/") and valid_name(prefix[:-1])):
        raise ValueError(f"not a directory of objects: {prefix!r}")
    return prefix


# A view of a place from a directory in it: one destination holds several vaults and the archives.


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

    def probe(self) -> CredentialRights:
        return self.place.probe()

    def room(self) -> tuple[int, int] | None:
        return self.place.room()

    def sweep(self, older_than: float = 86_400.0) -> Sequence[str]:
        return self.place.sweep(older_than)


# Finding out what a credential may do by doing it, with one small object.

#: Names of probes start like this; one that could not be deleted stays.
PROBE = "safekept-probe-"


def probe_name() -> str:
    """This machine's own, and always the same: where it cannot be deleted, one stays and not one a night."""
    import hashlib
    import os

    return PROBE + hashlib.sha256(os.uname().nodename.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def probe_by_doing(
    place: ObjectStore, *, versioning: bool | None, again: Callable[[str], None] | None = None
) -> CredentialRights:
    """Write, replace and delete. `again` writes under a taken name without looking first, where that goes."""
    name = probe_name()
    write_probe(place, name, lambda: place.write(name, b"safekept"))
    once: bool | None = False
    if again is not None:
        try:
            again(name)
        except Taken:
            once = True
        except PlaceRefused:
            once = None
    overwrite = allowed(lambda: place.write(name, b"safekept again", replace=True))
    delete = allowed(lambda: place.delete(name))
    return CredentialRights(True, overwrite, delete, versioning, once, left="" if delete else name)


def write_probe(place: ObjectStore, name: str, write: Callable[[], None]) -> None:
    """Write it, or find that of the last time, which could not be deleted and may not be written over."""
    try:
        write()
    except Taken:
        return
    except PlaceRefused:
        if not place.exists(name):
            raise


def allowed(work: Callable[[], None]) -> bool:
    """Whether something is not refused."""
    try:
        work()
    except PlaceRefused:
        return False
    return True
