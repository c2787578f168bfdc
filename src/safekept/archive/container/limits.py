"""How much an archive may be before it is refused: the defence against bombs.

Sizes in an archive are claims. They are added up before anything is read, reading stops at what was
claimed, and nothing is ever allocated by a claimed size.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator

from safekept.core.entries import Kind
from safekept.core.records import dataclass

from ..errors import too_large, unsafe


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Bounds on what will be read."""

    count: int = 2_000_000  # members
    ratio: int = 250  # content by archive size; only looked at above `ratio_floor`
    ratio_floor: int = 1 << 30
    #: An archive that says it is ours may hold the holes of sparse files, as zeros; by its claims alone it is
    #: a bomb beyond this. What is no zero is counted as it comes out, with the bounds of any other.
    own_ratio_floor: int = 64 << 30
    #: Archive bytes that each member must have; only looked at above `crowd` members.
    bytes_each: int = 8
    crowd: int = 100_000
    free_bytes: int | None = None  # room where it shall land, if known
    folds_case: bool = False  # the target takes `A` and `a` for one name


#: Content of any size is held against the SHA-256 of our manifest by the reader itself.
HASH_ALL = 1 << 62
#: None is: for one who computes it anyway, and compares it with `Entry.sha256`.
HASH_NONE = -1

#: For reading back what we wrote ourselves a moment ago.
NO_LIMITS = ReadLimits(count=1 << 62, ratio=1 << 62, bytes_each=0)


_STEP = 64 << 10


class Budget:
    """Adds up what an archive claims or delivers, and refuses at the first limit passed."""

    def __init__(self, path: str, stored: int, limits: ReadLimits) -> None:
        self.path, self.stored, self.limits = path, max(stored, 1), limits
        self.count = 0
        self.total = 0
        self.own = False  # the archive says that it is ours, as any can

    def add(self, size: int) -> None:
        self.count += 1
        self.total += size
        if self.count > self.limits.count:
            raise too_large(self.path, f"holds more than {self.limits.count:,} members")
        if self.limits.free_bytes is not None and self.total > self.limits.free_bytes:
            raise too_large(
                self.path,
                f"unpacks to more than the {self.limits.free_bytes:,} bytes free where it shall land",
            )
        if self.count > self.limits.crowd and self.count * self.limits.bytes_each > self.stored:
            raise too_large(self.path, f"holds {self.count:,} members in {self.stored:,} bytes, as bombs do")
        if self.total > (self.limits.own_ratio_floor if self.own else self.limits.ratio_floor):
            ratio = self.total // self.stored
            if ratio > self.limits.ratio:
                raise too_large(self.path, f"unpacks to more than {self.limits.ratio} times its size")


