"""How the places off this host are: what arrived there last, by the journal, and what did not since."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from safekept.core.ages import iso_time
from safekept.core.errors import SafekeptError
from safekept.core.journal import Record
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.operations.homes import RebuildFacts
from ..base.operations.stores import DestinationTestFacts, PushFacts
from ..offsite.destination import VAULT, DestinationSetting
from ..offsite.elsewhere import directory_of
from ..offsite.place import lost_with_this_machine
from ..snapshots.listing import as_stored
from .home_summary import FailedAttempt, failure_of
from .recent import Recent


@dataclass(frozen=True, slots=True)
class DestinationStatus:
    """One place off this host."""

    name: str
    url: str
    takes: tuple[str, ...]
    last: float = 0.0  # when something last arrived whole; 0: never
    bytes: int = 0
    failure: FailedAttempt | None = None
    here: str = ""  # why what lies there would be lost with this machine; empty: it is elsewhere
    wholes: Mapping[str, float] | None = None  # the newest of each home there; None: not known
    keeps: bool = False  # nothing there can be taken away with this machine's credential, as it was tried
    versions: bool = False  # and what is written over can be had as it was
    tried: float = 0.0  # when that was found out; 0: never
    holds: int = 0  # snapshots that lie there, where that was asked: only while there is no vault here

    @property
    def away(self) -> bool:
        """Whether what lies there survives the loss of this machine."""
        return not self.here

    def newest_of(self, home: str, taken: float) -> float:
        """When the newest whole snapshot of a home that lies there was taken; 0 where there is none.

        `taken` is that of the newest one here: a push of an earlier safekept did not say what it sent.
        """
        if not self.last:
            return 0.0
        if self.wholes is None:
            return min(taken, self.last)
        return self.wholes.get(as_stored(home), 0.0)

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "url": self.url,
            "takes": list(self.takes),
            "last_push": iso_time(self.last),
            "bytes": self.bytes,
            "failure": self.failure.as_dict() if self.failure else None,
            "elsewhere": not self.here,
            "keeps": self.keeps,
            "tried": iso_time(self.tried) if self.tried else None,
            **({"snapshots": self.holds} if self.holds else {}),
        }


def with_copies(
    context: UserContext, found: tuple[DestinationStatus, ...], patience: float = 10.0
) -> tuple[DestinationStatus, ...]:
    """The same with what lies there, asked of each place: for a machine that may have had a vault.

    Of a place that does not answer in time nothing is known.
    """
    from safekept.core.worker import Worker

    from ..offsite.destinations import contents_of

    counts: dict[str, int] = {}

    def ask() -> None:
        for one in found:
            with contextlib.suppress(SafekeptError, OSError):
                counts[one.name] = sum(vault.snapshots for vault in contents_of(context, one.name).vaults)

    if found:
        Worker(ask, "destinations").wait(patience)
    return tuple(replace(one, holds=counts.get(one.name, 0)) for one in found)


def unsaved_place(context: UserContext, recent: Recent) -> str:
    """Where something arrived last that is no destination of the settings: nothing will push there again."""
    known = {name for one in context.choices.destinations for name in (one.name, one.url)}
    other = [one for name, one in recent.pushes.items() if name not in known]
    newest = max(other, key=lambda one: one.time, default=None)
    push = PushFacts.read(newest) if newest else PushFacts()
    return push.place or push.destination or ""


def destination_statuses(context: UserContext, recent: Recent) -> tuple[DestinationStatus, ...]:
    """Every destination that is set up. No place is asked: that would take as long as it takes."""
    found = []
    for one in context.choices.destinations:
        # A place that was pushed to before it got its name stands in the journal by its address.
        arrived = recent.pushes.get(one.name) or recent.pushes.get(one.url)
        rights, tried = _rights(arrived, recent.tests.get(one.name))
        status = DestinationStatus(
            one.name,
            one.url,
            tuple(one.takes),
            arrived.time if arrived else 0.0,
            (PushFacts.read(arrived).bytes or 0) if arrived else 0,
            failure_of(recent.push_failures.get(one.name)),
            lost_with_this_machine(context, one),
            _wholes(arrived) if VAULT in one.takes else None,
            rights.get("keeps") is True,
            rights.get("versioning") is True,
            tried=tried,
        )
        found.append(status if arrived else _rebuilt_from(one, status, recent))
    return tuple(found)


def _rebuilt_from(one: DestinationSetting, status: DestinationStatus, recent: Recent) -> DestinationStatus:
    """The same where this machine was rebuilt from there: what came back still lies in it."""
    wholes: dict[str, float] = {}
    for place, entry in recent.sources.items():
        above = place.rpartition("/")[0]
        rebuilt = RebuildFacts.read(entry)
        ours = above and above in (one.url.rstrip("/"), directory_of(one) if one.is_file else "")
        if ours and rebuilt.taken:
            wholes[as_stored(rebuilt.home or "")] = rebuilt.taken
    return replace(status, last=max(wholes.values()), wholes=wholes) if wholes else status


def _wholes(arrived: Record | None) -> dict[str, float] | None:
    wholes = PushFacts.read(arrived).wholes if arrived else None
    if wholes is None:
        return None
    return {str(home): float(when) for home, when in wholes.items() if isinstance(when, int | float)}


def _rights(arrived: Record | None, tested: Record | None) -> tuple[Mapping[str, object], float]:
    """What was found out about the place last, by trying, and when: by a push, or by `destinations test`."""
    pushed = PushFacts.read(arrived).rights if arrived else None
    if tested is not None and (arrived is None or pushed is None or tested.time > arrived.time):
        return DestinationTestFacts.read(tested).rights or {}, tested.time
    return (pushed, arrived.time) if arrived is not None and pushed is not None else ({}, 0.0)


def freshest_copy(
    copies: Sequence[DestinationStatus], wholes: Mapping[str, float]
) -> tuple[str, float] | None:
    """The copy elsewhere in which the oldest of these homes is newest, and how new; None where there is none.

    `wholes`: of each home, when its newest whole snapshot here was taken.
    """
    found = [
        (one.name, min((one.newest_of(home, taken) for home, taken in wholes.items()), default=0.0))
        for one in copies
        if one.away
    ]
    best = max(found, key=lambda pair: pair[1], default=None)
    return best if best is not None and best[1] else None
