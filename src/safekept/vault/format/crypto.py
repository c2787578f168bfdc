"""The authenticated envelope around everything secret in a vault (restic's design, section 1.2).

    16 bytes random IV | AES-256-CTR ciphertext | 16 bytes Poly1305-AES over the ciphertext

The tag is checked before anything is decrypted. `seal_many` does a batch: one call for the random
IVs and one for all the one-time keys, since at 16 KiB a blob the fixed cost per call counts.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Sequence
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.poly1305 import Poly1305

from safekept.core.records import dataclass

from .blobs import Buffer

OVERHEAD = 32
_IV = 16
_TAG = 16
_KEPT = 8  # keys whose ciphers a thread keeps
_local = threading.local()


class Unauthentic(Exception):
    """The envelope was not made with this key, or not a bit of it may be trusted any more."""


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """An encryption key and the two halves of the authentication key. Never printed."""

    encrypt: bytes  # 32 bytes
    mac_k: bytes  # 16 bytes
    mac_r: bytes  # 16 bytes

    def __post_init__(self) -> None:
        if (len(self.encrypt), len(self.mac_k), len(self.mac_r)) != (32, 16, 16):
            raise ValueError("a key has 32, 16 and 16 bytes")
        if not (any(self.encrypt) and any(self.mac_k) and any(self.mac_r)):
            raise ValueError("a key of zeros is no key")

    def __repr__(self) -> str:
        return "Key(…)"

    @classmethod
    def generate(cls) -> Key:
        return cls(os.urandom(32), os.urandom(16), os.urandom(16))

    @classmethod
    def from_bytes(cls, data: bytes) -> Key:
        """From the 64 bytes that a key derivation gives."""
        return cls(data[:32], data[32:48], data[48:64])

    def to_json(self) -> bytes:
        """The master key as it is stored, sealed, in a key file."""
        k, r, encrypt = (base64.b64encode(part).decode() for part in (self.mac_k, self.mac_r, self.encrypt))
        return f'{{"mac":{{"k":"{k}","r":"{r}"}},"encrypt":"{encrypt}"}}'.encode()

    @classmethod
    def from_json(cls, data: bytes) -> Key:
        """Raises ValueError where the text is not a master key."""
        try:
            fields: dict[str, Any] = json.loads(data)
            parts = (fields["encrypt"], fields["mac"]["k"], fields["mac"]["r"])
            return cls(*(base64.b64decode(part, validate=True) for part in parts))
        except (KeyError, TypeError) as error:
            raise ValueError("not a master key") from error

    def seal(self, plain: Buffer) -> bytes:
        return self.seal_many([plain])[0]

    def seal_many(self, plains: Sequence[Buffer]) -> list[bytes]:
        """One envelope for each; a fresh random IV for each."""
        random = os.urandom(_IV * len(plains))
        cipher, nonces, sealed = *self._ciphers(random), []
        for number, plain in enumerate(plains):
            start = number * _IV
            iv = random[start : start + _IV]
            if not any(iv):  # rejected by every reader; once in 2^128
                return self.seal_many(plains)
            cipher.reset_nonce(iv)
            body = cipher.update(plain)
            tag = Poly1305.generate_tag(self.mac_r + nonces[start : start + _IV], body)
            sealed.append(b"".join((iv, body, tag)))
        return sealed

    def open(self, sealed: Buffer) -> bytes:
        return self.open_many([sealed])[0]

    def open_many(self, envelopes: Sequence[Buffer]) -> list[bytes]:
        """The plain bytes of each; Unauthentic at the first that fails, naming its place."""
        views = [memoryview(sealed) for sealed in envelopes]
        ivs = [bytes(view[:_IV]) for view in views]
        if any(len(view) < OVERHEAD for view in views):
            raise Unauthentic("too short for an envelope")
        cipher, nonces, plains = *self._ciphers(b"".join(ivs)), []
        for number, (view, iv) in enumerate(zip(views, ivs, strict=True)):
            body = view[_IV:-_TAG]
            try:
                one_time = self.mac_r + nonces[number * _IV : (number + 1) * _IV]
                Poly1305.verify_tag(one_time, body, bytes(view[-_TAG:]))
            except InvalidSignature:
                raise Unauthentic("the authentication tag does not match") from None
            if not any(iv):
                raise Unauthentic("an all-zero IV")
            cipher.reset_nonce(iv)
            plains.append(cipher.update(body))
        return plains

    def _ciphers(self, ivs: bytes) -> tuple[CipherContext, bytes]:
        """The counter-mode cipher of this thread (each way is the same), and a one-time key for each IV.

        Ciphers are kept: making one costs more than sealing a small file.
        """
        kept: dict[Key, tuple[CipherContext, CipherContext]] = _local.__dict__.setdefault("ciphers", {})
        if self not in kept:
            if len(kept) >= _KEPT:
                kept.clear()
            counter = Cipher(algorithms.AES(self.encrypt), modes.CTR(bytes(_IV))).encryptor()
            # ECB on purpose: Poly1305-AES encrypts each nonce once with a key of its own.
            nonce = Cipher(algorithms.AES(self.mac_k), modes.ECB()).encryptor()  # noqa: S305
            kept[self] = (counter, nonce)
        counter, nonce = kept[self]
        return counter, nonce.update(ivs)
