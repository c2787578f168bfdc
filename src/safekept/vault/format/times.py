"""Times as Go writes them: RFC 3339, up to nine digits of fraction, the local offset.

restic computes "one a day" in the offset that is written in a snapshot's time, so a local day is
only a local day when the local offset is written.
"""

from __future__ import annotations

import datetime
import re
import time

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
