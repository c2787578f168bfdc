"""How one home is protected: its last snapshot, archive and proof, what is not kept, what was left behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.ages import iso_time
from safekept.core.entries import Outcome
from safekept.core.errors import SafekeptError
from safekept.core.journal import Record
from safekept.core.records import dataclass
from safekept.vault.care import states_in_file
from safekept.vault.read import read_manifest
from safekept.vault.snapshots import public_id

from ..alarms.alarms import Alarm, losses_in_snapshots
from ..alarms.meant import meant_links
from ..base.context import UserContext
from ..base.operations.homes import SnapshotFacts
from ..drill.receipts import SNAPSHOT, Receipt
from ..snapshots.listing import Listed, is_of, listing_of
from ..snapshots.soundness import sound_database, sound_ones
from .changed_since import ChangedSince, changed_since
from .coverage import Coverage, coverage_of
from .growth import Growth, growth_of
from .home_now import HomeNow, StoredHome, now_beside
from .home_summary import (
    DAMAGED,
    SOUND,
    FailedAttempt,
    LastArchive,
    LastSnapshot,
    TakenSnapshot,
    failure_of,
    last_archive,
    last_snapshot,
    snapshot_from_journal,
    taken_lately,
)
from .recent import OF_THE_PAST, Recent
from .vault_status import SHUT, UNOPENED, VaultView

if TYPE_CHECKING:
    from safekept.home.landing import Leftover, Unfilled

#: Seconds in which it is not asked how much changed since a snapshot.
YOUNG = 3600.0
#: What the work area of a landing is called, beside a home or in it.
_AREA = ".safekept"


@dataclass(frozen=True, slots=True)
class HomeStatus:
    """Everything that is known of one home without reading it."""

    home: str
    layout: str
    default: bool  # the one that is meant where none is named
    exists: bool
    guessed: bool = False  # not named: it is where the home of an agent would be
    snapshots: int = 0
    last: LastSnapshot | None = None  # the newest that says how the home is
    whole: LastSnapshot | None = None  # the newest that holds all that the settings select
    sound: LastSnapshot | None = None  # the newest whole one with which nothing is wrong
    verified: LastSnapshot | None = None  # the newest such with checked databases and no failed drill
    damaged: Mapping[str, str] = field(default_factory=dict)  # database -> snapshot with its last sound state
    checked: Mapping[str, float] = field(default_factory=dict)  # database -> when a snapshot last checked it
    archive: LastArchive | None = None
    failure: FailedAttempt | None = None
    proof: Receipt | None = None  # the newest restore that was proven
    drill: Receipt | None = None  # the newest drill, whatever came out
    coverage: Coverage | None = None
    leftovers: tuple[Leftover, ...] = ()
    unfilled: tuple[Unfilled, ...] = ()  # databases whose search indexes are filled behind a restore
    alarms: tuple[Alarm, ...] = ()
    growth: Growth = field(default_factory=Growth)
    changed: ChangedSince = field(default_factory=ChangedSince)  # since the newest whole snapshot
    now: HomeNow = field(default_factory=HomeNow)  # as a quick look finds it
    taken: tuple[TakenSnapshot, ...] = ()  # snapshots of the last days, oldest first

    @property
    def named(self) -> tuple[str, ...]:
        """The words that a printed command needs to mean this home."""
        return () if self.default else ("--home", self.home)

    def as_dict(self) -> dict[str, object]:
        return {
            "home": self.home,
            "layout": self.layout,
            "default": self.default,
            "exists": self.exists,
            "snapshots": self.snapshots,
            "last_snapshot": self.last.as_dict() if self.last else None,
            "last_whole": self.whole.as_dict() if self.whole else None,
            "last_verified": self.verified.as_dict() if self.verified else None,
            "damaged_databases": {path: found or None for path, found in self.damaged.items()},
            "last_archive": self.archive.as_dict() if self.archive else None,
            "failure": self.failure.as_dict() if self.failure else None,
            "last_proof": receipt_facts(self.proof),
            "last_drill": receipt_facts(self.drill),
            "not_covered": self.coverage.as_dict() if self.coverage else None,
            "not_looked_at": list(self.now.unread),
            "not_checked": list(self.now.unchecked),
            "fewer": [one.as_dict() for one in self.now.fewer()],
            "leftovers": [one.as_dict() for one in self.leftovers],
            "alarms": [one.as_dict() for one in self.alarms],
            **self.growth.as_dict(),
        }


def receipt_facts(receipt: Receipt | None) -> dict[str, object] | None:
    """A receipt without its rows, which have a file of their own."""
    if receipt is None:
        return None
    return {
        "operation": receipt.operation,
        "subject": receipt.subject,
        "name": receipt.name,
        "time": iso_time(receipt.started),
        "ok": receipt.ok,
        "small": receipt.small,
        "failed": [row.as_dict() for row in receipt.failed],
    }


def home_status(
    context: UserContext,
    home: str,
    layout: str,
    view: VaultView,
    recent: Recent,
    *,
    default: bool,
    guessed: bool = False,
    receipts: Iterable[Receipt],
    alarms: Sequence[Alarm],
    now: float,
    isolated: bool = False,
) -> HomeStatus:
    """Put together what the vault, the journal, the receipts and the place itself say of one home."""
    listing = listing_of(view.snapshots, {}, home, int(now * 1e9))
    shown = [last_snapshot(one) for one in listing.shown if one.kind not in OF_THE_PAST]
    # One from the future says nothing about today, unless there is no other.
    shown = [one for one in shown if not one.future] or shown
    # Where there is no vault at all, what the journal remembers protects nothing.
    shut = view.status.state in (SHUT, UNOPENED)
    last = shown[0] if shown else snapshot_from_journal(recent.snapshots.get(home), now) if shut else None
    whole = next((one for one in shown if not one.partial), None)
    if shut:
        whole = snapshot_from_journal(recent.wholes.get(home), now)
    ours = [one for one in receipts if one.home == home and (shut or _is_of_here(one, view, listing.shown))]
    there = os.path.isdir(home)
    # As a restore judges them: one that lacks what a restore brought back since is not what a person had.
    losses = losses_in_snapshots(context, home)
    good = list(sound_ones(listing.shown, losses))
    # The newest, as a restore takes it: one that was not checked again so soon is no worse.
    sound = max(good, key=lambda one: one.snapshot.time_ns, default=None)
    bad = _not_proven(ours)
    verified = next((one for one in good if one.state == SOUND and one.id not in bad), None)
    manifest = _manifest(view, whole or last)
    remembered = recent.wholes.get(home) or recent.snapshots.get(home)
    if shut and remembered is not None:
        manifest = _told_manifest(remembered)
    newest = whole or last
    coverage = None
    if manifest is not None and newest is not None:
        coverage = coverage_of(newest.id, manifest, meant_links(context, home))
    checked = _checked(listing.shown, last)
    damaged = _damaged(listing.shown, last, coverage, checked, losses)
    return HomeStatus(
        home,
        layout,
        default,
        there,
        guessed,
        snapshots=len(listing.shown),
        last=last,
        whole=whole,
        sound=last_snapshot(sound) if sound else None,
        verified=last_snapshot(verified) if verified else None,
        damaged=damaged,
        checked={path: when for path, (_, when) in checked.items()},
        archive=last_archive(context, recent.archives.get(home)),
        failure=failure_of(recent.failures.get(home)),
        proof=next((one for one in ours if one.ok), None),
        drill=next(iter(ours), None),
        coverage=coverage,
        leftovers=tuple(_leftovers(home)),
        unfilled=tuple(_unfilled(home)),
        alarms=tuple(one for one in alarms if one.home == home),
        growth=growth_of((one for one in view.snapshots if is_of(one, home)), now),
        changed=_changed(context, home, layout, whole, recent.wholes.get(home), now),
        now=now_beside(
            context,
            home,
            StoredHome(view, whole, last, damaged, checked, coverage, manifest, listing.shown, losses),
            context.choices.layouts.get(layout),
            now,
            isolated=isolated,
        ),
        taken=taken_lately(listing.shown, now),
    )


def _is_of_here(receipt: Receipt, view: VaultView, shown: Iterable[Listed]) -> bool:
    """Whether it says anything of what is kept here: a rebuild proves a snapshot of the copy that it came
    from. One that was deleted since it was proven still counts: what is left is as old as the proof, as far
    as the clock tells."""
    if receipt.subject != SNAPSHOT or receipt.name in map(public_id, view.snapshots):
        return True
    return any(one.future or one.snapshot.time_ns <= receipt.started * 1e9 for one in shown)


def _not_proven(receipts: Iterable[Receipt]) -> set[str]:
    """The snapshots whose last drill failed; `receipts` are the newest first."""
    last: dict[str, Receipt] = {}
    for one in receipts:
        if one.subject == SNAPSHOT:
            last.setdefault(one.name, one)
    return {name for name, one in last.items() if not one.ok}


def _told_manifest(entry: Record) -> Mapping[str, object]:
    """What the journal says of a snapshot, in the shape in which the snapshot itself would say it."""
    taken = SnapshotFacts.read(entry)
    states = taken.databases
    databases = {path: {"state": state} for path, state in states.items()} if states is not None else None
    gaps = list(taken.gaps) if taken.gaps is not None else None
    return {"remarks": gaps, "scope": {}, "census": taken.census, "databases": databases}


def _changed(
    context: UserContext,
    home: str,
    layout: str,
    whole: LastSnapshot | None,
    remembered: Record | None,
    now: float,
) -> ChangedSince:
    """Of a young one nothing is asked: it is as good as one gets."""
    known = context.choices.layouts.get(layout)
    if known is None or whole is None or whole.future or now - whole.time < YOUNG:
        return ChangedSince()
    taken = SnapshotFacts.read(remembered) if remembered is not None else SnapshotFacts()
    if taken.database_bytes is None or taken.snapshot != whole.id:
        return changed_since(home, known, whole.time)
    sizes = {path: size for path, size in taken.database_bytes.items() if isinstance(size, int)}
    return changed_since(home, known, whole.time, sizes)


def _checked(shown: Sequence[Listed], last: LastSnapshot | None) -> dict[str, tuple[str, float]]:
    """Each database of the newest snapshot: as what it was last checked, and when. A snapshot that did not
    look makes nothing better."""
    found: dict[str, tuple[str, float]] = {}
    wanted: set[str] | None = None
    for one in shown:
        if wanted is None and (last is None or one.id != last.id):
            continue  # newer than the one that counts: dated in the future, say
        states = states_in_file(one.snapshot)
        wanted = set(states) if wanted is None else wanted
        for path in wanted.intersection(states):
            if states[path] in (SOUND, DAMAGED):
                found[path] = states[path], one.snapshot.time_ns / 1e9
        wanted -= found.keys()
        if not wanted:
            break
    return found


def _damaged(
    shown: Sequence[Listed],
    last: LastSnapshot | None,
    coverage: Coverage | None,
    checked: Mapping[str, tuple[str, float]],
    losses: Sequence[Alarm],
) -> dict[str, str]:
    """The databases that were damaged when they were last checked, and the snapshot that has each sound."""
    if last is not None and last.from_journal:
        return {gap.path: "" for gap in coverage.of(Outcome.DAMAGED)} if coverage else {}
    if last is None or not any(one.id == last.id for one in shown):
        return {}
    bad = [path for path, (state, _) in checked.items() if state == DAMAGED]
    # One that is zeros, or something else by now, is no database any more and has no state as one.
    bad += [gap.path for gap in coverage.of(Outcome.DAMAGED) if gap.path not in bad] if coverage else []
    return {path: sound_database(shown, path, losses) for path in bad}


def _manifest(view: VaultView, last: LastSnapshot | None) -> Mapping[str, object] | None:
    """What the newest snapshot says of itself; None where it says nothing or cannot be read just now."""
    if view.repository is None or last is None:
        return None
    snapshot = next((one for one in view.snapshots if public_id(one) == last.id), None)
    if snapshot is None:
        return None
    with contextlib.suppress(SafekeptError, OSError):
        return read_manifest(view.repository, snapshot)
    return None


def _saw_a_landing(home: str) -> bool:
    """Most homes did not, and what knows of landings costs time."""
    return any(os.path.isdir(area) for area in (home.rstrip("/") + _AREA, os.path.join(home, _AREA)))


def _unfilled(home: str) -> list[Unfilled]:
    """What a restore left to be filled; where no process is at it, this goes on with it."""
    if not _saw_a_landing(home):
        return []
    from ..base.search_behind import begin, not_filled

    with contextlib.suppress(OSError):
        begin(home)
        return [one for note in not_filled(home) for one in note.databases]
    return []


def _leftovers(home: str) -> list[Leftover]:
    if not _saw_a_landing(home):
        return []
    from safekept.home.landing import leftovers

    with contextlib.suppress(OSError):
        return leftovers(home)
    return []
