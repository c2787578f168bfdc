"""Opens archives, whatever made them: known by content, never by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from safekept.core.entries import Entry, Kind, Outcome, Remark, Source
from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass

from .container.handle import Handle, open_handle
from .container.limits import HASH_ALL, ReadLimits
from .container.manifest import HEAD, HEAD_LIMIT, parse_head
from .errors import NOTHING_CHANGED, ArchiveUnknown
from .sealing.seal import NO_IDENTITY, Identity, open_sealed, sealed_kind
from .zip.directory import has_end
from .zip.records import CENTRAL, CENTRAL_SIGNATURE, COMMENT, END_SIGNATURE, LOCAL_SIGNATURE

# Tells cheaply whether a file is one of our archives, and what its manifest says. Used to decide what
# may be rotated away, so it answers None whenever it is not sure. A sealed archive says nothing by
# itself; a caller that remembers the ones it made knows them again by their fingerprint.

_NAME = HEAD.encode()
_ENDS = 4096
Remembered = Callable[[str], dict[str, object] | None]


def fingerprint(path: str) -> str:
    """What a sealed file is known by: its size, its beginning and its end, which no other one shares."""
    handle = open_handle(path)
    try:
        return _fingerprint(handle)
    finally:
        handle.close()


def _fingerprint(handle: Handle) -> str:
    first, last = handle.some(0, _ENDS), handle.some(max(0, handle.size - _ENDS), _ENDS)
    return hashlib.sha256(b"%d " % handle.size + first + last).hexdigest()


def identify(path: str, sealed: Remembered | None = None) -> dict[str, object] | None:
    """The head of our manifest, or None for anything that is not surely a finished archive of ours.

    Of a sealed file, what `sealed` remembers under its fingerprint.
    """
    try:
        handle = open_handle(path)
    except SafekeptError:
        return None
    try:
        if sealed_kind(handle):
            return sealed(_fingerprint(handle)) if sealed is not None else None
        return _of_zip(handle) if handle.some(0, 2) == b"PK" else _of_tar(handle)
    except SafekeptError:
        return None
    finally:
        handle.close()


def _of_zip(handle: Handle) -> dict[str, object] | None:
    """The manifest is the last member, so the end of the central directory is enough."""
    from .zip.content import MemberContent
    from .zip.directory import CentralDirectory, Member, read_extra

    directory = CentralDirectory(handle)
    if not directory.comment.startswith(COMMENT):
        return None
    length = min(directory.size, 4096)
    tail = handle.read(directory.start + directory.size - length, length)
    at = tail.rfind(_NAME) - CENTRAL.size
    if at < 0:
        return None
    signature, *fields = CENTRAL.unpack_from(tail, at)
    if signature != CENTRAL_SIGNATURE or fields[9] != len(_NAME):
        return None
    member = Member(fields, _NAME)
    start = at + CENTRAL.size + fields[9]
    read_extra(handle.path, member, tail[start : start + fields[10]])
    member.offset += directory.shift
    if not member.own or member.size > HEAD_LIMIT:
        return None
    return parse_head(handle.path, b"".join(MemberContent(handle, member).chunks()))


def _of_tar(handle: Handle) -> dict[str, object] | None:
    from .tar.records import read_trailer

    trailer = read_trailer(handle)
    if trailer is None:
        return None
    from .tar.parser import Feed, TarParser
    from .tar.streams import frame

    offset = sum(trailer.frames[: trailer.manifest])
    data = frame(handle, offset, trailer.frames[trailer.manifest])
    parser = TarParser(Feed(handle.path, iter((data,))))
    member = parser.next()
    if member is None or member.name != _NAME or member.size > HEAD_LIMIT:
        return None
    return parse_head(handle.path, b"".join(parser.body(member)))


#: So many of the names beside a home are listed.
_NAMED = 5


class Archive:
    """An open archive: a Source, to be closed."""

    def __init__(
        self, handle: Handle, limits: ReadLimits, hash_up_to: int = HASH_ALL, sealed: str = ""
    ) -> None:
        self.path = handle.path
        self.sealed = sealed  # "age", "gpg", or empty
        self._handle = handle
        self._reader: Any = make_reader(handle, limits, hash_up_to)
        self.form: str = self._reader.form
        self.head: dict[str, object] | None = self._reader.head

    @property
    def ordered(self) -> bool:
        return bool(self._reader.ordered)

    @property
    def remarks(self) -> list[Remark]:
        remarks: list[Remark] = self._reader.remarks
        return remarks

    @property
    def entries(self) -> list[Entry]:
        """Every entry, as often as wanted."""
        return list(self._reader)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._reader)

    def __len__(self) -> int:
        return len(self._reader)

    def under(self, prefix: str) -> Source:
        """The entries below `prefix`, without it: for archives that wrap a home in a directory."""
        return Unwrapped(self, prefix.strip("/"))

    def finish(self) -> None:
        """Check what follows the last entry; worth calling once all content was read."""
        self._reader.finish()
        self._handle.settle()

    def close(self) -> None:
        self._reader.close()
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """A Source without the directory that everything lies in."""

    archive: Archive
    prefix: str

    @property
    def ordered(self) -> bool:
        return self.archive.ordered

    @property
    def remarks(self) -> list[Remark]:
        start = self.prefix + "/"
        inside = [
            replace(remark, path=remark.path.removeprefix(start)) if remark.path.startswith(start) else remark
            for remark in self.archive.remarks
        ]
        return inside + self._outside(start) if self.prefix else self.archive.remarks

    def _outside(self, start: str) -> list[Remark]:
        """One remark for all that lies beside the home in the archive."""
        files = size = 0
        tops: dict[str, None] = {}
        for entry in self.archive:
            if entry.path.startswith(start):
                continue
            if entry.kind is Kind.DIRECTORY:
                # The directories above the home belong to it; an empty one beside it is still a name.
                if not start.startswith(entry.path + "/"):
                    tops.setdefault(self._top(entry.path))
                continue
            tops.setdefault(self._top(entry.path))
            files += 1
            size += entry.size
        if not tops:
            return []
        names = [f"`{name}`" for name in list(tops)[:_NAMED]]
        more = f" and {len(tops) - _NAMED} more" if len(tops) > _NAMED else ""
        reason = f"outside `{self.prefix}`, which is the home in this archive: {', '.join(names)}{more}"
        return [Remark(next(iter(tops)), Outcome.EXCLUDED, reason, files, size)]

    def _top(self, path: str) -> str:
        """The outermost directory on the way to a path that is not on the way to the home."""
        parts, home = path.split("/"), self.prefix.split("/")
        depth = 0
        while depth < min(len(parts) - 1, len(home)) and parts[depth] == home[depth]:
            depth += 1
        return "/".join(parts[: depth + 1])

    def __iter__(self) -> Iterator[Entry]:
        start = self.prefix + "/"
        for entry in self.archive:
            if not self.prefix:
                yield entry
            elif entry.path.startswith(start):
                yield replace(entry, path=entry.path.removeprefix(start))


def open_archive(
    path: str,
    limits: ReadLimits = ReadLimits(),  # noqa: B008
    hash_up_to: int = HASH_ALL,
    identity: Identity = NO_IDENTITY,
) -> Archive:
    """Open any archive we can read; raises a typed error for everything else.

    A sealed one is opened with what `identity` has: nothing of it is unpacked to a disk.

    Content up to `hash_up_to` bytes is held against the SHA-256 of our manifest as it is read. A
    landing computes that of every byte it writes, so for one the reader need not do it too.
    """
    handle = open_handle(path)
    try:
        kind = sealed_kind(handle)
        if kind:
            handle = open_sealed(handle, kind, identity, limits)
        return Archive(handle, limits, hash_up_to, kind)
    except BaseException:
        handle.close()
        raise


def make_reader(handle: Handle, limits: ReadLimits, hash_up_to: int = HASH_ALL) -> Any:
    """The reader for what the file really is."""
    if handle.size == 0:
        raise _unknown(handle.path, "is empty")
    head = handle.some(0, 4)
    if head in (LOCAL_SIGNATURE, END_SIGNATURE):
        return _zip(handle, limits, hash_up_to)
    from .tar.reader import TarReader
    from .tar.records import read_trailer
    from .tar.streams import recognise

    codec = recognise(handle)
    if codec is None and read_trailer(handle) is not None:
        codec = "zstd"  # ours, with its first bytes damaged
    if codec is not None:
        return TarReader(handle, limits, codec, hash_up_to)
    if has_end(handle):
        return _zip(handle, limits, hash_up_to)
    raise _unknown(handle.path, "is not an archive")


def _zip(handle: Handle, limits: ReadLimits, hash_up_to: int) -> Any:
    from .zip.reader import ZipReader

    return ZipReader(handle, limits, hash_up_to)


def _unknown(path: str, what: str) -> ArchiveUnknown:
    return ArchiveUnknown(
        f"`{path}` {what}",
        kept=NOTHING_CHANGED,
        next_steps=(
            "Archives that can be read: zip, and tar plain or packed with zstd, gzip, bzip2 or xz",
            "Check that the copy or download of it came to an end",
        ),
        path=path,
    )
