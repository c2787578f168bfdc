# ruff: noqa: E501
"""Inputs that nobody would write: seeds of honest ones, changed byte by byte, piece by piece, value by value."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from safekept.core.errors import SafekeptError

INTERESTING = [
    0,
    1,
    -1,
    127,
    128,
    255,
    256,
    32767,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**64,
]
VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 10**30, -(10**30), 2**63, "", "\0", "\ud800", "../..", "/etc/passwd", "x" * 5000,
    "a/" * 3000, [], {}, [[]] * 50, {"a": {"b": []}}, float("inf"), "9" * 300, "\u202e", "NaN", [None] * 3,
]  # fmt: skip


def changed_bytes(source: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with a few changes, or two of them joined."""
    data = bytearray(source.choice(seeds))
    for _ in range(source.choice((1, 1, 1, 2, 3, 8, 30))):
        _change(source, data, seeds)
    return bytes(data)


def _change(source: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    kind = source.randrange(9)
    at = source.randrange(len(data) + 1)
    if kind == 0 and data:
        data[at % len(data)] ^= 1 << source.randrange(8)
    elif kind == 1 and data:
        data[at % len(data)] = source.randrange(256)
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        del data[at : at + source.randrange(1, 64)]
    elif kind == 4:
        data[at:at] = source.randbytes(source.randrange(1, 64))
    elif kind == 5:
        width = source.choice((1, 2, 4, 8))
        number = source.choice(INTERESTING) % (1 << 8 * width)
        data[at : at + width] = number.to_bytes(width, source.choice(("little", "big")))
    elif kind == 6:
        other = source.choice(seeds)
        start = source.randrange(len(other) + 1)
        data[at:at] = other[start : start + source.randrange(1, 4096)]
    elif kind == 7 and data:
        start = source.randrange(len(data))
        piece = bytes(data[start : start + source.randrange(1, 600)])
        data[at:at] = piece * source.choice((1, 2, 50))
    elif kind == 8:
        data[at : at + 1] = source.choice(
            [b"[" * 2000, b'{"a":' * 2000, b"9" * 5000, b"\0" * 5000, b"\n" * 500]
        )


def changed_values(source: random.Random, documents: Sequence[Any], odd: Sequence[Any] = ()) -> bytes:
    """A JSON document with some of its values replaced, taken out or put elsewhere; sometimes its bytes too."""
    made = json.loads(json.dumps(source.choice(documents)))
    values = odd if odd and source.random() < 0.5 else VALUES
    for _ in range(source.choice((1, 1, 2, 5))):
        inside, key = _somewhere(source, made)
        if inside is None:
            made = copy.deepcopy(source.choice(values))
        elif source.random() < 0.2 and isinstance(inside, dict):
            inside.pop(key, None)
        elif source.random() < 0.2 and isinstance(inside, dict):
            inside[source.choice([key + "x", "", "\0", "__class__", "path", "size"])] = copy.deepcopy(
                inside[key]
            )
        else:
            inside[key] = copy.deepcopy(source.choice(values))
    text = json.dumps(made).encode("utf-8", "surrogatepass")
    return changed_bytes(source, [text]) if source.random() < 0.15 else text


def _somewhere(source: random.Random, document: Any) -> tuple[Any, Any]:
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, inner in list(items)[:50]:
            places.append((value, key))
            walk(inner)

    walk(document)
    return source.choice(places) if places else (None, None)


@dataclass(frozen=True)
class Maker:
    """Changed inputs, and the honest ones that they were made of."""

    change: Callable[[random.Random], bytes]
    honest: tuple[bytes, ...]

    def __call__(self, source: random.Random) -> bytes:
        return self.change(source)


def bytes_of(*seeds: bytes) -> Maker:
    return Maker(lambda source: changed_bytes(source, seeds), seeds)


def values_of(*documents: Any) -> Maker:
    honest = tuple(json.dumps(one).encode() for one in documents)
    return Maker(lambda source: changed_values(source, documents), honest)


def lines_of(*documents: Any, odd: Sequence[Any] = ()) -> Maker:
    """A file of lines, each a JSON document, of which some are changed; `odd`: values that may hurt here."""

    def make(source: random.Random) -> bytes:
        lines = [
            changed_values(source, [one], odd) if source.random() < 0.4 else json.dumps(one).encode()
            for one in documents
        ]
        text = b"\n".join(lines) + b"\n"
        return changed_bytes(source, [text]) if source.random() < 0.3 else text

    return Maker(make, (b"".join(json.dumps(one).encode() + b"\n" for one in documents),))


@dataclass
class Target:
    """How inputs are made, what takes them, and the errors with which it may refuse one."""

    make: Maker
    take: Callable[[bytes], None]
    refusals: tuple[type[BaseException], ...] = (SafekeptError,)
    sample: int = 100  # changed inputs in `./test`
    taken: int | None = None  # so many of the honest ones are taken; None: all

    @property
    def honest(self) -> tuple[bytes, ...]:
        return self.make.honest[: self.taken]
