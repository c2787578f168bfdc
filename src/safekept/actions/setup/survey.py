"""What is on this machine: agents' homes and their profiles, what is kept of them, and what is missing.

Nothing is changed by looking. What an agent's settings say is filled in by a face, as for `status`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from safekept.core.agents import recognise_home
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ..base.context import HomeRef, UserContext
from ..base.own_places import known_homes, rebuilt_homes
from ..schedule.host_start import CRON_STOPPED
from ..status.host_status import HostStatus
from ..status.status import Status, look
from ..status.vault_status import NONE


class NoHomeFound(SafekeptError):
    code = "no-home-found"


class VaultElsewhere(SafekeptError):
    code = "vault-elsewhere"


@dataclass(frozen=True, slots=True)
class FoundHome:
    """One agent's home, with the profiles in it."""

    place: HomeRef
    profiles: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return {
            "home": self.place.home,
            "layout": self.place.layout.name,
            "title": self.place.layout.title,
            "profiles": list(self.profiles),
        }


@dataclass(frozen=True, slots=True)
class AgentPlace:
    """One agent, or one profile of it, that can be made to call safekept."""

    host: str
    title: str
    profile: str  # "" for an agent without profiles, and for the usual one
    scope: str
    connected: bool
    entries: bool  # something of ours stands in its settings, whether it works or not
    connect: Callable[[], object]
    disconnect: Callable[[], object]
    #: The files that connecting writes into, and how many lie in each that is a directory.
    written: Callable[[], Mapping[str, int]] = dict

    @property
    def name(self) -> str:
        return f"{self.title} ({self.profile})" if self.profile else self.title

    def as_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "profile": self.profile or None,
            "scope": self.scope or None,
            "connected": self.connected,
        }


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything that `setup` starts from."""

    homes: tuple[FoundHome, ...]
    agents: tuple[AgentPlace, ...]
    status: Status
    #: What goes into the settings so that plain commands know these homes, by the names of the settings.
    remember: Mapping[str, object] = field(default_factory=dict)

    @property
    def has_vault(self) -> bool:
        return self.status.vault.state != NONE

    @property
    def recovery_access(self) -> str:
        """What opens the vault when this machine is gone; "" where nothing does."""
        return self.status.vault.recovery_access if self.has_vault else ""

    @property
    def unconnected(self) -> tuple[AgentPlace, ...]:
        return tuple(one for one in self.agents if not one.connected)

    @property
    def scheduled(self) -> bool:
        """Whether a schedule is installed as it should be: installing it again would change nothing."""
        schedule = self.status.schedule
        as_it_is = not schedule.trouble or schedule.trouble.startswith(CRON_STOPPED)
        whole = not schedule.unfound and not schedule.other_times and not self.ends_at_logout
        return bool(schedule.installed) and as_it_is and whole

    @property
    def ends_at_logout(self) -> bool:
        """Whether it runs only while this user is logged in, and no person said that this is meant."""
        return any(one.code == "schedule-until-logout" for one in self.status.verdict.findings)

    @property
    def unkept(self) -> tuple[FoundHome, ...]:
        """Homes without a whole snapshot, and those whose newest one failed its drill: it fails again."""
        kept = {
            one.home
            for one in self.status.homes
            if one.whole is not None and (one.drill is None or one.drill.ok or one.drill.name != one.whole.id)
        }
        return tuple(one for one in self.homes if one.place.home not in kept)

    @property
    def unproven(self) -> tuple[FoundHome, ...]:
        """Homes of which no restore was ever proven, or of which the last proof failed; and those without a
        snapshot: what was proven of such a one is not what setup is about to store."""
        known = {one.home: one for one in self.status.homes}
        found = ((one, known.get(one.place.home)) for one in self.homes)
        return tuple(
            one
            for one, status in found
            if status is None
            or status.whole is None
            or status.proof is None
            or (status.drill is not None and not status.drill.ok)
        )

    @property
    def unpushed(self) -> tuple[str, ...]:
        """Destinations that have nothing yet."""
        return tuple(one.name for one in self.status.destinations if not one.last)

    def as_dict(self) -> dict[str, object]:
        return {
            "homes": [one.as_dict() for one in self.homes],
            "agents": [one.as_dict() for one in self.agents],
        }


def find_homes(context: UserContext, named: Sequence[str] = ()) -> tuple[FoundHome, ...]:
    """Every home of an agent on this machine; with `named`, those. NoHomeFound where there is none."""
    paths = [os.path.realpath(os.path.expanduser(one)) for one in named] or known_homes(context)

    def homes_among(paths: Sequence[str]) -> dict[str, FoundHome]:
        wanted = [one for one in paths if named or recognise_home(one, context.home_places)]
        places = [context.locate(path) for path in wanted]
        return {place.home: FoundHome(place, _profiles(place)) for place in places}

    found = homes_among(paths) or homes_among(rebuilt_homes(context))
    if not found:
        raise NoHomeFound(
            "No agent's home was found on this machine",
            kept="Nothing was changed",
            next_steps=(
                "Start your agent once, so that it makes its home; then run this again",
                NextStep("setup", ("--home", "PATH"), before="Or name the directory:"),
                NextStep("rebuild", ("KIT",), before="If it was on a machine that is gone, bring it back:"),
            ),
            looked=paths,
        )
    usual = context.home_and_layout_name()[0]  # the one that is meant where none is named comes first
    return tuple(sorted(found.values(), key=lambda one: one.place.home != usual))


def to_remember(context: UserContext, homes: Sequence[FoundHome]) -> dict[str, object]:
    """The settings that make homes at unusual places known; none where every home is found anyway.

    Such a home is the one that is meant from now on, unless that one is kept already: nothing is taken from
    it, and both are looked after.
    """
    from safekept.schedule.tasks import Plan

    from ..schedule.steps import homes_of

    known = known_homes(context)
    new = [one.place.home for one in homes if one.place.home not in known]
    if not new:
        return {}
    kept = [
        path
        for path in homes_of(context, context.choices.schedule or Plan())
        if os.path.isdir(path) and context.was_here(path)
    ]
    settings: dict[str, object] = {}
    if context.home_and_layout_name()[0] not in kept:
        settings["home"] = new[0]
    if kept or len(new) > 1:
        settings["schedule.homes"] = [*kept, *new]
    return settings


def remembering(context: UserContext, settings: Mapping[str, object]) -> UserContext:
    """As if those stood in the settings already."""
    from safekept.schedule.tasks import Plan

    home, homes = settings.get("home"), settings.get("schedule.homes")
    if isinstance(home, str):
        context = context.changed(default_home=home)
    if isinstance(homes, list):
        context = context.changed(
            schedule=replace(context.choices.schedule or Plan(), homes=tuple(map(str, homes)))
        )
    return context


def _profiles(place: HomeRef) -> tuple[str, ...]:
    if not place.layout.profiles:
        return ()
    above = os.path.join(place.home, place.layout.profiles)
    try:
        return tuple(
            name
            for name in sorted(os.listdir(above))
            if not name.startswith(".") and os.path.isdir(os.path.join(above, name))
        )
    except OSError:
        return ()


def survey(
    context: UserContext,
    homes: tuple[FoundHome, ...],
    agents: tuple[AgentPlace, ...],
    hosts: tuple[HostStatus, ...],
    remember: Mapping[str, object],
) -> Survey:
    """Look at everything; `agents` and `hosts` are what a face found in the settings of agents.

    VaultElsewhere where the vault is gone from here and a destination holds a copy of it.
    """
    status = look(context, hosts=hosts)
    lost = next((one for one in status.verdict.findings if one.code == "vault-lost"), None)
    if lost is not None:
        raise VaultElsewhere(
            lost.text[:1].upper() + lost.text[1:],
            kept="No new vault was made: it would hide the one that is kept elsewhere",
            next_steps=lost.fix,
        )
    return Survey(homes, agents, status, remember)
