"""All findings that a look makes, in the order in which people should read them within a rung."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from safekept.core.ages import seconds_text
from safekept.core.finding import PARTLY, Finding

from ...alarms.alarms import Alarm
from ...base.unfinished import Unfinished
from ...keeper.keeper_status import KeeperStatus
from ..destination_status import DestinationStatus
from ..home_status import HomeStatus
from ..host_status import HostStatus
from ..project_summaries import ProjectSummaries
from ..schedule_status import ScheduleStatus
from ..vault_status import SHUT, VaultStatus
from .homes import STALE_HOURS, of_home
from .keeper import of_keeper
from .stores import (
    PUSH_STALE_HOURS,
    of_alarms,
    of_destinations,
    of_homes_elsewhere,
    of_journal,
    of_lost_vault,
    of_vault,
)
from .work import of_hosts, of_projects, of_schedule, of_unkept_homes


def every_finding(
    homes: Sequence[HomeStatus],
    vault: VaultStatus,
    *,
    alarms: Sequence[Alarm] = (),
    destinations: Sequence[DestinationStatus] = (),
    projects: ProjectSummaries | None = None,
    hosts: Sequence[HostStatus] = (),
    unkept: Sequence[tuple[str, str]] = (),
    schedule: ScheduleStatus | None = None,
    keeper: KeeperStatus | None = None,
    unsaved: str = "",  # a place that was pushed to once and is not in the settings
    journal: tuple[str, str] = ("", ""),  # what is wrong with it, and where it is
    stale_hours: float = STALE_HOURS,
    push_stale_hours: float = PUSH_STALE_HOURS,
    now: float,
) -> list[Finding]:
    """Weigh everything that was found."""
    used = [one.found for one in hosts if one.used_lately(now)]
    lost = list(of_lost_vault(vault, destinations))
    if lost:
        # What is elsewhere comes first: a new vault beside it would only hide it.
        homes = [home for home in homes if home.last is not None]
    return [
        *lost,
        *of_alarms(alarms, now),
        *of_keeper(keeper, now),
        *of_journal(*journal),
        *of_vault(vault, destinations),
        *(one for home in homes for one in of_home(home, alarms, stale_hours, now, vault.state != SHUT)),
        *of_hosts(hosts, now, homes),
        *of_unkept_homes(unkept, used),
        *of_schedule(schedule or ScheduleStatus(), homes, now),
        *of_projects(projects or ProjectSummaries("")),
        *of_destinations(
            [one for one in destinations if not one.holds], vault, push_stale_hours, now, unsaved
        ),
        *of_homes_elsewhere(homes, destinations),
    ]


# A rebuild or a setup that was cut off: said before what follows from it.


#: What is found because a step is not done yet, by its kind; the command that goes on is shown instead.
_FOLLOWS = {
    "vault": ("vault-shut", "vault-lost"),
    "history": ("vault-shut", "vault-lost"),
    "connect": ("host-not-connected", "profile-not-connected", "connection-partly", "connection-gone"),
    "schedule": ("no-schedule",),
}


def with_unfinished(findings: Iterable[Finding], work: Unfinished, now: float) -> list[Finding]:
    """The same findings with this one before them, and without those that only repeat it."""
    what = "a rebuild" if work.verb == "rebuild" else "setup"
    text = f"{what} was begun {seconds_text(max(0.0, now - work.since))} ago and is not finished"
    first = Finding("unfinished", PARTLY, text, (work.stands,), (work.again,))
    follows = {code for kind, codes in _FOLLOWS.items() if work.is_left(kind) for code in codes}
    return [first, *(one for one in findings if one.code not in follows)]
