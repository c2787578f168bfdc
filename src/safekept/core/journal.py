"""The journal: one append-only record of every operation, behind `log`, `status` and `undo`.

One JSON object per line. A line is written by a single `write` to a file opened for appending,
under a lock, so that many processes can write at once; a writer that died half way leaves a torn
last line, which the next writer ends and every reader passes over. Readers take no lock, and a writer
that hangs holds others up for a moment only. Lines of a newer version are kept and shown as far
as they are understood. Memory is bounded whatever the length of the journal or of a line.

The fields that each verb writes: actions/base/operations.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field

from .errors import BAD_SHAPE
from .files import fsync_directory, private_directory, write_all
from .platform.syncing import sync_file
from .records import dataclass
from .versions import mark_state

VERSION = 1
#: A line beyond this is none of ours, and is passed over.
LONGEST = 32 << 20
#: Seconds for which a writer waits for another one; writing a line takes a millisecond.
PATIENCE = 5.0


def new_id() -> str:
    """An id for one operation: sortable by time, unique, safe in a file name."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the journal."""

    operation: str  # id of the operation; several lines may share it (begun, finished)
    verb: str  # "backup", "import", "undo", …
    state: str  # "begun", "done", "incomplete", "failed", "interrupted", "recovered"
    time: float = field(default_factory=time.time)
    facts: object = field(default_factory=dict)  # a mapping; only the class of the verb reads it
    version: int = VERSION  # of the line; a later one may say more than is understood here


class Journal:
    """Appends records and reads them back."""

    def __init__(self, path: str) -> None:
        self.path = path

    def append(self, record: Record) -> None:
        """Write one record; durable when this returns."""
        private_directory(os.path.dirname(self.path))
        mark_state(os.path.dirname(self.path))
        line = json.dumps(
            {
                "version": VERSION,
                "time": record.time,
                "operation": record.operation,
                "verb": record.verb,
                "state": record.state,
                "facts": record.facts,
            }
        ).encode()
        with locked_journal(self.path) as descriptor:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            write_all(descriptor, (b"\n" if torn else b"") + line + b"\n")
            sync_file(descriptor)

    def read(self) -> Iterator[Record]:
        """Every readable record, oldest first; torn or foreign lines are passed over."""
        try:
            descriptor = open_journal(self.path)
        except FileNotFoundError:
            return
        with os.fdopen(descriptor, "rb") as file:
            whole = True
            while line := file.readline(LONGEST):
                record = parse_line(line) if whole else None
                whole = line.endswith(b"\n")
                if record is not None:
                    yield record

    def backwards(self, *verbs: str) -> Iterator[Record]:
        """The records of these verbs, newest first; lines of others are passed over unparsed.

        Cheap at any length of the journal: a search for the last one of something stops there.
        """
        for line in self.lines_backwards(*(f'"{verb}"'.encode() for verb in verbs)):
            record = parse_line(line)
            if record is not None and record.verb in verbs:
                yield record

    def lines_backwards(self, *words: bytes) -> Iterator[bytes]:
        """Every line that has one of these words, as it stands, the last one first; all where none is named.

        Empty ones and such beyond LONGEST are left out.
        """
        return _lines_backwards(self.path, words)


def _lines_backwards(path: str, words: Sequence[bytes] = (), block: int = 1 << 16) -> Iterator[bytes]:
    def fits(text: bytes) -> bool:
        return not words or any(word in text for word in words)

    try:
        descriptor = open_journal(path)
    except FileNotFoundError:
        return
    try:
        position, parts, held = os.fstat(descriptor).st_size, list[bytes](), 0
        while position:
            start = max(0, position - block)
            text = os.pread(descriptor, position - start, start)
            position = start
            first = text.find(b"\n")
            if first >= 0:
                last = text.rfind(b"\n")
                # What follows the last break here begins the line whose other parts were read before.
                line = _joined([text[last + 1 :], *parts], held)
                if line and fits(line):
                    yield line
                # Most blocks have none of the words: they are not even taken apart.
                inner = text[first + 1 : last]
                if inner and fits(inner):
                    yield from (line for line in reversed(inner.split(b"\n")) if line and fits(line))
                text, parts, held = text[:first], [], 0
            held += len(text)
            parts = [text, *parts] if held <= LONGEST else []
        line = _joined(parts, held)
        if line and fits(line):
            yield line
    finally:
        os.close(descriptor)


def open_journal(path: str, flags: int = os.O_RDONLY) -> int:
    """Its descriptor; OSError where the name belongs to a pipe or a device, which would wait for ever."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
        raise OSError(code, "it is not a regular file", path)
    return descriptor


@contextlib.contextmanager
def locked_journal(path: str) -> Iterator[int]:
    """Its descriptor, made where there is none, while no other writer has it. OSError."""
    descriptor = open_journal(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        _lock(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def put_before(path: str, earlier: Callable[[], Iterable[bytes]]) -> int:
    """Put what was written earlier before what is there; how many pieces. OSError.

    In the file itself and under its lock: another writer waits meanwhile, and loses no line.
    """
    private_directory(os.path.dirname(path))
    with locked_journal(path) as descriptor:
        pieces = list(earlier())
        if not pieces:
            return 0
        had, offset = [], 0
        while piece := os.pread(descriptor, 1 << 20, offset):
            had.append(piece)
            offset += len(piece)
        os.ftruncate(descriptor, 0)
        write_all(descriptor, b"".join([*pieces, *had]))
        sync_file(descriptor)
    fsync_directory(os.path.dirname(path))
    return len(pieces)


def _joined(parts: list[bytes], held: int) -> bytes:
    return b"".join(parts) if held <= LONGEST else b""


def _lock(descriptor: int) -> None:
    """To ourselves; OSError where another writer hangs, so that we do not hang with it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise OSError(error.errno, "another process holds it") from error
            time.sleep(0.002)


def parse_line(line: bytes) -> Record | None:
    """A record, or None for what is torn or foreign."""
    try:
        fields = json.loads(line)
        facts = fields.get("facts")
        return Record(
            operation=str(fields["operation"]),
            verb=str(fields["verb"]),
            state=str(fields["state"]),
            time=_moment(fields["time"]),
            facts=facts if isinstance(facts, dict) else {},
            version=version if isinstance(version := fields.get("version"), int) else VERSION,
        )
    except BAD_SHAPE:
        return None


def _moment(value: object) -> float:
    """A time that a clock could show; ValueError for one that no calendar has."""
    found = float(value) if isinstance(value, int | float | str) else -1.0
    if not 0 <= found < 253_402_300_800:  # the year 10000
        raise ValueError("not a time")
    return found
