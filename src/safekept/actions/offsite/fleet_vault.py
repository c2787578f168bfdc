"""One vault of a fleet: what it says of the homes in it, or what can be seen of it without its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any

from safekept.core.ages import iso_time
from safekept.core.errors import SafekeptError
from safekept.core.finding import NOT_PROTECTED, PARTLY, Finding, reached
from safekept.core.objects.base import ObjectStore
from safekept.core.records import dataclass
from safekept.home.health import shrunk, summarize_losses, with_emptied
from safekept.vault.care import states_in_file
from safekept.vault.read import read_manifest
from safekept.vault.repo import Repository

from ..alarms.stored_files import stored_in
from ..snapshots.listing import Listed
from ..status.coverage import Coverage, coverage_of
from ..status.findings.homes import of_coverage, of_last, of_proven
from ..status.findings.losses import database_damaged
from ..status.home_now import DamagedDatabase
from ..status.home_summary import last_snapshot
from .homes_in_vault import HomeInVault, homes_in_vault

OPEN, LOCKED, UNREADABLE = "open", "locked", "unreadable"


@dataclass(frozen=True, slots=True)
class FleetHome:
    """One home of one host."""

    host: str
    home: str
    layout: str
    snapshots: int
    last: Listed
    age: float  # seconds
    findings: tuple[Finding, ...] = ()  # as `status` on that host would make them, by what is here

    @property
    def overdue(self) -> bool:
        return any(one.code == "stale" for one in self.findings)

    @property
    def alarms(self) -> tuple[str, ...]:
        return tuple(one.text for one in self.findings if one.alarm)

    @property
    def proven(self) -> float:
        """When a drill last restored one of them and found nothing wrong; 0: never."""
        return (self.last.proven_ns or 0) / 1e9

    @property
    def level(self) -> str:
        """The rung of the ladder; the highest one says that this home outlives its machine."""
        return reached(self.findings)

    def as_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "home": self.home,
            "layout": self.layout or None,
            "snapshots": self.snapshots,
            "last": iso_time(self.last.snapshot.time_ns / 1e9),
            "age_seconds": round(self.age),
            "id": self.last.id,
            "kind": self.last.kind,
            "complete": self.last.complete,
            "partial": self.last.partial,
            "databases": self.last.state or None,
            "proven": iso_time(self.proven),
            "overdue": self.overdue,
            "alarms": list(self.alarms),
            "findings": [one.as_dict() for one in self.findings],
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
    def findings(self) -> tuple[Finding, ...]:
        """Of the vault itself and of every home in it, the worst first."""
        name, found = self.directory or self.place, []
        if self.state == UNREADABLE:
            found.append(Finding("vault-shut", NOT_PROTECTED, f"{name}: {self.reason}", alarm=True))
        if self.damaged:
            files = "1 snapshot file" if self.damaged == 1 else f"{self.damaged:,} snapshot files"
            found.append(Finding("vault-damaged", PARTLY, f"{name}: {files} cannot be read", alarm=True))
        if self.overdue:
            found.append(Finding("stale", PARTLY, f"{name}: nothing arrived for too long"))
        found += [one for home in self.homes for one in home.findings]
        return tuple(sorted(found, key=lambda one: one.rank))

    @property
    def level(self) -> str:
        return reached(self.findings)

    def as_dict(self) -> dict[str, object]:
        return {
            "directory": self.directory or None,
            "place": self.place,
            "state": self.state,
            "reason": self.reason or None,
            "snapshots": self.snapshots,
            "newest": iso_time(self.newest),
            "bytes": self.bytes,
            "overdue": self.overdue,
            "damaged_snapshots": self.damaged,
            "level": self.level,
            "homes": [one.as_dict() for one in self.homes],
        }


def look_from_outside(objects: ObjectStore, directory: str, place: str) -> FleetVault:
    """What the right to list shows: how many snapshots, when the last one came, how much there is."""
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
    homes, damaged = homes_in_vault(repository, vault.place)
    vault.state, vault.damaged = OPEN, len(damaged)
    vault.homes = [_home(one, repository, overdue, counts, now) for one in homes if not one.continued]


def _home(kept: HomeInVault, repository: Repository, overdue: float, counts: bool, now: float) -> FleetHome:
    last = kept.newest_whole
    age = max(0.0, now - last.snapshot.time_ns / 1e9)
    proven = max((one.proven_ns or 0 for one in kept.snapshots), default=0)
    coverage = _coverage(repository, last) if counts and not last.complete else None
    findings = [
        replace(one, fix=())  # what is to be done about it is done there
        for one in _findings(kept, last, coverage, proven / 1e9, overdue, now)
    ]
    if counts:
        name = kept.home
        findings += [
            Finding("alarm-loss", PARTLY, f"lost in {name}: {text}", home=name, alarm=True)
            for text in _losses(kept, repository)
        ]
    last = replace(last, proven_ns=proven or None)
    findings.sort(key=lambda one: one.rank)
    return FleetHome(kept.host, kept.home, kept.layout, len(kept.snapshots), last, age, tuple(findings))


def _findings(
    kept: HomeInVault, last: Listed, coverage: Coverage | None, proven: float, overdue: float, now: float
) -> Iterator[Finding]:
    """By the same rules as on the host itself, as far as the vault knows."""
    name = kept.home
    if last.partial:
        text = f"there is no whole snapshot of {name}, only parts of it"
        yield Finding("no-whole-snapshot", NOT_PROTECTED, text, home=name)
    yield from of_last(last_snapshot(last), name, overdue / 3600.0, now, ())
    if kept.newest.state == "damaged":
        states = states_in_file(kept.newest.snapshot)
        for path in [path for path, state in states.items() if state == "damaged"] or [""]:
            one = database_damaged(name, DamagedDatabase(path), (), ())
            yield replace(one, evidence=())  # which generation is sound, that host knows
    yield from of_coverage(last_snapshot(last), coverage, name, ())
    for one in of_proven(proven, name, now, ()):
        text = one.text if proven else f"no drill of {name} is known here"
        yield replace(one, text=text, evidence=() if proven else ("no snapshot of it is marked as proven",))


def _coverage(repository: Repository, last: Listed) -> Coverage | None:
    """What an incomplete snapshot says of itself."""
    try:
        manifest = read_manifest(repository, last.snapshot)
    except SafekeptError:
        return None
    return coverage_of(last.id, manifest) if manifest is not None else None


def _losses(kept: HomeInVault, repository: Repository) -> list[str]:
    """Counts that fell beyond the ordinary: since the one before, and since those that a loss has pinned."""
    usual = kept.usual
    before = [*usual[1:2], *(one for one in usual[2:] if one.pinned and one.pinned_until)]
    if not before:
        return []
    manifest = _manifest(repository, usual[0])
    now, empty = _census(manifest), _texts(manifest.get("empty"))
    found: dict[str, None] = {}
    for one in before if now else ():
        then = _census(_manifest(repository, one))
        narrow = one.kind != usual[0].kind
        falls = [fall for fall in shrunk(then, now, whole=not narrow) if fall.alarming]
        if empty:
            falls = with_emptied(falls, empty, partial(_profile, now), stored_in(repository, one.snapshot))
        found |= dict.fromkeys(summarize_losses(falls, then, now, every=not narrow).texts)
    return list(found)


def _manifest(repository: Repository, listed: Listed) -> Mapping[str, Any]:
    try:
        return read_manifest(repository, listed.snapshot) or {}
    except SafekeptError:
        return {}


def _texts(found: object) -> list[str]:
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _profile(census: Mapping[str, object], path: str) -> str:
    return next((profile for profile in census if path.startswith(profile + "/")), "default")


def _census(manifest: Mapping[str, Any]) -> dict[str, dict[str, int | None]]:
    census = manifest.get("census")
    return {
        str(profile): {str(name): count if isinstance(count, int) else None for name, count in counts.items()}
        for profile, counts in (census if isinstance(census, dict) else {}).items()
        if isinstance(counts, dict)
    }
