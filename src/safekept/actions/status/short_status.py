"""The shortest answer, for a prompt: by the journal alone, in a few milliseconds, the vault not opened.

It says what the last runs said of themselves and whether the vault is still there. Whoever wants to know
for sure asks `look`.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from safekept.core.ages import moment, seconds_text
from safekept.core.journal import Record
from safekept.core.objects.address import is_address

from ..alarms.alarms import open_alarms
from ..base.context import UserContext
from .recent import ENDED_BADLY, OF_THE_PAST, STORED
from .verdict_levels import ALARM, EXIT_CODES, NOT_PROTECTED, PROTECTED

#: Seconds that two clocks may be apart without a word.
_SKEW = 60.0

__all__ = ["EXIT_CODES", "ShortStatus", "short_status"]


@dataclass(frozen=True, slots=True)
class ShortStatus:
    """One line."""

    level: str
    text: str
    last: float  # the last snapshot; 0: none that the journal knows
    alarms: int

    def as_dict(self) -> dict[str, object]:
        return {
            "level": self.level,
            "text": self.text,
            "last_snapshot": moment(self.last),
            "alarms": self.alarms,
        }


def short_status(
    context: UserContext, home: str, *, stale_hours: float, now: float | None = None
) -> ShortStatus:
    """How one home is, by what the journal says."""
    now = time.time() if now is None else now
    alarms = len(open_alarms(context))
    try:
        entry, failure = _last(context, home, now)
    except OSError:
        return ShortStatus(NOT_PROTECTED, "cannot tell: the journal cannot be read", 0.0, alarms)
    last = entry.time if entry else 0.0
    level, text = _judged(context, entry, failure, stale_hours, now)
    if alarms:
        level, text = ALARM, f"ALARM: {alarms:,} {'alarm' if alarms == 1 else 'alarms'}"
    return ShortStatus(level, text, last, alarms)


def _last(context: UserContext, home: str, now: float) -> tuple[Record | None, Record | None]:
    """The last snapshot that was stored, and what failed after it; read from the end and no further.

    One from the future says nothing about today, unless there is no other.
    """
    future, failure = None, None
    for record in context.journal.backwards("snapshot"):
        if record.facts.get("home") != home or record.facts.get("kind") in OF_THE_PAST:
            continue
        if record.state in ENDED_BADLY:
            failure = failure or record
        elif record.state in STORED and record.time <= now + _SKEW:
            return record, failure
        elif record.state in STORED:
            future = future or record
    return future, failure


def _judged(
    context: UserContext, entry: Record | None, failure: Record | None, stale_hours: float, now: float
) -> tuple[str, str]:
    if entry is None:
        return NOT_PROTECTED, "not protected: no snapshot yet"
    if not is_address(context.places.vault) and not os.path.exists(
        os.path.join(context.places.vault, "config")
    ):
        return ALARM, "ALARM: the vault is gone"
    databases = entry.facts.get("databases")
    if isinstance(databases, dict) and "damaged" in databases.values():
        return ALARM, "ALARM: a database is damaged"
    if failure is not None:
        how = "was interrupted" if failure.state == "interrupted" else "failed"
        return NOT_PROTECTED, f"not protected: the last snapshot {how}"
    if entry.state != "done":
        return NOT_PROTECTED, "not protected: the last snapshot is incomplete"
    if entry.time > now + _SKEW:
        return NOT_PROTECTED, "not protected: the last snapshot is dated in the future"
    age = seconds_text(max(0.0, now - entry.time))
    if now - entry.time > stale_hours * 3600:
        return NOT_PROTECTED, f"not protected: {age} old"
    return PROTECTED, f"protected, {age} old"
