"""The journal: one append-only record of every operation, behind `log`, `status` and `undo`.

One JSON object per line. A line is written by a single `write` to a file opened for appending,
under a lock, so that many processes can write at once; a writer that died half way leaves a torn
last line, which the next writer ends and every reader passes over. Lines of a newer version are
kept and shown as far as they are understood.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.core.files import private_directory, write_all

VERSION = 1


def new_id() -> str:
    """An id for one operation: sortable by time, unique, safe in a file name."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the journal."""

    operation: str  # id of the operation; several lines may share it (begun, finished)
    verb: str  # "backup", "import", "undo", …
    state: str  # "begun", "done", "incomplete", "failed", "recovered"
    time: float = field(default_factory=time.time)
    facts: dict[str, object] = field(default_factory=dict)


class Journal:
    """Appends records and reads them back."""

    def __init__(self, path: str) -> None:
        self.path = path

    def append(self, record: Record) -> None:
        """Write one record; durable when this returns."""
        private_directory(os.path.dirname(self.path))
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
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            write_all(descriptor, (b"\n" if torn else b"") + line + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self) -> Iterator[Record]:
        """Every readable record, oldest first; torn or foreign lines are passed over."""
        if not os.path.exists(self.path):
            return
        with open(self.path, "rb") as file:
            for line in file:
                record = _parse(line)
                if record is not None:
                    yield record


def _parse(line: bytes) -> Record | None:
    try:
        fields = json.loads(line)
        facts = fields.get("facts")
        return Record(
            operation=str(fields["operation"]),
            verb=str(fields["verb"]),
            state=str(fields["state"]),
            time=float(fields["time"]),
            facts=facts if isinstance(facts, dict) else {},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
