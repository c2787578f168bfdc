"""The words of SFTP version 3 (draft-ietf-secsh-filexfer-02) and of OpenSSH's extensions to it.

Pure: bytes in, values out. What cannot be read is MalformedAnswer or a struct.error, which the connection
takes for a broken server.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from ...records import dataclass


class MalformedAnswer(Exception):
    """An answer that does not fit its own lengths."""


class Packet(IntEnum):
    INIT = 1
    VERSION = 2
    OPEN = 3
    CLOSE = 4
    READ = 5
    WRITE = 6
    LSTAT = 7
    FSTAT = 8
    OPENDIR = 11
    READDIR = 12
    REMOVE = 13
    MKDIR = 14
    RMDIR = 15
    REALPATH = 16
    STAT = 17
    RENAME = 18
    STATUS = 101
    HANDLE = 102
    DATA = 103
    NAME = 104
    ATTRS = 105
    EXTENDED = 200
    EXTENDED_REPLY = 201


class Status(IntEnum):
    OK = 0
    EOF = 1
    NO_SUCH_FILE = 2
    PERMISSION_DENIED = 3
    FAILURE = 4
    BAD_MESSAGE = 5
    NO_CONNECTION = 6
    CONNECTION_LOST = 7
    UNSUPPORTED = 8


OPEN_READ = 0x01
OPEN_OVER = 0x02 | 0x10  # write, and what is there is cut off
OPEN_NEW = 0x02 | 0x08 | 0x20  # write, create, and only if there is none

_SIZE, _OWNER, _MODE, _TIMES, _EXTENDED = 0x01, 0x02, 0x04, 0x08, 0x80000000
_LENGTH = struct.Struct(">I")
_LONG = struct.Struct(">Q")
_TYPE_MASK, _DIRECTORY = 0o170000, 0o040000


@dataclass(frozen=True, slots=True)
class Attributes:
    size: int = 0
    mode: int = 0
    modified: int = 0

    @property
    def is_directory(self) -> bool:
        return self.mode & _TYPE_MASK == _DIRECTORY


def text(value: str | bytes) -> bytes:
    """A string as it travels: its length and its bytes."""
    data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return _LENGTH.pack(len(data)) + data


def number(value: int) -> bytes:
    return _LENGTH.pack(value)


def long_number(value: int) -> bytes:
    return _LONG.pack(value)


def mode_only(mode: int) -> bytes:
    """Attributes that say nothing but the permission bits."""
    return _LENGTH.pack(_MODE) + _LENGTH.pack(mode)


class Reply:
    """Reads one answer from front to back."""

    __slots__ = ("_at", "_body", "kind")

    def __init__(self, kind: int, body: memoryview) -> None:
        self.kind = kind
        self._body = body
        self._at = 0

    def number(self) -> int:
        (value,) = _LENGTH.unpack_from(self._body, self._at)
        self._at += 4
        return int(value)

    def long_number(self) -> int:
        (value,) = _LONG.unpack_from(self._body, self._at)
        self._at += 8
        return int(value)

    def view(self) -> memoryview:
        length = self.number()
        start, self._at = self._at, self._at + length
        if self._at > len(self._body):
            raise MalformedAnswer("a string is longer than its packet")
        return self._body[start : self._at]

    def text(self) -> str:
        return bytes(self.view()).decode("utf-8", "surrogateescape")

    @property
    def ended(self) -> bool:
        return self._at >= len(self._body)

    def attributes(self) -> Attributes:
        flags = self.number()
        size = self.long_number() if flags & _SIZE else 0
        if flags & _OWNER:
            self._at += 8
        mode = self.number() if flags & _MODE else 0
        modified = 0
        if flags & _TIMES:
            self._at += 4
            modified = self.number()
        if flags & _EXTENDED:
            for _ in range(self.number()):
                self.view()
                self.view()
        return Attributes(size, mode, modified)

    def names(self) -> list[tuple[str, Attributes]]:
        found = []
        for _ in range(self.number()):
            name = self.text()
            self.view()  # the long form is for people
            found.append((name, self.attributes()))
        return found
