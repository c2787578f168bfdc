"""How it stands with one agent program: here or not, connected or not, calling or not; and what mends it.

Whether a host is here and what stands in its settings only a face can tell; it fills this in. The
judgement, and the command that mends, are the same for `connect`, `status` and `doctor`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import field, replace

from safekept.core.ages import iso_time
from safekept.core.next_step import NextStep, Step
from safekept.core.records import dataclass
from safekept.core.spelling import shown

from ..base.context import UserContext
from ..hosts.calls import HostCalls, read_host_calls

#: What is wrong with a connection, by kind.
GONE, PARTLY, NO_PROGRAM, ELSEWHERE, SWITCHED_OFF, UNREADABLE = (
    "gone",
    "partly",
    "no-program",
    "elsewhere",
    "switched-off",
    "unreadable",
)
FAILED, UNHEARD = "failed", "unheard"
#: How the detail begins where a part of what has it call us is missing: it does not.
HALF = "half connected"
#: Seconds after which a change in a host's directory is not one that connecting made.
_AFTER_CONNECTING = 60.0
#: An agent that changed nothing in its own directory for so long does not work here.
WORKS_DAYS = 14


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """One place where a host is connected, or should be: for this user, or in a project."""

    place: str
    scope: str = ""  # a project, or the home of Hermes
    trouble: str = ""  # one of the kinds above; "": all is well
    detail: str = ""
    option: tuple[str, ...] = ()  # what names the scope on the command line

    @property
    def half(self) -> bool:
        return self.trouble == PARTLY and self.detail.startswith(HALF)


@dataclass(frozen=True, slots=True)
class UnconnectedProfile:
    """A profile that is used on this machine and is not connected, although its agent is."""

    name: str
    option: tuple[str, ...]  # what names it on the command line


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One agent program."""

    host: str
    title: str
    found: str = ""  # its settings directory; "": it was never used here
    program: str = ""  # where it is installed; "": not on the PATH
    places: tuple[ConnectionStatus, ...] = ()
    calls: HostCalls = field(default_factory=lambda: HostCalls(""))
    waiting: str = ""  # what a person still has to do before it calls
    used: float = 0.0  # when anything in its settings directory last changed
    connected_at: float = 0.0  # when its entries were last written; 0: unknown
    unconnected: tuple[UnconnectedProfile, ...] = ()
    everywhere: bool = True  # where it is connected, it is so for this user, and not in some projects only
    unguarded: str = ""  # the command that ran its updates under guard, and was replaced

    @property
    def connected(self) -> bool:
        """Whether it calls us: not where an entry is gone, or is of another machine or another user."""
        return any(one.trouble not in (GONE, NO_PROGRAM, ELSEWHERE) and not one.half for one in self.places)

    @property
    def here(self) -> bool:
        """Whether it is used on this machine: a program that was never started needs no advice."""
        return bool(self.found or self.places)

    def used_lately(self, now: float) -> bool:
        """Whether it was at work here lately; settings untouched for months belong to no agent in use."""
        return bool(self.found) and now - max(self.used, self.calls.last_call) < WORKS_DAYS * 86400.0

    @property
    def silent_since(self) -> float:
        """When its entries were renewed, where it called before that and not since; 0 where it did."""
        return self.connected_at if 0 < self.calls.last_call < self.connected_at else 0.0

    @property
    def troubles(self) -> tuple[tuple[str, str, Step], ...]:
        """What is wrong: kind, sentence, and the step that mends it."""
        found: list[tuple[str, str, Step]] = []
        for one in self.places:
            if one.trouble:
                title = agent_name(self.title, one.scope)
                text = _TEXTS[one.trouble].format(title=title, place=one.place, detail=one.detail)
                found.append((one.trouble, text, self._step(one)))
        if not found and self.places and self.calls.failing:
            what = str(self.calls.last_failure.get("what") or "nothing was kept")
            # It is connected, and calls: what is in the way is in the store, the disk or the settings.
            step = NextStep("checkpoint status")
            found.append((FAILED, f"the last call of {self.title} failed: {what}", step))
        since = self.silent_since
        if not found and self.places and self.waiting and 0 < since < self.used - _AFTER_CONNECTING:
            text = f"{self.title} was used and has not called since its entries were renewed"
            found.append((UNHEARD, text, self.waiting[:1].upper() + self.waiting[1:]))
        return tuple(found)

    def _step(self, one: ConnectionStatus) -> Step:
        if one.trouble == SWITCHED_OFF:
            return f"Take {one.detail} back"
        step = self.connecting(one.option)
        if one.trouble == UNREADABLE:
            return replace(step, before=f"Mend {one.place}, then:")
        return step

    def connecting(self, option: tuple[str, ...] = ()) -> NextStep:
        """The command that connects it; `option` names a project or a profile."""
        words = (self.host, *option)
        return NextStep("connect", words)

    def as_dict(self) -> dict[str, object]:
        failure = dict(self.calls.last_failure)
        when = failure.get("time")
        return {
            "host": self.host,
            "title": self.title,
            "found": self.found or None,
            "connected": self.connected,
            "places": [
                {
                    "place": one.place,
                    "scope": one.scope or None,
                    "trouble": one.trouble or None,
                    "detail": one.detail or None,
                }
                for one in self.places
            ],
            "last_call": iso_time(self.calls.last_call),
            "last_checkpoint": iso_time(self.calls.last_checkpoint),
            "last_failure": {
                "time": iso_time(float(when)) if isinstance(when, int | float) else None,
                "what": failure.get("what"),
            }
            if failure
            else None,
            "calls": self.calls.calls,
            "not_kept": list(self.calls.not_kept),
            "troubles": [{"kind": kind, "text": text, "next": step} for kind, text, step in self.troubles],
        }


_TEXTS = {
    GONE: "{title} was connected, but the entry is gone from {place}",
    # Short enough for a line: what is missing, or is old. The command that follows names the place.
    PARTLY: "{title} is {detail}",
    NO_PROGRAM: "{title} calls {detail}, which is not there any more",
    ELSEWHERE: "{title} is not connected here: its entries came from elsewhere and call for {detail}",
    SWITCHED_OFF: "{title} is connected, but switched off by {detail}",
    UNREADABLE: "{place} {detail}, so whether {title} is connected cannot be told",
}


def profile_name(scope: str) -> str:
    """The name of a profile; "" for the home around profiles, and for what has none."""
    return shown(os.path.basename(scope)) if os.path.basename(os.path.dirname(scope)) == "profiles" else ""


def agent_name(title: str, scope: str) -> str:
    """An agent as a list names it: with its profile, where it is one."""
    profile = profile_name(scope)
    return f"{title} ({profile})" if profile else title


def with_calls(context: UserContext, hosts: Iterable[HostStatus]) -> tuple[HostStatus, ...]:
    """The same with what each of them last asked for."""
    calls = {one.host: one for one in read_host_calls(context)}
    return tuple(replace(one, calls=calls.get(one.host, HostCalls(one.host))) for one in hosts)
