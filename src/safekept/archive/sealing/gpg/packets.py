"""The first packets of an OpenPGP message: whom it is for, before anything in it is opened.

Only packet headers are read; what is inside is gpg's business.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

FOR_KEY, FOR_PASSPHRASE = 1, 3
_DATA = (9, 18, 20)
_VERSIONS = {FOR_KEY: (3, 6), FOR_PASSPHRASE: (4, 5, 6)}
ARMOR = b"-----BEGIN PGP MESSAGE-----"
#: More than this in front of the data is not a message for people.
LIMIT = 1 << 20


class NotAMessage(ValueError):
    """These are not the first bytes of an encrypted OpenPGP message."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What stands in front of the encrypted data."""

    packets: tuple[tuple[int, bytes], ...]  # tag and the whole packet
    size: int

    def of(self, tag: int) -> list[bytes]:
        return [packet for found, packet in self.packets if found == tag]

    @property
    def key_ids(self) -> list[str]:
        """The keys it is for, as 16 letters each; zeros where the sender hides them."""
        return [_body(packet)[1:9].hex().upper() for packet in self.of(FOR_KEY)]


def read_opening(data: bytes) -> Opening | None:
    """The packets before the encrypted data; None where `data` ends within them. Raises NotAMessage."""
    position = 0
    found: list[tuple[int, bytes]] = []
    while True:
        header = _header(data, position)
        if header is None:
            return None
        tag, start, length = header
        if tag in _DATA and found:
            return Opening(tuple(found), position)
        if tag not in _VERSIONS or length is None or length > LIMIT:
            raise NotAMessage
        if len(data) < start + 1:
            return None
        if data[start] not in _VERSIONS[tag]:
            raise NotAMessage
        if start + length > len(data):
            return None
        found.append((tag, data[position : start + length]))
        position = start + length


def opening_of(head: bytes) -> Opening | None:
    """The same for a message as it lies in a file, armored or not; None for what is none."""
    try:
        if head.lstrip().startswith(ARMOR):
            head = _without_armor(head.lstrip())
        return read_opening(head)
    except (NotAMessage, binascii.Error, ValueError):
        return None


def _without_armor(text: bytes) -> bytes:
    """As much of the bytes as whole lines give."""
    lines = text.replace(b"\r\n", b"\n").split(b"\n")
    try:
        start = lines.index(b"", 1) + 1
    except ValueError:
        raise NotAMessage from None
    letters = b"".join(line for line in lines[start:-1] if not line.startswith((b"=", b"-")))
    return base64.b64decode(letters[: len(letters) // 4 * 4], validate=True)


def _header(data: bytes, position: int) -> tuple[int, int, int | None] | None:
    """Tag, start of the body, and its length (None: in parts) of the packet there."""
    if position >= len(data):
        return None
    first = data[position]
    if not first & 0x80:
        raise NotAMessage
    if not first & 0x40:  # the old format
        width = (1, 2, 4, 0)[first & 3]
        start = position + 1 + width
        if start > len(data):
            return None
        return first >> 2 & 15, start, int.from_bytes(data[position + 1 : start], "big") if width else None
    if position + 6 > len(data):
        return None
    tag, length = first & 63, data[position + 1]
    if length < 192:
        return tag, position + 2, length
    if length < 224:
        return tag, position + 3, (length - 192 << 8) + data[position + 2] + 192
    if length < 255:
        return tag, position + 2, None
    return tag, position + 6, int.from_bytes(data[position + 2 : position + 6], "big")


def _body(packet: bytes) -> bytes:
    header = _header(packet, 0)
    assert header is not None
    return packet[header[1] :]
