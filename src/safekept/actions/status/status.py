"""Am I protected? Everything that is known about it, as plain data, and the verdict first.

The answer is put together from what is stored: snapshot files, receipts, the journal, the records of
projects. Nothing is changed and no lock is taken. A home itself gets a quick look: whether its databases
begin as databases do, and whether what the last snapshot counted is still there. Whatever cannot be looked
at is part of the answer.
"""

from __future__ import annotations

import os
import time
from dataclasses import field

from safekept.core.agents import recognise_home
from safekept.core.ages import iso_time
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.next_step import PROGRAM, spelled
from safekept.core.records import dataclass
from safekept.vault.tags import forgotten_at, layout_of

from ..alarms.alarms import Alarm, open_alarms
from ..alarms.meant import declined_for_good
from ..base.context import UserContext
from ..base.kept_copies import gone_originals
from ..base.operations.homes import SnapshotFacts
from ..base.own_places import known_homes, rebuilt_homes
from ..base.unfinished import read_unfinished
from ..drill.receipts import CHECKPOINTS, read_receipts
from ..hosts.sessions import switched_off
from ..keeper.keeper_status import KeeperStatus, compared, keeper_status
from ..snapshots.listing import as_stored, continued_homes
from .destination_status import (
    DestinationStatus,
    destination_statuses,
    freshest_copy,
    unsaved_place,
    with_copies,
)
from .findings.all_findings import every_finding, with_unfinished
from .findings.doctor_memory import remembered
from .findings.emptied import with_emptied
from .findings.homes import STALE_HOURS
from .findings.stores import PUSH_STALE_HOURS
from .findings.survival import SurvivedBy, survival
from .home_status import HomeStatus, home_status
from .host_status import HostStatus
from .project_summaries import ProjectSummaries, project_summaries
from .recent import Recent, recent
from .schedule_status import ScheduleStatus, schedule_status
from .vault_status import NONE, SHUT, UNOPENED, VaultStatus, VaultView, vault_from_outside, vault_view
from .verdict import Verdict, judge


@dataclass(frozen=True, slots=True)
class JournalStatus:
    """Whether the memory of all this can be trusted."""

    path: str
    problem: str = ""
    unreadable: int = 0
    newer: bool = False

    def as_dict(self) -> dict[str, object]:
        return {
            "path": self.path,
            "problem": self.problem or None,
            "unreadable_lines": self.unreadable,
            "newer": self.newer,
        }


@dataclass(frozen=True, slots=True)
class Status:
    """Everything that `safekept status` shows."""

    time: float
    host: str
    stale_hours: float
    verdict: Verdict
    vault: VaultStatus
    homes: tuple[HomeStatus, ...] = ()
    unkept: tuple[tuple[str, str], ...] = ()  # homes of known agents that were never kept: path, layout
    projects: ProjectSummaries = field(default_factory=lambda: ProjectSummaries(""))
    destinations: tuple[DestinationStatus, ...] = ()
    schedule: ScheduleStatus = field(default_factory=ScheduleStatus)
    alarms: tuple[Alarm, ...] = ()  # all that are open, those of no home among them; newest first
    journal: JournalStatus = field(default_factory=lambda: JournalStatus(""))
    hosts: tuple[HostStatus, ...] = ()  # agent programs that are here or were connected
    off: tuple[str, ...] = ()  # where checkpoints are switched off, in sentences
    keeper: KeeperStatus | None = None  # the copy of another owner on this machine; None: there is none
    survival: SurvivedBy | None = None  # of an `rm -rf ~`; None: nothing is kept yet

    def as_dict(self, program: str = PROGRAM) -> dict[str, object]:
        """Everything, with the commands in it as `program` is called."""
        document = {
            "verdict": self.verdict.as_dict(),
            "time": iso_time(self.time),
            "host": self.host,
            "stale_hours": self.stale_hours,
            "homes": [one.as_dict() for one in self.homes],
            "unkept_homes": [{"home": home, "layout": layout} for home, layout in self.unkept],
            "vault": self.vault.as_dict(),
            "destinations": [one.as_dict() for one in self.destinations],
            "checkpoints": self.projects.as_dict(),
            "schedule": self.schedule.as_dict(),
            "alarms": [one.as_dict() for one in self.alarms],
            "journal": self.journal.as_dict(),
            **({"hosts": [one.as_dict() for one in self.hosts]} if self.hosts else {}),
            **({"checkpoints_off": list(self.off)} if self.off else {}),
            **({"keeper": self.keeper.as_dict()} if self.keeper else {}),
            **({"rm_rf": self.survival.as_dict()} if self.survival is not None else {}),
        }
        return spelled(document, program)


