"""A sealed age file, opened: clear text by position, every byte of it authenticated before it is given.

Nothing is unpacked to a disk and no more than a few chunks are in memory, wherever one reads.
"""

from __future__ import annotations

from ...container.handle import Handle
from ...errors import ArchiveDamaged, damaged, unsupported
from .armor import BEGIN, Armored, NotArmor
from .header import FAMILY, LIMIT, VERSION, Header, NotAHeader, parse_header
from .payload import CHUNK, NONCE, SEALED, BrokenSeal, Payload, payload_size

_BROKEN = "its seal is broken: a part of it was altered, or is missing"


class AgeFile:
    """The header of a sealed file and where its payload lies; nothing is opened yet."""

    def __init__(self, handle: Handle) -> None:
        self.handle, self.path = handle, handle.path
        self._armored: Armored | None = None
        try:
            if handle.some(0, len(BEGIN)) == BEGIN:
                self._armored = Armored(handle)
            head = self.some(0, LIMIT)
            if not head.startswith(VERSION) and head.startswith(FAMILY):
                raise unsupported(self.path, "it is sealed in a newer version of the age format")
            self.header: Header = parse_header(head)
        except NotArmor as error:
            raise damaged(self.path, f"its armor is broken: {error}") from None
        except NotAHeader as error:
            raise self.broken_header(error) from None

    @property
    def size(self) -> int:
        return self._armored.size if self._armored is not None else self.handle.size

    def some(self, offset: int, length: int) -> bytes:
        """Sealed bytes, armor taken off."""
        if self._armored is None:
            return self.handle.some(offset, length)
        try:
            return self._armored.some(offset, length)
        except NotArmor as error:
            raise damaged(self.path, f"its armor is broken: {error}") from None

    def broken_header(self, error: NotAHeader) -> ArchiveDamaged:
        return damaged(self.path, f"the header of its seal is broken: {error}")

    def open(self, file_key: bytes) -> AgeHandle:
        """The clear text; takes the handle over."""
        if not self.header.made_with(file_key):
            raise damaged(self.path, "the header of its seal was altered")
        return AgeHandle(self, file_key)


class AgeHandle(Handle):
    """Reads clear text by position, from any thread."""

    def __init__(self, sealed: AgeFile, file_key: bytes) -> None:
        super().__init__(sealed.path, sealed.handle.descriptor)
        self._sealed = sealed
        self._start = sealed.header.size + NONCE
        self._chunk = (-1, b"")  # the one that was opened last, for small reads beside one another
        try:
            nonce = sealed.some(sealed.header.size, NONCE)
            self.size = payload_size(sealed.size - self._start)
            self._payload = Payload(file_key, nonce)
            self._last = max(0, -(-self.size // CHUNK) - 1)
            # That the last chunk says so proves the length of the whole.
            self._opened(self._last, self._last)
        except BrokenSeal:
            raise damaged(self.path, _BROKEN) from None

    def close(self) -> None:
        self._sealed.handle.close()

    def _pread(self, offset: int, length: int) -> bytes:
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        first, last = offset // CHUNK, (offset + length - 1) // CHUNK
        number, held = self._chunk
        try:
            if first != last:
                data = self._opened(first, last)
            elif number == first:
                data = held
            else:
                data = self._opened(first, last)
                self._chunk = (first, data)
        except BrokenSeal:
            raise damaged(self.path, _BROKEN) from None
        start = offset - first * CHUNK
        return data if start == 0 and len(data) == length else data[start : start + length]

    def _opened(self, first: int, last: int) -> bytes:
        sealed = memoryview(self._sealed.some(self._start + first * SEALED, (last - first + 1) * SEALED))
        parts = []
        for number in range(first, last + 1):
            at = (number - first) * SEALED
            parts.append(self._payload.open(number, sealed[at : at + SEALED], number == self._last))
        return parts[0] if len(parts) == 1 else b"".join(parts)
