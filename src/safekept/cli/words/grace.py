"""When something that was dropped goes for good, in words: one form for every command that drops."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from safekept.core.trash import GRACE

if TYPE_CHECKING:
    from safekept.vault.care import PrunePlan


def date_text(when: float) -> str:
    """`2026-06-04 14:30`, local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))


def gone_text(until: float, limit: str = "") -> str:
    """Until when it is kept, or that it is gone; `limit` names what may make it go sooner."""
    if not until:
        return "gone for good"
    return f"until {date_text(until)}{f', or until {limit}' if limit else ''}; then it goes for good"


def kept_text(days: float) -> str:
    """What a landing replaced: until when `undo` can bring it back."""
    day = time.strftime("%Y-%m-%d", time.localtime(time.time() + days * 86400))
    return f"what was replaced or removed, until {day}"


def first_to_go(plan: PrunePlan) -> str:
    """When the first of the forgotten snapshots that wait may be deleted."""
    from safekept.vault.tags import forgotten_at

    times = [when for one in plan.waiting if (when := forgotten_at(one)) is not None]
    first = min(times) / 1e9 if times else time.time()
    return f"the first can be called back until {date_text(first + GRACE)}"
