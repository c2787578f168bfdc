"""The shortest answer, for a prompt: the same verdict as `status`, without opening the vault.

What only the vault could tell is taken from the journal: what the last snapshots said of themselves. The
rules are the very same ones, so the short answer and the long one climb one ladder.
"""

from __future__ import annotations

from safekept.core.ages import iso_time
from safekept.core.records import dataclass

from ..base.context import UserContext
from .findings.homes import STALE_HOURS
from .host_status import HostStatus
from .status import look


@dataclass(frozen=True, slots=True)
class ShortStatus:
    """One line."""

    level: str
    text: str
    last: float  # the last snapshot; 0: none that the journal knows
    alarms: int
    exit_code: int

    def as_dict(self) -> dict[str, object]:
        return {
            "level": self.level,
            "text": self.text,
            "exit_code": self.exit_code,
            "last_snapshot": iso_time(self.last),
            "alarms": self.alarms,
        }


def short_status(
    context: UserContext,
    home: str = "",
    *,
    hosts: tuple[HostStatus, ...] = (),
    stale_hours: float = STALE_HOURS,
    now: float | None = None,
) -> ShortStatus:
    """How everything is, in a line; of one home where it is named."""
    found = look(context, home, stale_hours=stale_hours, now=now, hosts=hosts, open_vault=False)
    verdict = found.verdict
    last = max((one.last.time for one in found.homes if one.last), default=0.0)
    user = context.places.user_home.rstrip("/") + "/"
    text = verdict.text.replace(user, "~/") if len(user) > 1 else verdict.text
    return ShortStatus(verdict.level, text, last, len(found.alarms), verdict.exit_code)
