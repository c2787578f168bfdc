"""Reads tars: ours, and those people make by hand.

A tar can only be read from front to back. Of our own, the manifest tells what is in it; of others, a
first pass does. Entries may then be opened in their order at the cost of one more pass; opened out of
order they are still right, only slower.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from safekept.core.entries import Content, Entry, Kind, Outcome, Remark
from safekept.core.next_step import NextStep

from ..container.handle import Handle
from ..container.limits import (
    HASH_ALL,
    ArchiveNames,
    Budget,
    Delivered,
    ReadLimits,
    check_target,
    clean_name,
    leaves_target,
)
from ..container.manifest import (
    ENTRIES,
    FORMAT,
    HEAD,
    HEAD_LIMIT,
    PREFIX,
    Record,
    check_entries,
    parse_head,
    parse_records,
)
from ..errors import NOTHING_CHANGED, ArchiveDamaged, ArchiveUnknown, damaged, too_large
from .foreign import ForeignListing
from .parser import KINDS, Feed, TarMember, TarParser
from .records import Trailer, member_header, read_trailer
from .streams import frames, unpacked


class TarReader:
    """The members of one tar as entries."""

    ordered = True

    def __init__(
        self, handle: Handle, limits: ReadLimits, codec: str, hash_up_to: int = HASH_ALL, threads: int = 2
    ) -> None:
        self.handle, self.path, self.codec, self.limits = handle, handle.path, codec, limits
        self.form = {"zstd": "tar.zst", "gzip": "tar.gz", "bzip2": "tar.bz2", "xz": "tar.xz"}.get(
            codec, "tar"
        )
        self.hash_up_to = hash_up_to
        self.delivered = Delivered(self.path, handle.size, limits)
        self.remarks: list[Remark] = []
        self.head: dict[str, object] | None = None
        self._records: list[Record] = []
        self._lost: frozenset[str] = frozenset()
        self._threads, self._pool = threads, None  # type: int, ThreadPoolExecutor | None
        self._parser: TarParser | None = None
        self._position = 0  # how many members the pass under way has returned
        self._trailer = read_trailer(handle) if codec == "zstd" else None
        try:
            self._entries = self._list()
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def close(self) -> None:
        self._stop()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    # -- listing ---------------------------------------------------------------------------------

    def _list(self) -> list[Entry]:
        book = ArchiveNames(self.path, self.limits)
        if self._trailer is not None:
            self._read_manifest(self._trailer)
            entries = self._own(book)
        else:
            entries = self._walk(book)
        book.close()
        return entries

    def _read_manifest(self, trailer: Trailer) -> None:
        """The manifest out of its own frames, without unpacking the rest."""
        offset = sum(trailer.frames[: trailer.manifest])
        feed = Feed(
            self.path, frames(self.handle, offset, trailer.frames[trailer.manifest :], self._executor())
        )
        try:
            parser = TarParser(feed)
            while (member := parser.next()) is not None:
                self._manifest_member(parser, member)
        finally:
            feed.close()
        if self.head is None:
            raise damaged(self.path, "its manifest is missing", HEAD)

    def _manifest_member(self, parser: TarParser, member: TarMember) -> None:
        name = member.name.decode("utf-8", "surrogateescape")
        if name == HEAD:
            if member.size > HEAD_LIMIT or self.head is not None:
                raise damaged(self.path, "its manifest is larger than one can be", HEAD)
            self.head = parse_head(self.path, b"".join(parser.body(member)))
            lost = self.head.get("lost")
            self._lost = frozenset(str(path) for path in lost) if isinstance(lost, list) else frozenset()
        elif name == ENTRIES and self.head is not None:
            if self._records:
                raise damaged(self.path, "its list of entries is there twice", ENTRIES)
            digest = hashlib.sha256()

            def hashed() -> Iterator[bytes]:
                for chunk in parser.body(member):
                    digest.update(chunk)
                    yield chunk

            self._records = list(parse_records(self.path, hashed(), self.limits.count))
            check_entries(self.path, self.head, member.size, digest.hexdigest())

    def _own(self, book: ArchiveNames) -> list[Entry]:
        budget = Budget(self.path, self.handle.size, self.limits)
        budget.own = True
        directories, files = [], []
        for index, record in enumerate(self._records):
            name = clean_name(self.path, record.path, own=True)
            if name != record.path:
                raise damaged(self.path, "its list of entries has a name that is not plain", record.path)
            budget.add(record.size)
            book.add(name, record.kind)
            if record.kind is Kind.FILE:
                files.append(record.file_entry(partial(self._content, index, record)))
            else:
                check_target(self.path, name, record.target)
                self._note_link(name, record.target)
                entry = Entry(name, record.kind, record.mode, record.mtime_ns, target=record.target)
                directories.append(entry)
        directories.sort(key=lambda entry: entry.path)
        return directories + files

    def _walk(self, book: ArchiveNames) -> list[Entry]:
        """The first pass over a tar that does not say at its end what is in it."""
        budget = Budget(self.path, self.handle.size, self.limits)
        listed: list[TarMember] = []
        parser = self._begin()
        while (member := self._first(parser) if not listed else parser.next()) is not None:
            budget.add(member.size)
            marked = member.name == HEAD.encode() and member.comment.startswith(FORMAT + " ")
            if marked or (self.head is not None and member.name == ENTRIES.encode()):
                self._manifest_member(parser, member)
            listed.append(member)
        drained = parser.feed.drain()
        if drained > max(self.limits.ratio_floor, self.handle.size * self.limits.ratio):
            raise too_large(
                self.path, f"unpacks to more than {self.limits.ratio} times its size, as bombs do"
            )
        self._stop()
        if self.head is None:
            listing = ForeignListing(self.path, Budget(self.path, self.handle.size, self.limits), book)
            entries = listing.entries(listed, partial(TarContent, self))
            self.remarks.extend(listing.remarks)
            return entries
        self._compare(listed)
        return self._own(book)

    def _first(self, parser: TarParser) -> TarMember | None:
        try:
            return parser.next()
        except ArchiveDamaged as error:
            if error.facts.get("reason") != "a header in it is broken" or self.codec == "plain":
                raise
            raise ArchiveUnknown(
                f"`{self.path}` is not an archive: what is packed in it is not a tar",
                kept=NOTHING_CHANGED,
                next_steps=(
                    NextStep(
                        "backup", before="Name an archive made by", after=", `hermes backup`, `zip` or `tar`"
                    ),
                ),
                path=self.path,
            ) from None

    def _compare(self, listed: list[TarMember]) -> None:
        position = 0
        for member in listed:
            if self._passed_over(member):
                continue
            self._matches(member, position)
            position += 1
        if position != len(self._records):
            missing = self._records[position].path
            raise damaged(self.path, "it is in the manifest, but not in the archive", missing)

    def _passed_over(self, member: TarMember) -> bool:
        name = member.name.decode("utf-8", "surrogateescape")
        return name.startswith(PREFIX) or name in self._lost

    def _matches(self, member: TarMember, position: int) -> None:
        """The member is the one that the manifest has in this place."""
        name = member.name.decode("utf-8", "surrogateescape")
        if position >= len(self._records):
            raise damaged(self.path, "it is not in the manifest", name)
        record = self._records[position]
        kind = KINDS.get(member.kind)
        if name.rstrip("/") != record.path or kind is not record.kind:
            raise damaged(self.path, "it is not what the manifest has in its place", name)
        if kind is Kind.FILE and member.size != record.size:
            raise damaged(self.path, "its size is not the one in the manifest", name)
        if kind is Kind.SYMLINK and member.target.decode("utf-8", "surrogateescape") != record.target:
            raise damaged(self.path, "its target is not the one in the manifest", name)

    def _note_link(self, name: str, target: str) -> None:
        if target and leaves_target(name, target):
            self.remarks.append(Remark(name, Outcome.NOTED, f"a link that points outside, to {target}"))

    # -- passes ----------------------------------------------------------------------------------

    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="safekept-unpack")
        return self._pool

    def _begin(self) -> TarParser:
        self._stop()
        if self._trailer is not None:
            chunks = frames(self.handle, 0, self._trailer.frames, self._executor())
        else:
            chunks = unpacked(self.handle, self.codec)
        self._parser, self._position = TarParser(Feed(self.path, chunks)), 0
        return self._parser

    def _stop(self) -> None:
        if self._parser is not None:
            self._parser.feed.close()
            self._parser = None

    def seek(self, index: int) -> tuple[TarParser, TarMember]:
        """The parser standing at the body of member `index`."""
        parser = self._parser
        if parser is None or self._position > index:
            parser = self._begin()
        while True:
            member = self._step(parser)
            if member is None:
                raise damaged(self.path, "it ends too early")
            if self._position == index + 1:
                return parser, member

    def _step(self, parser: TarParser) -> TarMember | None:
        if self.head is not None and self._position < len(self._records):
            # What we write is a function of the record, so most headers need no parsing.
            record = self._records[self._position]
            if parser.known(member_header(record), record.path, record.size):
                self._position += 1
                return TarMember(b"", b"0", 0, 0, record.size, record.size, b"")
        while (member := parser.next()) is not None:
            if self.head is not None:
                if self._passed_over(member):
                    continue
                self._matches(member, self._position)
            self._position += 1
            return member
        return None

    def finish(self) -> None:
        """Read what follows the last entry, to the very end of the file."""
        parser = self._parser or self._begin()
        while self._step(parser) is not None:
            pass
        if self.head is not None and self._position != len(self._records):
            missing = self._records[self._position].path
            raise damaged(self.path, "it is in the manifest, but not in the archive", missing)
        parser.feed.drain()
        self._stop()

    def _content(self, index: int, record: Record) -> Content:
        content = TarContent(self, index, record.size, record.mtime_ns, record.sha256)
        content.database = record.database_facts
        return content

    def stands_at(self, parser: TarParser, index: int) -> bool:
        """Whether no other entry was opened meanwhile."""
        return self._parser is parser and self._position == index + 1


class TarContent(Content):
    """The bytes of one member, checked while they pass."""

    def __init__(self, reader: TarReader, index: int, size: int, mtime_ns: int, sha256: str) -> None:
        super().__init__()
        self.reader, self.index, self.size, self.mtime_ns, self.sha256 = reader, index, size, mtime_ns, sha256

    def close(self) -> None:
        pass

    def chunks(self) -> Iterator[bytes]:
        if self.reader.head is None:
            return self._checked()
        return self.reader.delivered.counted(str(self.index), self._checked())

    def _checked(self) -> Iterator[bytes]:
        reader = self.reader
        parser, member = reader.seek(self.index)
        name = parser.member
        if member.size != self.size:
            raise damaged(reader.path, "its size has changed since it was listed", name)
        wanted = self.sha256 and self.size <= reader.hash_up_to
        sha = hashlib.sha256() if wanted else None
        for chunk in parser.body(member):
            if sha is not None:
                sha.update(chunk)
            yield chunk
            if not reader.stands_at(parser, self.index):
                raise RuntimeError(f"another entry was opened while {name} was being read")
        if sha is not None and sha.hexdigest() != self.sha256:
            raise damaged(reader.path, "its SHA-256 is not the one in the manifest", name)
