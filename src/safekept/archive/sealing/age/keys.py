"""age's own keys (X25519), and its passphrases (scrypt): wrapping and unwrapping the file key."""

from __future__ import annotations

import os
import re

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from safekept.core.records import dataclass

from .format import FILE_KEY, NotAHeader, Stanza, derived, padded, unpadded

# Bech32 (BIP 173), as age uses it for its keys: text with a checksum, without the length limit.

_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_CHECK = 6


def to_bech32(prefix: str, data: bytes) -> str:
    """Text for these bytes, lower case."""
    values = _regroup(data, 8, 5, pad=True)
    check = _checksum([*_expanded(prefix), *values, *([0] * _CHECK)]) ^ 1
    values += [check >> 5 * (_CHECK - 1 - place) & 31 for place in range(_CHECK)]
    return prefix + "1" + "".join(_LETTERS[value] for value in values)


def from_bech32(text: str) -> tuple[str, bytes]:
    """Prefix and bytes; ValueError says what is wrong, without repeating the text."""
    if text.lower() != text and text.upper() != text:
        raise ValueError("it mixes capitals and small letters")
    prefix, one, rest = text.lower().rpartition("1")
    if not one or not prefix or len(rest) < _CHECK or any(letter not in _LETTERS for letter in rest):
        raise ValueError("it has letters that no such key has")
    values = [_LETTERS.index(letter) for letter in rest]
    if _checksum([*_expanded(prefix), *values]) != 1:
        raise ValueError("its checksum is wrong, so a letter is wrong or missing")
    return prefix, bytes(_regroup(values[:-_CHECK], 5, 8, pad=False))


def _expanded(prefix: str) -> list[int]:
    return [ord(letter) >> 5 for letter in prefix] + [0] + [ord(letter) & 31 for letter in prefix]


def _checksum(values: list[int]) -> int:
    state = 1
    for value in values:
        top = state >> 25
        state = (state & 0x1FFFFFF) << 5 ^ value
        for place, generator in enumerate(_GENERATORS):
            if top >> place & 1:
                state ^= generator
    return state


def _regroup(data: bytes | list[int], width: int, into: int, *, pad: bool) -> list[int]:
    held = bits = 0
    found = []
    for value in data:
        held = held << width | value
        bits += width
        while bits >= into:
            bits -= into
            found.append(held >> bits & (1 << into) - 1)
    if pad:
        if bits:
            found.append(held << into - bits & (1 << into) - 1)
    elif bits >= width or held & (1 << bits) - 1:
        raise ValueError("its end is not one")
    return found


PUBLIC, PRIVATE = "age", "age-secret-key-"
_X25519 = b"age-encryption.org/v1/X25519"
_SCRYPT = b"age-encryption.org/v1/scrypt"
#: 2^18: a second and 256 MB, as age itself takes. More than 2^20, 1 GB, is a trap.
WORK, WORK_LIMIT = 18, 20
_DECIMAL = re.compile(r"[1-9][0-9]?")
_NONCE = bytes(12)


def wrapped(key: bytes, file_key: bytes) -> bytes:
    return ChaCha20Poly1305(key).encrypt(_NONCE, file_key, None)


def unwrapped(key: bytes, body: bytes) -> bytes | None:
    """The file key, or None where the key is another one."""
    if len(body) != FILE_KEY + 16:
        raise NotAHeader("a wrapped key in it has the wrong size")
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, body, None)
    except InvalidTag:
        return None


def share_of(text: str) -> bytes:
    share = padded(text.encode("ascii"))
    if len(share) != 32:
        raise NotAHeader("a key in it has the wrong size")
    return share


def agreed(private: X25519PrivateKey, share: bytes) -> bytes:
    """The shared secret; a share that forces a known one is refused."""
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(share))
    except ValueError:
        raise NotAHeader("a key in it is a trap") from None


@dataclass(frozen=True, slots=True)
class AgeRecipient:
    """`age1…`: the public half."""

    public: bytes

    def __str__(self) -> str:
        return to_bech32(PUBLIC, self.public)

    def wrap(self, file_key: bytes) -> Stanza:
        once = X25519PrivateKey.generate()
        share = once.public_key().public_bytes_raw()
        key = derived(agreed(once, self.public), share + self.public, _X25519)
        return Stanza("X25519", (unpadded(share),), wrapped(key, file_key))


@dataclass(frozen=True, slots=True)
class AgeIdentity:
    """`AGE-SECRET-KEY-1…`: the half that opens."""

    private: bytes

    def __repr__(self) -> str:
        return "AgeIdentity(…)"

    @classmethod
    def generate(cls) -> AgeIdentity:
        return cls(os.urandom(32))

    @property
    def text(self) -> str:
        return to_bech32(PRIVATE, self.private).upper()

    @property
    def recipient(self) -> AgeRecipient:
        return AgeRecipient(self._key().public_key().public_bytes_raw())

    def _key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.private)

    def unwrap(self, stanza: Stanza) -> bytes | None:
        if stanza.kind != "X25519":
            return None
        if len(stanza.arguments) != 1:
            raise NotAHeader("a line of it is broken")
        share = share_of(stanza.arguments[0])
        public = self._key().public_key().public_bytes_raw()
        return unwrapped(derived(agreed(self._key(), share), share + public, _X25519), stanza.body)


def parse_recipient(text: str) -> AgeRecipient:
    """ValueError says what is wrong."""
    prefix, data = from_bech32(text)
    if prefix != PUBLIC or len(data) != 32:
        raise ValueError("it is a kind of age key that safekept does not know")
    return AgeRecipient(data)


def parse_identity(text: str) -> AgeIdentity:
    prefix, data = from_bech32(text)
    if prefix != PRIVATE or len(data) != 32:
        raise ValueError("it is a kind of age key that safekept does not know")
    return AgeIdentity(data)


class Passphrase:
    """A passphrase, made slow to guess."""

    def __init__(self, text: str, work: int = 0) -> None:
        self._secret, self._work = text.encode("utf-8", "surrogateescape"), work or WORK

    def wrap(self, file_key: bytes) -> Stanza:
        salt = os.urandom(16)
        body = wrapped(self._stretched(salt, self._work), file_key)
        return Stanza("scrypt", (unpadded(salt), str(self._work)), body)

    def unwrap(self, stanza: Stanza) -> bytes | None:
        if len(stanza.arguments) != 2 or not _DECIMAL.fullmatch(stanza.arguments[1]):
            raise NotAHeader("a line of it is broken")
        salt, work = padded(stanza.arguments[0].encode("ascii")), int(stanza.arguments[1])
        if len(salt) != 16:
            raise NotAHeader("a line of it is broken")
        if work > WORK_LIMIT:
            raise NotAHeader("opening it would take more than 1 GB of memory, which no honest one asks for")
        return unwrapped(self._stretched(salt, work), stanza.body)

    def _stretched(self, salt: bytes, work: int) -> bytes:
        try:
            return Scrypt(_SCRYPT + salt, 32, 1 << work, 8, 1).derive(self._secret)
        except MemoryError:
            raise NotAHeader("its passphrase needs more memory than there is") from None
