"""What a run of writing adds up: counts, remarks, what was lost, what is damaged."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Iterator

from holdfast.archive.manifest import Record
from holdfast.core.entries import CHUNK, Kind, Outcome, Remark

#: Lists kept in memory up to this size, beyond it in an unlinked file beside the archive.
_IN_MEMORY = 8 << 20


class Spool:
    """Bytes set aside until the end: in memory while few, in an unnamed file when many."""

    def __init__(self, directory: str) -> None:
        # It outlives this call by far; close() is what ends it.
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, dir=directory)  # noqa: SIM115
        self._digest = hashlib.sha256()
        self.size = 0
        self.count = 0

    def add(self, data: bytes, count: int = 1) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)
        self.count += count

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def chunks(self) -> Iterator[bytes]:
        self._file.seek(0)
        while chunk := self._file.read(CHUNK):
            yield chunk

    def close(self) -> None:
        self._file.close()


class Account:
    """Written to by both lanes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.files = self.directories = self.bytes = 0
        self.links: list[tuple[str, str]] = []
        self.remarks: list[Remark] = []
        self.damaged: list[str] = []
        self.lost: list[str] = []  # members that began and could not be ended; in tar they have a body

    def stored(self, record: Record, remarks: list[Remark]) -> None:
        with self._lock:
            if record.kind is Kind.FILE:
                self.files += 1
                self.bytes += record.size
            elif record.kind is Kind.DIRECTORY:
                self.directories += 1
            else:
                self.links.append((record.path, record.target))
            if not remarks and record.database is None:
                return
            self.remarks.extend(remarks)
            says_so = record.database is not None and record.database.get("state") == "damaged"
            if says_so or any(remark.outcome is Outcome.DAMAGED for remark in remarks):
                self.damaged.append(record.path)

    def remark(self, remark: Remark) -> None:
        with self._lock:
            self.remarks.append(remark)