class Delivered:
    """Counts what comes out of an archive that says it is ours; zeros become holes again and cost nothing."""

    def __init__(self, path: str, stored: int, limits: ReadLimits) -> None:
        self._path, self._limits = path, limits
        self._most = max(limits.ratio_floor, stored * limits.ratio)
        self._data = 0
        self._counted: set[str] = set()  # members that were read to their end: some are read twice

    def counted(self, member: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The same bytes; ArchiveTooLarge where they are more than an archive of this size should hold."""
        for chunk in chunks:
            if member not in self._counted:
                self._data += sum(
                    len(part)
                    for start in range(0, len(chunk), _STEP)
                    if (part := chunk[start : start + _STEP]).strip(b"\0")
                )
                if self._data > self._most:
                    raise too_large(
                        self._path, f"unpacks to more than {self._limits.ratio} times its size, as bombs do"
                    )
            yield chunk
        self._counted.add(member)


# Which names may come out of an archive. A name that could land outside the target, hide another one, or
# be written through a link is never handed on: the whole archive is refused, since no program makes such a
# name by accident.

_DRIVE = re.compile(r"[A-Za-z]:")
#: The longest path, the most parts of one, and the longest part: what a Linux filesystem takes.
LONGEST, MOST_PARTS, LONGEST_PART = 4096, 255, 255


def beyond_bounds(path: str) -> str:
    """What is wrong with the length of a path; "" for one that can lie in an archive and on a disk."""
    raw = path.encode("utf-8", "surrogatepass")
    if len(raw) > LONGEST:
        return f"a path of more than {LONGEST:,} bytes"
    if raw.count(b"/") > MOST_PARTS - 1:
        return f"a path of more than {MOST_PARTS} parts"
    if len(raw) > LONGEST_PART and max(map(len, os.fsencode(path).split(b"/"))) > LONGEST_PART:
        return f"a name of more than {LONGEST_PART} bytes"
    return ""


def clean_name(archive: str, raw: str, own: bool) -> str:
    """The name as a relative path, `""` for the root itself; raises for one that is not safe.

    `own`: the archive carries our manifest. A home on Linux may hold `a\\b` or `c:x`, and must get
    it back; in a foreign archive such a name is a trick played on another system.
    """
    # Looked at before anything is taken apart: a name of 100,000 parts would cost gigabytes.
    if len(raw) > LONGEST_PART and (reason := _bounds(raw)):
        raise unsafe(archive, f"{raw[:80]}…", reason)
    if "\0" in raw:
        raise unsafe(archive, raw.replace("\0", "\\0"), "a name with a NUL byte")
    if not raw.isascii() and not _is_path(raw):
        raise unsafe(archive, raw, "a name that no file can have")
    if raw.startswith("/"):
        raise unsafe(archive, raw, "an absolute path")
    strict = not own or os.name == "nt"
    if strict:
        if _DRIVE.match(raw):
            raise unsafe(archive, raw, "a path with a drive letter")
        if "\\" in raw and (raw.startswith("\\") or ".." in raw.replace("\\", "/").split("/")):
            raise unsafe(archive, raw, "a path that leaves the target by backslashes")
    if ".." not in raw and "//" not in raw and "./" not in raw and not raw.endswith(("/", ".")):
        return raw  # the common case, without taking the name apart
    parts = [part for part in raw.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise unsafe(archive, raw, "a path that leaves the target by `..`")
    return "/".join(parts)


def _bounds(raw: str) -> str:
    try:
        return beyond_bounds(raw.rstrip("/"))
    except UnicodeError:
        return "a name that no file can have"


def _is_path(raw: str) -> bool:
    """Whether a name can be one: a lone half of a pair, as JSON can carry it, stands for no byte."""
    try:
        os.fsencode(raw)
    except UnicodeError:
        return False
    return True


def check_target(archive: str, name: str, target: str) -> None:
    """Raise for a link whose target no filesystem could hold."""
    if "\0" in target or not _is_path(target):
        raise unsafe(archive, name, "a link whose target is no path")
    if len(target) > LONGEST or len(os.fsencode(target)) >= LONGEST:
        raise unsafe(archive, name, f"a link whose target has {LONGEST:,} bytes or more")


class ArchiveNames:
    """Every name of one archive: finds duplicates, collisions, and links or files used as parents."""

    def __init__(self, archive: str, limits: ReadLimits) -> None:
        self.archive, self.limits = archive, limits
        self.kinds: dict[str, Kind] = {}

    def add(self, name: str, kind: Kind) -> bool:
        """Note a name; False for a directory listed twice, which is harmless."""
        if name in self.kinds:
            if kind is Kind.DIRECTORY and self.kinds[name] is Kind.DIRECTORY:
                return False
            raise unsafe(self.archive, name, "the same name twice")
        self.kinds[name] = kind
        return True

    def close(self) -> None:
        """Look at all names together, once every one is known."""
        kinds = self.kinds
        checked: set[str] = set()
        for name in kinds:
            parent = name.rpartition("/")[0]
            while parent and parent not in checked:
                checked.add(parent)
                kind = kinds.get(parent, Kind.DIRECTORY)
                if kind is Kind.SYMLINK:
                    raise unsafe(self.archive, name, f"a path through the link `{parent}`")
                if kind is Kind.FILE:
                    raise unsafe(self.archive, name, f"a path through the file `{parent}`")
                parent = parent.rpartition("/")[0]
        if self.limits.folds_case:
            self._refuse_collisions()

    def _refuse_collisions(self) -> None:
        folded: dict[str, str] = {}
        for name, kind in self.kinds.items():
            if kind is Kind.DIRECTORY:
                continue
            key = unicodedata.normalize("NFC", name).casefold()
            other = folded.setdefault(key, name)
            if other != name:
                raise unsafe(
                    self.archive, name, f"which the target cannot tell from `{other}`: it ignores case"
                )


def leaves_target(link: str, target: str) -> bool:
    """Whether a link points outside the tree it lies in; it is kept as it is, and reported."""
    if target.startswith("/"):
        return True
    depth = link.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0:
                return True
        elif part not in ("", "."):
            depth += 1
    return False
