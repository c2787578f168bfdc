"""The `config` file: version, id and chunker polynomial of a vault.

Sealed with the master key, not compressed, written once and never again. The polynomial is not
used by safekept, but restic refuses a repository whose polynomial is not irreducible, so a proper
one is made: degree 53, tested as restic tests it (Ben-Or).
"""

from __future__ import annotations

import functools
import json
import os

from safekept.core.errors import BAD_SHAPE
from safekept.core.records import dataclass

VERSION = 2
READABLE = (1, 2)
_DEGREE = 53


class BadConfig(Exception):
    """The text is not a config that we, or restic, could work with."""


@dataclass(frozen=True, slots=True)
class Config:
    version: int
    id: str  # 64 hex digits, random
    polynomial: int

    @classmethod
    def generate(cls) -> Config:
        import secrets

        return cls(VERSION, secrets.token_hex(32), random_polynomial())

    def to_json(self) -> bytes:
        return (
            f'{{"version":{self.version},"id":"{self.id}","chunker_polynomial":"{self.polynomial:x}"}}'
        ).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Config:
        """Unknown fields (rustic's) are passed over. An unknown version is still a Config."""
        try:
            fields = json.loads(text)
            config = cls(int(fields["version"]), str(fields["id"]), int(fields["chunker_polynomial"], 16))
        except BAD_SHAPE as error:
            raise BadConfig(f"not a config: {error}") from error
        # restic's have 54 bits; whether a longer one is irreducible would take for ever to say.
        long = config.polynomial.bit_length() > 64
        if config.version in READABLE and (long or not irreducible(config.polynomial)):
            raise BadConfig("its chunker polynomial is not irreducible")
        return config


def random_polynomial() -> int:
    """An irreducible polynomial of degree 53 over GF(2); about one odd candidate in 27 is."""
    while True:
        candidate = int.from_bytes(os.urandom(8)) & ((1 << (_DEGREE + 1)) - 1) | 1 << _DEGREE | 1
        if irreducible(candidate):
            return candidate


@functools.lru_cache(64)  # a helper opens the same repository at every call
def irreducible(polynomial: int) -> bool:
    """Ben-Or: no common factor with x^(2^i) - x for any i up to half the degree."""
    degree = polynomial.bit_length() - 1
    power = 2  # x
    for _ in range(degree // 2):
        power = _remainder(_square(power), polynomial)
        if _common_divisor(polynomial, power ^ 2) != 1:
            return False
    return True


def _square(polynomial: int) -> int:
    # Squaring over GF(2) puts a zero between all the bits.
    return int(format(polynomial, "b").replace("0", "00").replace("1", "01"), 2)


def _remainder(polynomial: int, divisor: int) -> int:
    size = divisor.bit_length()
    while (excess := polynomial.bit_length() - size) >= 0:
        polynomial ^= divisor << excess
    return polynomial


def _common_divisor(one: int, other: int) -> int:
    while other:
        one, other = other, _remainder(one, other)
    return one
