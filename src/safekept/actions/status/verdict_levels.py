"""The three answers to "am I protected?", and what each means to a monitor."""

from __future__ import annotations

PROTECTED, NOT_PROTECTED, ALARM = "protected", "not-protected", "alarm"
#: What `safekept status --check` returns.
EXIT_CODES = {PROTECTED: 0, NOT_PROTECTED: 3, ALARM: 4}
#: A day and two hours: a daily run may be late by that much before anybody is told.
STALE_HOURS = 26.0
#: A week: a disk that is plugged in on Sundays is a good place, too.
PUSH_STALE_HOURS = 7 * 24.0
