"""The manifest: what makes one of our archives exact, and readable without us.

Three members, written last. `.safekept/entries.jsonl` has one line per entry: path, kind, mode,
nanosecond time, size, SHA-256, link target. `.safekept/README.txt` says how to restore by hand.
`.safekept/manifest.json` is the head: who, when, whether complete, and the hash of the entries.
Paths of any bytes survive: JSON escapes carry `surrogateescape` names as they are.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from safekept.core.entries import CHUNK, Content, DatabaseFacts, Entry, Kind, Outcome, Remark
from safekept.core.records import dataclass

from ..errors import ArchiveDamaged, damaged, too_large, unsupported

FORMAT = "safekept-archive"
VERSION = 1
PREFIX = ".safekept/"
HEAD = PREFIX + "manifest.json"
ENTRIES = PREFIX + "entries.jsonl"
README = PREFIX + "README.txt"
#: A head is small; a member that claims to be one and is larger than this is not read.
HEAD_LIMIT = 16 << 20
#: What a head says of single files is cut here, so that a head always can be read back.
_REMARKS_LIMIT = 8 << 20
#: Parsed JSON takes many times its text: a head has no more lists, fields and values than this.
_MOST_VALUES = 1_000_000
#: The longest line: a file of a terabyte has a list of pieces about that long.
_LINE_LIMIT = 8 << 20
#: Brackets in a long line: those of its names, and a few of its own. Empty lists are a way to fill memory.
_MOST_BRACKETS = 20_000
#: Seconds since 1970, either way, that a file's time may be: what every system call takes.
TIME_LIMIT = 1 << 62

#: The size of the pieces that large zip members are cut into; each can be inflated on its own.
PIECE = 1 << 20


@dataclass(slots=True)
class Record:
    """One line of `entries.jsonl`."""

    path: str
    kind: Kind
    mode: int
    mtime_ns: int
    size: int = 0
    sha256: str = ""
    target: str = ""
    database: dict[str, object] | None = None
    pieces: list[int] | None = None  # deflated size of each PIECE, where a zip member has several

    def file_entry(self, content: Callable[[], Content]) -> Entry:
        """The file as it is unpacked; `content` opens its bytes."""
        facts = self.database_facts
        return Entry(
            path=self.path,
            kind=Kind.FILE,
            mode=self.mode & 0o777,
            mtime_ns=self.mtime_ns,
            size=self.size,
            sha256=self.sha256,
            database=self.database is not None,
            left_out=facts.left_out if facts is not None else 0,
            open=content,
        )

    @property
    def database_facts(self) -> DatabaseFacts | None:
        """What was found of the database when it was stored; such a line can be forged."""
        if self.database is None:
            return None
        state, method = self.database.get("state"), self.database.get("method")
        detail, page_size = self.database.get("detail"), self.database.get("page_size")
        return DatabaseFacts(
            state=state if state in ("sound", "damaged") else "unverified",
            method=str(method or ""),
            detail=str(detail or ""),
            page_size=page_size if type(page_size) is int else 0,
            lean=lean if isinstance(lean := self.database.get("lean"), dict) else None,
        )

    def line(self) -> bytes:
        """The line, with its line end. Built by hand: json.dumps would be a tenth of a backup's time."""
        text = (
            f'{{"path":{quote(self.path)},"kind":"{self.kind.value}",'
            f'"mode":"{self.mode:04o}","mtime_ns":{self.mtime_ns}'
        )
        if self.kind is Kind.FILE:
            text += f',"size":{self.size},"sha256":"{self.sha256}"'
            if self.database is not None:
                text += f',"database":{json.dumps(self.database)}'
            if self.pieces is not None:
                text += f',"pieces":{json.dumps(self.pieces, separators=(",", ":"))}'
        elif self.kind is Kind.SYMLINK:
            text += f',"target":{quote(self.target)}'
        return (text + "}\n").encode("ascii")


def parse_records(archive: str, chunks: Iterable[bytes], limit: int) -> Iterator[Record]:
    """The records of `entries.jsonl`; every field is checked, since such a file can be forged."""
    rest, count = b"", 0
    for chunk in chunks:
        lines, newline, rest = (rest + chunk).rpartition(b"\n")
        if newline:
            if len(lines) > 2 * CHUNK and lines.count(b"[") + lines.count(b"{") > _MOST_BRACKETS:
                raise _not_understood(archive)
            try:
                # One call for thousands of lines: a quarter of the time of a call for each.
                batch = json.loads("[" + lines.decode("ascii").replace("\n", ",") + "]")
            except (ValueError, RecursionError):
                raise _not_understood(archive) from None
            count += len(batch)
            if count > limit:
                raise too_large(archive, f"holds more than {limit:,} members")
            for fields in batch:
                yield _record(archive, fields)
        elif len(rest) > _LINE_LIMIT:
            raise _not_understood(archive)
    if rest:
        raise damaged(archive, "its list of entries ends in the middle of a line", ENTRIES)


_KINDS = {kind.value: kind for kind in Kind}


def _not_understood(archive: str) -> ArchiveDamaged:
    return damaged(archive, "its list of entries cannot be understood", ENTRIES)


