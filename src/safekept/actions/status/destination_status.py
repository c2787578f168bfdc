"""How the places off this host are: what arrived there last, by the journal, and what did not since."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from safekept.core.ages import moment
from safekept.core.errors import SafekeptError

from ..base.context import UserContext
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
    holds: int = 0  # snapshots that lie there, where that was asked: only while there is no vault here

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "url": self.url,
            "takes": list(self.takes),
            "last_push": moment(self.last),
            "bytes": self.bytes,
            "failure": self.failure.as_dict() if self.failure else None,
            **({"snapshots": self.holds} if self.holds else {}),
        }


def with_copies(
    context: UserContext, found: tuple[DestinationStatus, ...], patience: float = 10.0
) -> tuple[DestinationStatus, ...]:
    """The same with what lies there, asked of each place: for a machine that may have had a vault.

    Whoever does not answer in time holds nothing that anybody knows of.
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
    """Where something arrived last that is no destination of the settings: nobody will push there again."""
    known = {name for one in context.choices.destinations for name in (one.name, one.url)}
    other = [one for name, one in recent.pushes.items() if name not in known]
    newest = max(other, key=lambda one: one.time, default=None)
    return str(newest.facts.get("place") or newest.facts.get("destination") or "") if newest else ""


def destination_statuses(context: UserContext, recent: Recent) -> tuple[DestinationStatus, ...]:
    """Every destination that is set up. No place is asked: that would take as long as it takes."""
    found = []
    for one in context.choices.destinations:
        # A place that was pushed to before it got its name stands in the journal by its address.
        arrived = recent.pushes.get(one.name) or recent.pushes.get(one.url)
        size = arrived.facts.get("bytes") if arrived else 0
        found.append(
            DestinationStatus(
                one.name,
                one.url,
                tuple(one.takes),
                arrived.time if arrived else 0.0,
                size if isinstance(size, int) else 0,
                failure_of(recent.push_failures.get(one.name)),
            )
        )
    return tuple(found)
