"""age's armor: the same bytes as text, read at any place without unpacking the rest."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...container.handle import Handle

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
