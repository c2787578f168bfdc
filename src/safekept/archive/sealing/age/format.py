"""The header of an age file: who can open it, under a MAC that only those can make.

Strict, as the specification (C2SP `age.md`) asks for: one way to write a header, so one way to read it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from safekept.core.records import dataclass

VERSION = b"age-encryption.org/v1\n"
FAMILY = b"age-encryption.org/"
FILE_KEY = 16
#: More is no header: a thousand recipients need a tenth of it.
LIMIT = 1 << 20
_COLUMNS = 64
_ARGUMENT = re.compile(rb"[!-~]+")


class NotAHeader(ValueError):
    """What is wrong with a header."""


@dataclass(frozen=True, slots=True)
class Stanza:
    """The file key, wrapped for one recipient."""

    kind: str
    arguments: tuple[str, ...]
    body: bytes

    def text(self) -> bytes:
        encoded = unpadded(self.body)
        lines = [" ".join(("->", self.kind, *self.arguments))]
        lines += [encoded[start : start + _COLUMNS] for start in range(0, len(encoded) + 1, _COLUMNS)]
        return "".join(line + "\n" for line in lines).encode("ascii")


@dataclass(frozen=True, slots=True)
class Header:
    """A parsed header: its stanzas, and what its MAC is made over."""

    stanzas: tuple[Stanza, ...]
    covered: bytes  # up to and including `---`
    mac: bytes

    @property
    def size(self) -> int:
        return len(self.covered) + 1 + 43 + 1

    def made_with(self, file_key: bytes) -> bool:
        """Whether its maker knew this file key: nothing in it was added, removed or changed."""
        return hmac.compare_digest(_mac(file_key, self.covered), self.mac)


def make_header(stanzas: list[Stanza], file_key: bytes) -> bytes:
    """The bytes of a header, MAC included."""
    covered = VERSION + b"".join(stanza.text() for stanza in stanzas) + b"---"
    return covered + b" " + unpadded(_mac(file_key, covered)).encode("ascii") + b"\n"


def parse_header(data: bytes) -> Header:
    """The header at the beginning of `data`; raises NotAHeader."""
    if not data.startswith(VERSION):
        raise NotAHeader("it does not begin like one")
    position = len(VERSION)
    stanzas: list[Stanza] = []
    while True:
        line, position = _line(data, position)
        if line.startswith(b"--- "):
            mac = padded(line[4:])
            if len(mac) != 32 or not stanzas:
                raise NotAHeader("its end is broken")
            return Header(tuple(stanzas), data[: position - len(line) - 1 + 3], mac)
        stanza, position = _stanza(data, line, position)
        stanzas.append(stanza)


def _stanza(data: bytes, line: bytes, position: int) -> tuple[Stanza, int]:
    words = line.split(b" ")
    if words[0] != b"->" or len(words) < 2 or any(not _ARGUMENT.fullmatch(word) for word in words):
        raise NotAHeader("a line of it is broken")
    body = b""
    while True:
        part, position = _line(data, position)
        if len(part) > _COLUMNS:
            raise NotAHeader("a line of it is too long")
        body += padded(part)
        if len(part) < _COLUMNS:
            break
    kind, *arguments = (word.decode("ascii") for word in words[1:])
    return Stanza(kind, tuple(arguments), body), position


def _line(data: bytes, position: int) -> tuple[bytes, int]:
    end = data.find(b"\n", position)
    if end < 0:
        raise NotAHeader("it ends too early")
    return data[position:end], end + 1


def unpadded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii").rstrip("=")


def padded(text: bytes) -> bytes:
    """Base 64 without padding, in the one way it can be written."""
    try:
        data = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise NotAHeader("a part of it is not base 64") from None
    if b"=" in text or unpadded(data).encode() != text:
        raise NotAHeader("a part of it is not base 64")
    return data


def _mac(file_key: bytes, covered: bytes) -> bytes:
    return hmac.digest(derived(file_key, b"", b"header"), covered, "sha256")


def derived(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    """HKDF-SHA-256, 32 bytes."""
    return HKDF(hashes.SHA256(), 32, salt, purpose).derive(secret)


# The payload of an age file: chunks of 64 KiB, each sealed for its place, the last one marked as last.
# So a chunk cannot be altered, moved, repeated or left out without its own tag failing, and a file that
# was cut cannot end in a chunk that says it is the last.

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
