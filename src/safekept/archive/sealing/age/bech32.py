"""Bech32 (BIP 173), as age uses it for its keys: text with a checksum, without the length limit."""

from __future__ import annotations

_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_CHECK = 6


def encode(prefix: str, data: bytes) -> str:
    """Text for these bytes, lower case."""
    values = _regroup(data, 8, 5, pad=True)
    check = _checksum([*_expanded(prefix), *values, *([0] * _CHECK)]) ^ 1
    values += [check >> 5 * (_CHECK - 1 - place) & 31 for place in range(_CHECK)]
    return prefix + "1" + "".join(_LETTERS[value] for value in values)


def decode(text: str) -> tuple[str, bytes]:
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