def _record(archive: str, fields: dict[str, Any]) -> Record:
    try:
        kind = _KINDS[fields["kind"]]
        path, mode, mtime_ns = fields["path"], int(fields["mode"], 8), fields["mtime_ns"]
        size, digest = fields.get("size", 0), fields.get("sha256", "")
        target, database, pieces = fields.get("target", ""), fields.get("database"), fields.get("pieces")
        if not (
            type(path) is str
            and path
            and type(mtime_ns) is int
            and abs(mtime_ns) < TIME_LIMIT * 1_000_000_000
            and type(size) is int
            and size >= 0
            and 0 <= mode <= 0o7777
            and type(digest) is str
            and len(digest) == (64 if kind is Kind.FILE else 0)
            and type(target) is str
            and (database is None or type(database) is dict)
        ):
            raise ValueError(path)
        if pieces is not None and not (
            len(pieces) == -(-size // PIECE) and all(type(number) is int and number > 0 for number in pieces)
        ):
            raise ValueError(path)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _not_understood(archive) from None
    return Record(path, kind, mode, mtime_ns, size, digest, target, database, pieces)


def make_head(
    facts: Mapping[str, object],
    *,
    complete: bool,
    damaged_paths: list[str],
    remarks: list[Remark],
    counts: Mapping[str, int],
    lost: list[str],
    entries_size: int,
    entries_sha256: str,
    form: str,
) -> bytes:
    """The bytes of `manifest.json`."""
    head: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        **facts,
        "complete": complete,
        "damaged": damaged_paths,
        "counts": dict(counts),
        "lost": lost,
        "entries": {"member": ENTRIES, "size": entries_size, "sha256": entries_sha256},
        "restore": _by_hand(form),
        "remarks": _bounded(remarks),
    }
    return json.dumps(head, indent=1, default=str).encode("ascii") + b"\n"


def _bounded(remarks: list[Remark]) -> list[dict[str, object]]:
    """Remarks for a head: what is incomplete first, and no more than can be read back."""
    kept: list[dict[str, object]] = []
    room = _REMARKS_LIMIT
    for remark in sorted(remarks, key=lambda remark: not remark.incomplete):
        fields = remark.as_dict()
        room -= 40 + sum(len(str(value)) * 2 for value in fields.values())
        if room < 0:
            reason = f"and {len(remarks) - len(kept):,} more lines; the report of the backup has them all"
            kept.append(Remark("", Outcome.NOTED, reason).as_dict())
            break
        kept.append(fields)
    return kept


def parse_head(archive: str, data: bytes) -> dict[str, object]:
    """The head as a dictionary; raises for anything that is not one of ours or too new."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > _MOST_VALUES:
        raise damaged(archive, "its manifest holds more than one can", HEAD)
    try:
        head = json.loads(data)
    except (ValueError, RecursionError):
        raise damaged(archive, "its manifest cannot be understood", HEAD) from None
    if not isinstance(head, dict) or head.get("format") != FORMAT or type(head.get("version")) is not int:
        raise damaged(archive, "its manifest cannot be understood", HEAD)
    if head["version"] > VERSION:
        raise unsupported(
            archive,
            f"its manifest has version {head['version']}, made by a newer safekept than this one",
        )
    return head


def check_entries(archive: str, head: Mapping[str, object], size: int, digest: str) -> None:
    """The list of entries is the one that the head was written for."""
    facts = head.get("entries")
    if not isinstance(facts, dict) or facts.get("size") != size or facts.get("sha256") != digest:
        raise damaged(archive, "its list of entries is not the one its manifest was written for", ENTRIES)


def _by_hand(form: str) -> list[str]:
    unpack = "unzip ARCHIVE -d NEW_HOME" if form == "zip" else "tar --zstd -xpf ARCHIVE -C NEW_HOME"
    return [
        "With safekept: safekept import ARCHIVE",
        f"By hand: mkdir -m 700 NEW_HOME, then {unpack}",
        f"{README} has the rest: links, permissions, and how to check",
    ]


def readme(form: str, created: object, links: Iterable[tuple[str, str]]) -> bytes:
    """How to restore without us, with every command that the container itself cannot express."""
    lines = [
        "This archive was made by safekept, and opens without it.",
        f"Made: {created}",
        "",
        "Restore with safekept:",
        "    safekept import ARCHIVE",
        "",
        "Restore by hand, with the agent stopped:",
        "    mkdir -m 700 NEW_HOME && cd NEW_HOME",
        "    unzip ARCHIVE" if form == "zip" else "    tar --zstd -xpf ARCHIVE",
        "Then move NEW_HOME to where the agent looks for its home, and remove NEW_HOME/.safekept.",
        "",
        f"{ENTRIES} lists every entry with its permissions (mode), exact time (mtime_ns,",
        "nanoseconds since 1970), size and SHA-256. To check one file: sha256sum FILE",
        "Databases (*.db) are whole: no -wal or -shm files belong to them.",
    ]
    commands = [f"    ln -s -- {shlex.quote(target)} {shlex.quote('./' + path)}" for path, target in links]
    if form == "zip" and commands:
        lines += ["", "Links, which a zip for Hermes cannot hold; run these inside NEW_HOME:", *commands]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")
