"""Times in words: how long ago something was, and when, for people and for documents."""

from __future__ import annotations

import time

_UNITS = ((100, "s", 1), (100, "min", 60), (48, "h", 3600))


def seconds_text(seconds: float) -> str:
    """`12 s`, `5 min`, `3 h`, `9 days`."""
    for limit, unit, size in _UNITS:
        if seconds / size < limit:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 86400):,} days"


def moment(seconds: float) -> str | None:
    """A time for a document: `2026-11-15T12:31:05Z`; None for one that never was."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else None
