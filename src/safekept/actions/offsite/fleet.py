"""A fleet: every vault in a destination, or every host in one vault, at a glance.

Nothing is written anywhere but into the cache. A vault whose key is not here is not an error: it is shown by
what the place itself lists. One that cannot be read is an alarm of its own and hides no other.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import field

from safekept.core.ages import iso_time
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.finding import PARTLY, Finding, exit_code, reached
from safekept.core.objects.base import ObjectStore
from safekept.core.objects.errors import PlaceMissing, PlaceRefused
from safekept.core.records import dataclass
from safekept.core.worker import Worker
from safekept.vault.errors import NoSuchVault, WrongKey
from safekept.vault.repo import Repository

from ..base.context import UserContext
from ..vault.keys.key_file import KeyMissing
from ..vault.opening import open_vault
from ..vault.place import vaults_in
from .archives_there import StoredArchive, list_archives
from .fleet_vault import LOCKED, OPEN, UNREADABLE, FleetHome, FleetVault, look_from_outside, look_inside
from .place import find_destination, open_destination

OVERDUE_HOURS = 48.0
#: Vaults that are looked at side by side: most of the time goes into waiting for the place.
_LANES = 8


class EmptyFleet(SafekeptError):
    code, exit_code = "empty-fleet", 10


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """What to look at, and how closely."""

    place: str  # a destination by its name or URL, or the path of a vault or of a directory of vaults
    keys: tuple[str, ...] = ()  # files with keys to try beside this machine's own
    overdue_hours: float = OVERDUE_HOURS  # 0: nothing is ever overdue
    counts: bool = True  # compare what was counted; without, only the small snapshot files are read


@dataclass(frozen=True, slots=True)
class FleetArchives:
    """The archives of one host."""

    host: str
    count: int
    newest: str
    modified: float
    bytes: int
    overdue: bool

    def as_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "archives": self.count,
            "newest": self.newest,
            "modified": iso_time(self.modified),
            "bytes": self.bytes,
            "overdue": self.overdue,
        }


@dataclass(slots=True)
class Fleet:
    """Everything that was found."""

    place: str
    time: float
    overdue_hours: float
    vaults: list[FleetVault] = field(default_factory=list)
    archives: list[FleetArchives] = field(default_factory=list)

    @property
    def homes(self) -> list[FleetHome]:
        return [home for vault in self.vaults for home in vault.homes]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything, the worst first; the same ladder as on each host."""
        found = [one for vault in self.vaults for one in vault.findings]
        for one in self.archives:
            if one.overdue and not self._has_vault(one.host):
                found.append(Finding("stale", PARTLY, f"no archive of {one.host} arrived for too long"))
        return tuple(sorted(found, key=lambda one: one.rank))

    @property
    def level(self) -> str:
        return reached(self.findings)

    @property
    def exit_code(self) -> int:
        return exit_code(self.findings)

    def _has_vault(self, host: str) -> bool:
        """Whether snapshots of that host are there as well; they say more than its archives."""
        return any(home.host == host for home in self.homes)

    def as_dict(self) -> dict[str, object]:
        return {
            "place": self.place,
            "time": iso_time(self.time),
            "level": self.level,
            "exit_code": self.exit_code,
            "overdue_hours": self.overdue_hours,
            "vaults": [vault.as_dict() for vault in self.vaults],
            "archives": [one.as_dict() for one in self.archives],
        }


def look_at_fleet(
    context: UserContext, request: FleetRequest, listener: Listener = silent, now: float | None = None
) -> Fleet:
    """Look at every vault and every host's archives. Raises where the place itself cannot be reached."""
    setting = find_destination(context, request.place)
    now = time.time() if now is None else now
    overdue = request.overdue_hours * 3600
    with contextlib.closing(open_destination(context, setting)) as objects:
        fleet = Fleet(objects.location, now, request.overdue_hours)
        base = request.place if os.path.isabs(request.place) else setting.url
        try:
            names = [""] if objects.exists("config") else vaults_in(objects)
            archives = [] if names == [""] else list_archives(objects)
        except PlaceMissing as error:
            raise _empty(objects.location, error.what) from error
        fleet.vaults = _each(context, request, objects, base, names, now, listener)
        fleet.archives = _by_host(archives, overdue, now)
    if not fleet.vaults and not fleet.archives:
        raise _empty(fleet.place, f"`{fleet.place}` holds no vault and no archives")
    return fleet