def look(
    context: UserContext,
    home: str = "",
    layout: str = "",
    *,
    stale_hours: float = STALE_HOURS,
    now: float | None = None,
    hosts: tuple[HostStatus, ...] = (),
    open_vault: bool = True,
    isolated: bool = False,
    listener: Listener = silent,
) -> Status:
    """How everything is; of one home where it is named. Raises only where no home can be chosen.

    `hosts` is what a face found out about agent programs and their settings. `listener` hears of what
    opening the vault made right. Without `open_vault` the journal says what is in the vault: that takes
    milliseconds, and is judged in the same way. `isolated`: the first bytes of databases are read by another
    process, where threads of this one may be at them.
    """
    now = time.time() if now is None else now
    found = recent(context, now)
    alarms = open_alarms(context)
    receipts = [one for one in read_receipts(context) if one.subject != CHECKPOINTS]
    if not open_vault and (
        found.problem or not found.snapshots or not os.path.isfile(context.places.vault_key_file)
    ):
        open_vault = True  # the journal says nothing, or the key is away: only the vault itself can tell
    opening = vault_view(context, found, now, listener) if open_vault else vault_from_outside(context, found)
    with opening as view:
        places = _homes(context, view, found, home, layout)
        default, named = _default(context)
        homes = tuple(
            home_status(
                context,
                path,
                name,
                view,
                found,
                default=path == default,
                guessed=path == default and not (named or home or layout),
                receipts=receipts,
                alarms=alarms,
                now=now,
                isolated=isolated,
            )
            for path, name in places
        )
        vault = view.status
    unkept = () if home else _unkept(context, dict(places))
    projects = project_summaries(context)
    destinations = destination_statuses(context, found)
    if vault.absent:
        destinations = with_copies(context, destinations)
    plan = context.choices.schedule
    push_hours = plan.push_overdue_days * 24 if plan is not None else PUSH_STALE_HOURS
    shown = tuple(one for one in alarms if not home or one.home in ("", homes[0].home))
    agents = tuple(one for one in hosts if one.here and not home)
    schedule = schedule_status(context, now)
    stored = [one.last.time for one in homes if one.last is not None]
    keeper = compared(context, keeper_status(context), stored, now)
    findings = every_finding(
        homes,
        vault,
        alarms=shown,
        destinations=destinations,
        projects=None if home else projects,
        hosts=agents,
        unkept=unkept,
        schedule=schedule,
        keeper=keeper,
        unsaved=unsaved_place(context, found),
        journal=(found.problem, context.journal.path),
        stale_hours=stale_hours,
        push_stale_hours=push_hours,
        now=now,
    )
    findings += remembered(context, homes, now)
    if not home:
        findings = with_emptied(findings, context, gone_originals(context), homes, projects, vault, keeper)
    survives = survival(context, vault, destinations, keeper, now)
    unfinished = read_unfinished(context)
    if unfinished is not None:
        findings = with_unfinished(findings, unfinished, now)
    wholes = {one.home: one.whole.time for one in homes if one.whole and one.exists}
    age = now - min(wholes.values()) if wholes else None
    copy = None if vault.off_host else freshest_copy(destinations, wholes)
    here = [one for one in homes if one.exists]
    begun = (
        vault.state != NONE
        or unfinished is not None
        or bool(home)
        or not here
        or any(one.last or one.failure for one in here)
    )
    return Status(
        now,
        os.uname().nodename,
        stale_hours,
        judge(
            findings,
            declined=declined_for_good(context),
            age=age,
            copy=(copy[0], now - copy[1]) if copy else None,
            begun=begun,
            survives=survives.held if survives is not None else None,
        ),
        vault,
        homes,
        unkept,
        projects,
        destinations,
        schedule,
        shown,
        JournalStatus(context.journal.path, found.problem, found.unreadable, found.newer),
        agents,
        switched_off(context.places.data_directory, context.caller.environment),
        keeper,
        survives,
    )


def _default(context: UserContext) -> tuple[str, bool]:
    """The home that is meant where none is named, and whether a setting names it."""
    try:
        place = context.locate(existing=False)
    except SafekeptError:
        return "", False
    return place.home, place.named


def _homes(
    context: UserContext, view: VaultView, recent: Recent, home: str, layout: str
) -> list[tuple[str, str]]:
    """The homes that are looked at, with their layouts; the one that is meant by default comes first."""
    if home or layout:
        place = context.locate(home, layout, existing=False)
        return [(place.home, place.layout.name)]
    kept = _kept_here(view, recent)
    place = context.locate(existing=False)
    known = os.path.isdir(place.home) or place.home in kept
    found = {place.home: place.layout.name} if known else {}
    found |= {path: name for path, name in kept.items() if path != place.home}
    if not found:
        here = [path for path in known_homes(context) if os.path.isdir(path)] or rebuilt_homes(context)
        found = {path: recognise_home(path, context.choices.layouts) or "generic" for path in here}
    return list(found.items()) or [(place.home, place.layout.name)]


def _kept_here(view: VaultView, recent: Recent) -> dict[str, str]:
    """Homes that safekept took snapshots of on this machine, the one taken last first."""
    by_home = {
        home: SnapshotFacts.read(entry).layout or "generic"
        for home, entry in recent.snapshots.items()
        if home
    }
    if view.status.state in (SHUT, UNOPENED):
        return by_home  # the journal remembers them
    host = os.uname().nodename
    continued = continued_homes(view.snapshots)
    # A snapshot file loses bytes that are not UTF-8; the journal has the name as it is.
    whole = {as_stored(home): home for home in by_home}
    return {
        whole.get(snapshot.paths[0], snapshot.paths[0]): layout_of(snapshot)
        for snapshot in reversed(view.snapshots)
        if snapshot.paths
        and layout_of(snapshot)
        and snapshot.hostname in ("", host)
        and forgotten_at(snapshot) is None
        and (snapshot.hostname, snapshot.paths[0]) not in continued
    }


def _unkept(context: UserContext, looked_at: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Homes of agents that are on this machine and of which nothing was ever kept."""
    found = []
    for path in dict.fromkeys(known_homes(context)):
        if path not in looked_at and os.path.isdir(path):
            name = recognise_home(path, context.choices.layouts)
            if name:
                found.append((path, name))
    return tuple(found)
