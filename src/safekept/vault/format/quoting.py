"""Names and texts exactly as Go writes them, so that restic makes the same bytes of them.

A node's name is Go's `strconv.Quote` without the outer quotes, and then JSON. Trees whose bytes
differ from what restic would write lose deduplication with its trees, and `restic rewrite` refuses
them. What is printable follows this Python's Unicode tables, as in restic it follows its Go's.
"""

from __future__ import annotations

import json
import re

_SHORT = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}
_LONG = {short[1]: char.encode() for char, short in _SHORT.items()}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\\"'])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3}))"
)
_ALWAYS = re.compile("[<>&\u2028\u2029]|[\ud800-\udfff]")


def quote(name: str) -> str:
    """Go's quoting of a name that was decoded with `surrogateescape`."""
    if name.isprintable() and '"' not in name and "\\" not in name:
        return name
    return "".join(map(_quoted, name))


def _quoted(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unquote(text: str) -> str:
    """The name behind Go's quoting; ValueError where Go could not have written it."""
    if "\\" not in text:
        if '"' in text or "\n" in text:
            raise ValueError("a quoted name with a bare quote or newline")
        text.encode()  # half a surrogate pair out of JSON is no name: UnicodeEncodeError is a ValueError
        return text
    parts, position = [], 0
    for match in _ESCAPE.finditer(text):
        parts.append(_bare(text[position : match.start()]))
        short, hexadecimal, four, eight, octal = match.groups()
        if short:
            parts.append(_LONG.get(short, short.encode()))
        elif hexadecimal:
            parts.append(bytes.fromhex(hexadecimal))
        elif octal:
            parts.append(bytes([int(octal, 8)]))  # ValueError beyond 255, as in Go
        else:
            parts.append(chr(int(four or eight, 16)).encode())  # a surrogate is refused, as in Go
        position = match.end()
    parts.append(_bare(text[position:]))
    return b"".join(parts).decode("utf-8", "surrogateescape")


def _bare(text: str) -> bytes:
    if "\\" in text or '"' in text or "\n" in text:
        raise ValueError("a quoted name with a broken escape")
    return text.encode()


def json_text(text: str) -> str:
    """A JSON string as Go's encoder writes it: raw UTF-8, but five characters always escaped.

    A byte that is not UTF-8 (decoded with `surrogateescape`) becomes `\\ufffd`, as in Go.
    """
    encoded = json.dumps(text, ensure_ascii=False)
    if _ALWAYS.search(encoded):
        encoded = _ALWAYS.sub(_escaped, encoded)
    return encoded


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
