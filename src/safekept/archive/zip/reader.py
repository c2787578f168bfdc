"""Reads zips: ours, Hermes's, and other people's.

Members are opened at random and from several threads. Inflating stops at the size a member claims;
size, CRC and, where our manifest has it, SHA-256 are checked with the last byte. An import asks for no
SHA-256 here: its landing computes the one of every byte it writes.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from safekept.core.entries import Entry, Kind, Outcome, Remark

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
    HEAD,
    HEAD_LIMIT,
    PIECE,
    PREFIX,
    Record,
    check_entries,
    parse_head,
    parse_records,
)
from ..errors import damaged, has_password, unsafe, unsupported
from .content import MemberContent, seconds_of
from .directory import CentralDirectory, Member, refuse_overlaps
from .records import BZIP2, COMMENT, DEFLATED, ENCRYPTED, LZMA, STORED, STRONG

_LINK_LIMIT = 4095
_SPECIAL = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class ZipReader:
    """The members of one zip as entries."""

    form = "zip"

    def __init__(
        self, handle: Handle, limits: ReadLimits, hash_up_to: int = HASH_ALL, threads: int = 2
    ) -> None:
        self.handle, self.path, self._hash_up_to = handle, handle.path, hash_up_to
        self.ordered = handle.in_order
        self._places: dict[str, int] = {}
        self.remarks: list[Remark] = []
        self.head: dict[str, object] | None = None
        self._rest: list[Member] = []
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="safekept-unpack")
        self._delivered = Delivered(self.path, handle.size, limits)
        directory = CentralDirectory(handle)
        budget = Budget(self.path, handle.size, limits)
        members: list[Member] = []
        own = directory.comment.startswith(COMMENT)
        budget.own = own
        marked = False
        for member in directory.members():
            if member.flags & (ENCRYPTED | STRONG):
                raise has_password(self.path, member.name)
            if member.method not in (STORED, DEFLATED, BZIP2, LZMA):
                raise unsupported(self.path, f"`{member.name}` is compressed by method {member.method}")
            budget.add(member.size)
            marked = marked or member.own
            members.append(member)
        if own != marked:
            raise damaged(self.path, "its manifest and its comment do not belong together", HEAD)
        refuse_overlaps(self.path, members, directory.start)
        book = ArchiveNames(self.path, limits)
        self._entries = self._own(members, book) if own else self._foreign(members, book)
        book.close()
        self._entries.sort(key=lambda entry: (self._places.get(entry.path, -1), entry.path))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def finish(self) -> None:
        """Read what no entry stands for: the rest of the manifest's members."""
        for member in self._rest:
            for _ in self._content(member).chunks():
                pass

    # -- ours ------------------------------------------------------------------------------------

    def _own(self, members: list[Member], book: ArchiveNames) -> list[Entry]:
        by_name: dict[str, Member] = {}
        for member in members:
            if member.name in by_name:
                raise unsafe(self.path, member.name, "the same name twice")
            by_name[member.name] = member
        head, listing = by_name.pop(HEAD, None), by_name.pop(ENTRIES, None)
        if head is None or listing is None:
            raise damaged(self.path, "its manifest is missing", HEAD)
        if head.size > HEAD_LIMIT:
            raise damaged(self.path, "its manifest is larger than one can be", HEAD)
        self.head = parse_head(self.path, b"".join(self._content(head).chunks()))
        content = self._content(listing, hash_it=True)
        entries = [
            self._own_entry(record, by_name, book)
            for record in parse_records(self.path, content.chunks(), book.limits.count)
        ]
        check_entries(self.path, self.head, content.size, content.digest)
        for name, member in by_name.items():
            if not name.startswith(PREFIX):
                raise damaged(self.path, "it is not in the manifest", name)
            self._rest.append(member)
        return entries

    def _own_entry(self, record: Record, by_name: dict[str, Member], book: ArchiveNames) -> Entry:
        name = clean_name(self.path, record.path, own=True)
        if name != record.path:
            raise damaged(self.path, "its list of entries has a name that is not plain", record.path)
        book.add(name, record.kind)
        if record.kind is Kind.SYMLINK:
            check_target(self.path, name, record.target)
            self._note_link(name, record.target)
            return Entry(name, Kind.SYMLINK, record.mode, record.mtime_ns, target=record.target)
        if record.kind is Kind.DIRECTORY:
            if by_name.pop(name + "/", None) is None:
                raise damaged(self.path, "it is in the manifest, but not in the archive", name)
            return Entry(name, Kind.DIRECTORY, record.mode, record.mtime_ns)
        member = by_name.pop(name, None)
        if member is None:
            raise damaged(self.path, "it is in the manifest, but not in the archive", name)
        if member.size != record.size:
            raise damaged(self.path, "its size is not the one in the manifest", name)
        pieces = record.pieces
        if pieces is not None and (
            sum(pieces) != member.deflated
            or len(pieces) != -(-record.size // PIECE)
            or member.method != DEFLATED
        ):
            raise damaged(self.path, "its pieces are not those in the manifest", name)
        self._place(name, member)
        return record.file_entry(partial(self._content, member, record))

    # -- other people's --------------------------------------------------------------------------

    def _foreign(self, members: list[Member], book: ArchiveNames) -> list[Entry]:
        entries: dict[str, Entry] = {}
        for member in members:
            name = clean_name(self.path, member.name, own=False)
            if not name:
                continue
            if name.startswith(PREFIX) or name == PREFIX[:-1]:
                reason = "the manifest of another archive, left in this home by an import"
                self.remarks.append(Remark(name, Outcome.EXCLUDED, reason, bytes=member.size))
                continue
            entry = self._foreign_entry(name, member)
            if entry is not None and book.add(name, entry.kind):
                entries[name] = entry
        return list(entries.values())

    def _foreign_entry(self, name: str, member: Member) -> Entry | None:
        unix = member.attributes >> 16
        mtime_ns = seconds_of(member) * 1_000_000_000
        if member.name.endswith("/"):
            return Entry(name, Kind.DIRECTORY, unix & 0o7777 or 0o755, mtime_ns)
        kind = stat.S_IFMT(unix)
        if kind == stat.S_IFLNK:
            if member.size > _LINK_LIMIT:
                raise damaged(self.path, "a link cannot be that long", name)
            raw = b"".join(self._content(member).chunks())
            if not raw or b"\0" in raw:
                raise damaged(self.path, "its link target is not one", name)
            target = raw.decode("utf-8", "surrogateescape")
            self._note_link(name, target)
            return Entry(name, Kind.SYMLINK, 0o777, mtime_ns, target=target)
        if kind not in (0, stat.S_IFREG):
            what = _SPECIAL.get(kind, "neither a file, a directory nor a link")
            reason = f"{what}: there are no bytes to keep"
            self.remarks.append(Remark(name, Outcome.PASSED_OVER, reason, bytes=member.size))
            return None
        self._place(name, member)
        return Entry(
            path=name,
            kind=Kind.FILE,
            mode=unix & 0o777 or 0o644,
            mtime_ns=mtime_ns,
            size=member.size,
            open=partial(self._content, member),
        )

    def _note_link(self, name: str, target: str) -> None:
        if leaves_target(name, target):
            self.remarks.append(Remark(name, Outcome.NOTED, f"a link that points outside, to {target}"))

    # -- content ---------------------------------------------------------------------------------

    def _place(self, name: str, member: Member) -> None:
        """Where going back is dear, files come in the order in which they lie in the zip."""
        if self.ordered:
            self._places[name] = member.offset

    def _content(
        self, member: Member, record: Record | None = None, hash_it: bool | None = None
    ) -> MemberContent:
        if record is not None and record.size > self._hash_up_to:
            hash_it = False
        delivered = self._delivered if record is not None else None
        return MemberContent(self.handle, member, self._pool, record, hash_it, delivered)
