"""Names and texts exactly as Go writes them, so that restic makes the same bytes of them.

A node's name is Go's `strconv.Quote` without the outer quotes, and then JSON. Trees whose bytes
differ from what restic would write lose deduplication with its trees, and `restic rewrite` refuses
them. What is printable follows this Python's Unicode tables, as in restic it follows its Go's.
"""

from __future__ import annotations

import datetime
import json
import re
import time

# Times as Go writes them: RFC 3339, up to nine digits of fraction, the local offset. restic computes
# "one a day" in the offset that is written in a snapshot's time, so a local day is only a local day when
# the local offset is written.

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9})\d*)?(?:([Zz])|([+-])(\d\d):(\d\d))"
)
_EPOCH = datetime.date(1970, 1, 1).toordinal()
#: What RFC 3339 can say; a broken clock or file system may claim more, and Go refuses to write it.
_EARLIEST, _LATEST = -62135596800, 253402300799 - 86400


def format_time(nanoseconds: int, offset: int | None = None) -> str:
    """Since 1970; in the local offset of that moment, or in the given one (seconds east)."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    seconds = min(max(seconds, _EARLIEST + 86400), _LATEST)
    try:
        parts = time.localtime(seconds) if offset is None else time.gmtime(seconds + offset)
        east = parts.tm_gmtoff if offset is None else offset
    except (OverflowError, OSError, ValueError):
        parts, east = time.gmtime(seconds), 0
    text = "{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}".format(*parts[:6])
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    minutes = int(east / 60)
    if minutes == 0:
        return text + "Z"
    return text + f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def parse_time(text: str) -> tuple[int, int]:
    """Nanoseconds since 1970 and the offset in seconds east; ValueError where it is no time."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"not a time: {text!r}")
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    # Go writes year 0 for its zero time's neighbours; dates know no year 0.
    days = datetime.date(year, month, day).toordinal() - _EPOCH if year else _EARLIEST // 86400
    offset = 0
    if match[9]:
        offset = (int(match[10]) * 60 + int(match[11])) * (-60 if match[9] == "-" else 60)
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset
    return seconds * 1_000_000_000 + int((match[7] or "0").ljust(9, "0")), offset


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
