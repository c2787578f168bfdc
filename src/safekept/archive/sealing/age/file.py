"""A sealed age file, opened: clear text by position, every byte of it authenticated before it is given.

Nothing is unpacked to a disk and no more than a few chunks are in memory, wherever one reads.
"""

from __future__ import annotations

import base64
import binascii
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ...container.handle import Handle
from ...container.output import Output
from ...errors import ArchiveDamaged, damaged, unsupported
from .format import (
    CHUNK,
    FAMILY,
    FILE_KEY,
    LIMIT,
    NONCE,
    SEALED,
    VERSION,
    BrokenSeal,
    Header,
    NotAHeader,
    Payload,
    Stanza,
    make_header,
    parse_header,
    payload_size,
)

if TYPE_CHECKING:
    from safekept.core.errors import SafekeptError

    from ...container.handle import Handle


# age's armor: the same bytes as text, read at any place without unpacking the rest.

BEGIN = b"-----BEGIN AGE ENCRYPTED FILE-----"
END = b"-----END AGE ENCRYPTED FILE-----"
_COLUMNS, _BYTES = 64, 48


class NotArmor(ValueError):
    """Not written as armor is written."""


class Armored:
    """The bytes inside, by position. Lines of 64 letters; only the last may be shorter."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        head = handle.some(0, len(BEGIN) + 2)
        self._break = b"\r\n" if head.endswith(b"\r\n") else b"\n"
        if not head.startswith(BEGIN + self._break):
            raise NotArmor("its first line is not one")
        self._start = len(BEGIN) + len(self._break)
        self._line = _COLUMNS + len(self._break)
        self._end = self._find_end()
        whole, rest = divmod(self._end - self._start, self._line)
        if rest and (rest <= len(self._break) or (rest - len(self._break)) % 4):
            raise NotArmor("its last line is broken")
        lines = whole + bool(rest)
        self.size = 0
        if lines:
            last = self._decoded(self._line_at(lines - 1), final=True)
            self.size = (lines - 1) * _BYTES + len(last)

    def _find_end(self) -> int:
        """Where the text ends: at the end line, which only blanks may follow."""
        tail = self._handle.some(max(0, self._handle.size - 1024), 1024)
        body, end, rest = tail.rpartition(END)
        if not end or rest.strip() or not body.endswith(self._break):
            raise NotArmor("its last line is missing, so it was cut short")
        return max(0, self._handle.size - 1024) + len(body)

    def _line_at(self, number: int) -> bytes:
        start = self._start + number * self._line
        return self._handle.read(start, min(self._line, self._end - start))

    def some(self, offset: int, length: int) -> bytes:
        """That many bytes, or what there is of them."""
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        first, last = offset // _BYTES, (offset + length - 1) // _BYTES
        start = self._start + first * self._line
        end = min(self._start + (last + 1) * self._line, self._end)
        data = self._decoded(self._handle.read(start, end - start), final=end == self._end)
        return data[offset - first * _BYTES :][:length]

    def _decoded(self, text: bytes, final: bool) -> bytes:
        lines = text.split(self._break)
        if lines.pop() != b"" or any(len(line) != _COLUMNS for line in lines[: len(lines) - final]):
            raise NotArmor("a line of it is broken")
        try:
            joined = b"".join(lines)
            data = base64.b64decode(joined, validate=True)
        except (binascii.Error, ValueError):
            raise NotArmor("a line of it is not base 64") from None
        if base64.b64encode(data) != joined:
            raise NotArmor("a line of it is not base 64")
        return data


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


# Writes an age file while the archive in it is still being made: sealed chunk by chunk, nothing kept.
# The key of the file exists in the memory of this process only, and only until the file was read back:
# with it the sealed file is opened once more from the disk, so that what is proven is what is there.


class Wrapping(Protocol):
    """A recipient or a passphrase: what can wrap a file key."""

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
