"""SSH keys as age uses them: ssh-ed25519 (turned into X25519) and ssh-rsa (OAEP).

A stanza carries four bytes of the hash of the public key, so it is known which private key fits before
a person is asked for its passphrase.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from safekept.core.records import dataclass

from .format import FILE_KEY, NotAHeader, Stanza, derived, unpadded
from .keys import agreed, share_of, unwrapped, wrapped

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.padding import OAEP
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

ED25519, RSA = "ssh-ed25519", "ssh-rsa"
KINDS = (ED25519, RSA)
_ED25519_LABEL = b"age-encryption.org/v1/ssh-ed25519"
_RSA_LABEL = b"age-encryption.org/v1/ssh-rsa"
_SHORTEST_RSA = 2048
_PRIME = 2**255 - 19


def fields(blob: bytes) -> list[bytes]:
    """The length-prefixed strings that SSH writes everything in; ValueError where it is cut."""
    found, position = [], 0
    while position < len(blob):
        length = int.from_bytes(blob[position : position + 4], "big")
        position += 4 + length
        if position > len(blob):
            raise ValueError("it is cut short")
        found.append(blob[position - length : position])
    return found


def tag_of(blob: bytes) -> str:
    """What a stanza says of the key it is for."""
    return unpadded(hashlib.sha256(blob).digest()[:4])


@dataclass(frozen=True, slots=True)
class SshRecipient:
    """A public key, as one line of a `.pub` file says it."""

    kind: str
    blob: bytes
    comment: str = ""

    def __str__(self) -> str:
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")
        return f"{self.kind} SHA256:{digest}"

    def wrap(self, file_key: bytes) -> Stanza:
        if self.kind == ED25519:
            return self._wrap_ed25519(file_key)
        body = self.rsa().encrypt(file_key, _oaep())
        return Stanza(RSA, (tag_of(self.blob),), body)

    def _wrap_ed25519(self, file_key: bytes) -> Stanza:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        once = X25519PrivateKey.generate()
        share, public = once.public_key().public_bytes_raw(), montgomery(fields(self.blob)[1])
        secret = tweaked(self.blob, agreed(once, public))
        key = derived(secret, share + public, _ED25519_LABEL)
        return Stanza(ED25519, (tag_of(self.blob), unpadded(share)), wrapped(key, file_key))

    def rsa(self) -> RSAPublicKey:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

        _, exponent, modulus = fields(self.blob)
        return RSAPublicNumbers(int.from_bytes(exponent, "big"), int.from_bytes(modulus, "big")).public_key()


def parse_public(text: str) -> SshRecipient:
    """One line of a `.pub` file; ValueError says what is wrong."""
    kind, _, rest = text.strip().partition(" ")
    encoded, _, comment = rest.strip().partition(" ")
    if kind not in KINDS:
        raise ValueError(f"SSH keys of the kind {kind} can only sign; take ssh-ed25519 or ssh-rsa")
    try:
        blob = base64.b64decode(encoded, validate=True)
        parts = fields(blob)
    except (binascii.Error, ValueError):
        raise ValueError("it is not a whole SSH public key") from None
    if not parts or parts[0] != kind.encode() or len(parts) != (2 if kind == ED25519 else 3):
        raise ValueError("it is not a whole SSH public key")
    found = SshRecipient(kind, blob, comment.strip())
    if kind == ED25519:
        if len(parts[1]) != 32:
            raise ValueError("it is not a whole SSH public key")
        montgomery(parts[1])
    elif int.from_bytes(parts[2], "big").bit_length() < _SHORTEST_RSA:
        raise ValueError(f"an RSA key of less than {_SHORTEST_RSA} bits is too weak")
    else:
        found.rsa()
    return found


@dataclass(slots=True)
class SshIdentity:
    """A private key in a file, unlocked when a stanza is really for it."""

    path: str
    kind: str
    blob: bytes  # the public half
    unlock: Callable[[], object]  # the private key of `cryptography`; asks for its passphrase if it must

    def fits(self, stanza: Stanza) -> bool:
        return (
            stanza.kind == self.kind and bool(stanza.arguments) and stanza.arguments[0] == tag_of(self.blob)
        )

    def unwrap(self, stanza: Stanza) -> bytes | None:
        if not self.fits(stanza):
            return None
        if len(stanza.arguments) != (2 if self.kind == ED25519 else 1):
            raise NotAHeader("a line of it is broken")
        return self._ed25519(stanza) if self.kind == ED25519 else self._rsa(stanza)

    def _ed25519(self, stanza: Stanza) -> bytes | None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        private = self.unlock()
        assert isinstance(private, Ed25519PrivateKey)
        share = share_of(stanza.arguments[1])
        scalar = hashlib.sha512(private.private_bytes_raw()).digest()[:32]
        mine = X25519PrivateKey.from_private_bytes(scalar)
        secret = tweaked(self.blob, agreed(mine, share))
        key = derived(secret, share + mine.public_key().public_bytes_raw(), _ED25519_LABEL)
        return unwrapped(key, stanza.body)

    def _rsa(self, stanza: Stanza) -> bytes | None:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

        private = self.unlock()
        assert isinstance(private, RSAPrivateKey)
        try:
            file_key = private.decrypt(stanza.body, _oaep())
        except ValueError:
            return None
        if len(file_key) != FILE_KEY:
            raise NotAHeader("a wrapped key in it has the wrong size")
        return file_key


def montgomery(public: bytes) -> bytes:
    """An Ed25519 point as the X25519 key of the same owner: u = (1 + y) / (1 - y)."""
    y = int.from_bytes(public, "little") & (1 << 255) - 1
    if y % _PRIME == 1:
        raise ValueError("it is not a whole SSH public key")
    return ((1 + y) * pow(1 - y, -1, _PRIME) % _PRIME).to_bytes(32, "little")


def tweaked(blob: bytes, secret: bytes) -> bytes:
    """age's way of keeping this use of the key apart from every other."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    tweak = X25519PrivateKey.from_private_bytes(derived(b"", blob, _ED25519_LABEL))
    return agreed(tweak, secret)


def _oaep() -> OAEP:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    return padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), _RSA_LABEL)


def default_files(directory: str) -> list[str]:
    """The private keys that ssh itself would try."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    return [
        os.path.join(directory, name)
        for name in names
        if name.startswith("id_") and not name.endswith(".pub") and os.path.isfile(f"{directory}/{name}")
    ]
