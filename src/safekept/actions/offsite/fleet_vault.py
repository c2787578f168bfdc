"""One vault of a fleet: what it says of the homes in it, or what can be seen of it without its key."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from safekept.core.ages import moment, seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.objects.base import ObjectStore
from safekept.home.health import shrunk
from safekept.vault.read import read_manifest
from safekept.vault.repo import Repository

from ..snapshots.listing import Listed
from .homes_in_vault import KeptHome, kept_homes

OPEN, LOCKED, UNREADABLE = "open", "locked", "unreadable"
FRESH, STALE, ALARM = "fresh", "stale", "alarm"


@dataclass(frozen=True, slots=True)
class FleetHome:
    """One home of one host."""

    host: str
    home: str
    layout: str
    snapshots: int
    last: Listed
    age: float  # seconds
    overdue: bool
    alarms: tuple[str, ...] = ()

    @property
    def proven(self) -> float:
        """When a drill last restored one of them and found nothing wrong; 0: never."""
        return (self.last.proven_ns or 0) / 1e9

    @property
    def level(self) -> str:
        return ALARM if self.alarms else STALE if self.overdue or not self.last.complete else FRESH

    def as_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "home": self.home,
            "layout": self.layout or None,
            "snapshots": self.snapshots,
            "last": moment(self.last.snapshot.time_ns / 1e9),
            "age_seconds": round(self.age),
            "id": self.last.id,
            "kind": self.last.kind,
            "complete": self.last.complete,
            "databases": self.last.state or None,
            "proven": moment(self.proven),
            "overdue": self.overdue,
            "alarms": list(self.alarms),
            "level": self.level,
        }


@dataclass(slots=True)
class FleetVault:
    """One vault, opened or not."""

    directory: str  # its name in the destination; "" where the place is the vault
    place: str
    snapshots: int = 0  # files, as the place lists them
    newest: float = 0.0  # when the last of them arrived there; 0 where the place does not say
    bytes: int = 0
    state: str = LOCKED
    reason: str = ""  # why it could not be opened or read
    overdue: bool = False  # of one that is not open: nothing arrived for too long
    homes: list[FleetHome] = field(default_factory=list)
    damaged: int = 0  # snapshot files that cannot be read
    seconds: float = 0.0

    @property
    def level(self) -> str:
        if self.state == UNREADABLE or self.damaged:
            return ALARM
        levels = {one.level for one in self.homes}
        if ALARM in levels:
            return ALARM
        return STALE if self.overdue or STALE in levels else FRESH

    def as_dict(self) -> dict[str, object]:
        return {
            "directory": self.directory or None,
            "place": self.place,
            "state": self.state,
            "reason": self.reason or None,
            "snapshots": self.snapshots,
            "newest": moment(self.newest),
            "bytes": self.bytes,
            "overdue": self.overdue,
            "damaged_snapshots": self.damaged,
            "level": self.level,
            "homes": [one.as_dict() for one in self.homes],
        }


def look_from_outside(objects: ObjectStore, directory: str, place: str) -> FleetVault:
    """What anybody sees who may list: how many snapshots, when the last one came, how much there is."""
    found = FleetVault(directory, place)
    prefix = f"{directory}/" if directory else ""
    for stored in objects.list(prefix):
        name = stored.name.removeprefix(prefix)
        found.bytes += stored.size
        if name.startswith("snapshots/"):
            found.snapshots += 1
            found.newest = max(found.newest, stored.modified)
    return found


def look_inside(vault: FleetVault, repository: Repository, overdue: float, counts: bool, now: float) -> None:
    """Every home in it; with `counts` also what fell since the snapshot before."""
    homes, damaged = kept_homes(repository, vault.place)
    vault.state, vault.damaged = OPEN, len(damaged)
    vault.homes = [_home(one, repository, overdue, counts, now) for one in homes]


def _home(kept: KeptHome, repository: Repository, overdue: float, counts: bool, now: float) -> FleetHome:
    last = kept.newest
    age = max(0.0, now - last.snapshot.time_ns / 1e9)
    alarms = []
    if last.state == "damaged":
        alarms.append("a database is damaged")
    if last.future:
        alarms.append("the time of its last snapshot has not come yet: a clock is wrong")
    if counts:
        alarms += _losses(kept, repository)
    proven = max(
        (one for one in kept.snapshots if one.proven_ns), key=lambda one: one.proven_ns or 0, default=None
    )
    if proven is not None and proven is not last:
        from dataclasses import replace

        last = replace(last, proven_ns=proven.proven_ns)
    is_overdue = overdue > 0 and age > overdue
    return FleetHome(
        kept.host, kept.home, kept.layout, len(kept.snapshots), last, age, is_overdue, tuple(alarms)
    )


def _losses(kept: KeptHome, repository: Repository) -> list[str]:
    """Counts that fell beyond the ordinary: since the one before, and since those that a loss has pinned."""
    usual = kept.usual
    before = [*usual[1:2], *(one for one in usual[2:] if one.pinned and one.pinned_until)]
    if not before:
        return []
    now = _census(repository, usual[0])
    found: dict[str, None] = {}
    for one in before if now else ():
        then = _census(repository, one)
        narrow = one.kind != usual[0].kind
        for fall in shrunk(then, now, whole=not narrow):
            if fall.alarming:
                found.setdefault(fall.text)
    return list(found)


def _census(repository: Repository, listed: Listed) -> dict[str, dict[str, int | None]]:
    try:
        manifest: Mapping[str, Any] = read_manifest(repository, listed.snapshot) or {}
    except SafekeptError:
        return {}
    census = manifest.get("census")
    return {
        str(profile): {str(name): count if isinstance(count, int) else None for name, count in counts.items()}
        for profile, counts in (census if isinstance(census, dict) else {}).items()
        if isinstance(counts, dict)
    }


def age_of(vault: FleetVault, now: float | None = None) -> str:
    """How long ago something last arrived, for one that is not open."""
    if not vault.newest:
        return "unknown"
    return seconds_text(max(0.0, (time.time() if now is None else now) - vault.newest))


def worst(levels: Sequence[str]) -> str:
    return next((one for one in (ALARM, STALE) if one in levels), FRESH)
