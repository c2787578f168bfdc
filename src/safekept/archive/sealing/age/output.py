"""Writes an age file while the archive in it is still being made: sealed chunk by chunk, nothing kept.

The key of the file exists in the memory of this process only, and only until the file was read back:
with it the sealed file is opened once more from the disk, so that what is proven is what is there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ...container.handle import Handle
from ...container.output import Output
from ...errors import damaged
from .file import AgeFile
from .format import CHUNK, FILE_KEY, NONCE, Payload, Stanza, make_header

if TYPE_CHECKING:
    from safekept.core.errors import SafekeptError


class Wrapping(Protocol):
    """A recipient or a passphrase: whoever can wrap a file key."""

    def wrap(self, file_key: bytes) -> Stanza: ...


class AgeOutput:
    """An output whose bytes are sealed on their way; positions are those of the clear text."""

    sealed = True

    def __init__(self, path: str, recipients: Sequence[Wrapping]) -> None:
        self._file_key = os.urandom(FILE_KEY)
        stanzas = [recipient.wrap(self._file_key) for recipient in recipients]
        self._header = make_header(stanzas, self._file_key)
        nonce = os.urandom(NONCE)
        self._payload = Payload(self._file_key, nonce)
        self.offset = 0
        self._number = 0
        self._held = b""
        self._guard = threading.Lock()
        self._inner = Output(path)
        self.path, self.directory = self._inner.path, self._inner.directory
        self._inner.write(self._header + nonce)

    @property
    def stored(self) -> int:
        return self._inner.stored

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append clear text. A chunk is sealed once it is known not to be the last."""
        with self._guard:
            self.offset += len(data)
            held = self._held + data if self._held else bytes(data)
            if len(held) <= CHUNK:
                self._held = held
                return
            view, parts = memoryview(held), []
            at = 0
            while len(held) - at > CHUNK:
                parts.append(self._payload.seal(self._number, view[at : at + CHUNK], last=False))
                self._number += 1
                at += CHUNK
            self._held = held[at:]
            self._inner.write(b"".join(parts))

    def complete(self) -> None:
        """Seal the last chunk; nothing can be appended after it."""
        self._inner.write(self._payload.seal(self._number, self._held, last=True))
        self._held = b""

    def reopen(self) -> Handle:
        """The clear text as it comes back from the disk, opened with the key that is soon forgotten."""
        inner = self._inner.reopen()
        try:
            sealed = AgeFile(inner)
            if inner.some(0, len(self._header)) != self._header:
                raise damaged(self.path, "the header of its seal is not the one that was written")
            return sealed.open(self._file_key)
        except BaseException:
            inner.close()
            raise

    def finish(self, path: str, replace: bool) -> str:
        return self._inner.finish(path, replace)

    def discard(self) -> None:
        self._inner.discard()

    def explain(self, error: OSError) -> SafekeptError:
        return self._inner.explain(error)


def sealed_bytes(data: bytes, recipients: Sequence[Wrapping]) -> bytes:
    """A small file, sealed in memory: at most one chunk."""
    if len(data) > CHUNK:
        raise ValueError("more than one chunk")
    file_key, nonce = os.urandom(FILE_KEY), os.urandom(NONCE)
    header = make_header([recipient.wrap(file_key) for recipient in recipients], file_key)
    return header + nonce + Payload(file_key, nonce).seal(0, data, last=True)