def _each(
    context: UserContext,
    request: FleetRequest,
    objects: ObjectStore,
    base: str,
    names: Sequence[str],
    now: float,
    listener: Listener,
) -> list[FleetVault]:
    """Several at a time; the order is that of their names."""
    found: dict[str, FleetVault] = {}
    waiting: Iterator[str] = iter(names)
    mutex = threading.Lock()

    def work() -> None:
        while True:
            with mutex:
                name = next(waiting, None)
            if name is None:
                return
            place = f"{base.rstrip('/')}/{name}" if name else base
            found[name] = _one(context, request, objects, name, place, now)
            listener(Event("fleet", len(found), len(names), unit="vaults"))

    workers = [Worker(work, "fleet") for _ in range(min(_LANES, len(names)))]
    try:
        for worker in workers:
            while not worker.wait(0.5):
                pass
            if worker.error is not None:
                raise worker.error
    except BaseException:
        with mutex:
            waiting = iter(())  # no thread begins another one; the place is closed when all have ended
        for worker in workers:
            worker.wait_through_signals()
        raise
    return [found[name] for name in names]


def _one(
    context: UserContext,
    request: FleetRequest,
    objects: ObjectStore,
    name: str,
    place: str,
    now: float,
) -> FleetVault:
    began = time.monotonic()
    overdue = request.overdue_hours * 3600
    try:
        vault = look_from_outside(objects, name, place)
    except PlaceRefused as error:
        if not name:
            raise
        return FleetVault(name, place, state=UNREADABLE, reason=error.what)  # closed to us; others are not
    try:
        with _opened(context, request, objects, name, place) as repository:
            look_inside(vault, repository, overdue, request.counts, now)
    except (WrongKey, KeyMissing):
        vault.state, vault.reason = LOCKED, "no key that was given opens it"
        vault.overdue = bool(overdue and vault.newest and now - vault.newest > overdue)
    except NoSuchVault:
        vault.state, vault.reason = LOCKED, "it has no `config` yet: a first push has not come to its end"
    except SafekeptError as error:
        vault.state, vault.reason = UNREADABLE, error.what
    vault.seconds = time.monotonic() - began
    return vault


@contextlib.contextmanager
def _opened(
    context: UserContext, request: FleetRequest, objects: ObjectStore, directory: str, place: str
) -> Iterator[Repository]:
    """With the kit in escrow where an identity opens it, else with the first key that fits; the last refusal
    where none does."""
    if context.choices.identities:
        from ..vault.keys.escrow import opened_by_escrow

        found = opened_by_escrow(context, objects, directory, place)
        if found is not None:
            with found[0]:
                yield found[0]
            return
    # A key file that is named after its vault is tried first: with a thousand of each, that is what counts.
    name = os.path.basename(place.rstrip("/"))
    named = sorted(request.keys, key=lambda path: not os.path.basename(path).startswith(name))
    keys = (*named, context.places.vault_key_file)
    for number, key in enumerate(keys):
        last = number == len(keys) - 1
        one = context.changed(
            source_vault=place,
            vault_key_file=key,
            vault_secret=context.caller.vault_secret if last else None,
        )
        try:
            repository = open_vault(one)
        except (WrongKey, KeyMissing):
            if last:
                raise
            continue
        with repository:
            yield repository
        return


def _by_host(archives: Sequence[StoredArchive], overdue: float, now: float) -> list[FleetArchives]:
    hosts: dict[str, list[StoredArchive]] = {}
    for one in archives:
        hosts.setdefault(one.host, []).append(one)
    found = []
    for host, theirs in sorted(hosts.items()):
        newest = theirs[-1]
        late = bool(overdue and newest.modified and now - newest.modified > overdue)
        size = sum(one.size for one in theirs)
        found.append(FleetArchives(host, len(theirs), newest.name, newest.modified, size, late))
    return found


def _empty(place: str, what: str) -> EmptyFleet:
    return EmptyFleet(
        what,
        kept="Nothing was changed",
        next_steps=(
            "See that the place is the right one, and that the disk behind it is mounted",
            "Name a destination, its URL, or the path of a vault",
        ),
        place=place,
    )


__all__ = [
    "LOCKED",
    "OPEN",
    "UNREADABLE",
    "Fleet",
    "FleetArchives",
    "FleetHome",
    "FleetRequest",
    "FleetVault",
    "look_at_fleet",
]
