"""What a run of writing adds up: counts, remarks, what was lost, what is damaged."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from safekept.core.entries import CHUNK, Kind, Outcome, Remark

from .manifest import Record

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

#: Lists kept in memory up to this size, beyond it in an unlinked file beside the archive.
_IN_MEMORY = 8 << 20


class SpoolCipher:
    """A key that lives as long as a spool: what it puts on the disk cannot be read later."""

    def __init__(self) -> None:
        self._key, self._nonce = os.urandom(32), os.urandom(16)
        self.over = self.under()

    def under(self) -> CipherContext:
        """A fresh run over the same stream, from its beginning; putting on and taking off are the same."""
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

        return Cipher(ChaCha20(self._key, self._nonce), None).encryptor()


class Spool:
    """Bytes set aside until the end: in memory while few, in an unnamed file when many.

    What is set aside for a sealed archive lies there veiled: it names every file of the home.
    """

    def __init__(self, directory: str, veiled: bool = False) -> None:
        self._veil = SpoolCipher() if veiled else None
        # It outlives this call by far; close() is what ends it.
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, dir=directory)  # noqa: SIM115
        self._digest = hashlib.sha256()
        self.size = 0
        self.count = 0

    def add(self, data: bytes, count: int = 1) -> None:
        self._file.write(data if self._veil is None else self._veil.over.update(data))
        self._digest.update(data)
        self.size += len(data)
        self.count += count

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def chunks(self) -> Iterator[bytes]:
        self._file.seek(0)
        under = None if self._veil is None else self._veil.under()
        while chunk := self._file.read(CHUNK):
            yield chunk if under is None else under.update(chunk)

    def close(self) -> None:
        self._file.close()


class ArchiveAccount:
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
