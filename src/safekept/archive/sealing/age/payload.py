"""The payload of an age file: chunks of 64 KiB, each sealed for its place, the last one marked as last.

So a chunk cannot be altered, moved, repeated or left out without its own tag failing, and a file that was
cut cannot end in a chunk that says it is the last.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .header import derived

NONCE = 16
CHUNK = 64 << 10
TAG = 16
SEALED = CHUNK + TAG


class BrokenSeal(ValueError):
    """A chunk that is not what was sealed in its place."""


def payload_size(stored: int) -> int:
    """How much clear text so many bytes behind the nonce hold; BrokenSeal where no payload has that size."""
    chunks, rest = divmod(stored, SEALED)
    if rest:
        chunks += 1
        if rest < TAG or (rest == TAG and chunks > 1):
            raise BrokenSeal
    if not chunks:
        raise BrokenSeal
    return stored - chunks * TAG


class Payload:
    """Seals and opens the chunks of one file."""

    def __init__(self, file_key: bytes, nonce: bytes) -> None:
        self._cipher = ChaCha20Poly1305(derived(file_key, nonce, b"payload"))

    def seal(self, number: int, data: bytes | memoryview, last: bool) -> bytes:
        return self._cipher.encrypt(_place(number, last), data, None)

    def open(self, number: int, data: bytes | memoryview, last: bool) -> bytes:
        """The clear text of one chunk, or BrokenSeal: never a byte that was not authenticated."""
        try:
            return self._cipher.decrypt(_place(number, last), data, None)
        except InvalidTag:
            raise BrokenSeal from None


def _place(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\1" if last else b"\0")
