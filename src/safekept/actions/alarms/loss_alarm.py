"""The alarm of a loss: every snapshot is compared with the ones before it.

The last known count of each class is what it is compared with, so a snapshot in which a database could not
be read hides nothing. The generation that still has what is lost is pinned before retention can let it go.
Snapshots that were taken only to undo something are no generations: they neither raise nor excuse a loss.
What counts as a loss: home/health/loss_rules.py. What a guarded command lost: guard/check.py.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.journal import Record
from safekept.core.records import dataclass
from safekept.home.health import (
    Counts,
    Shrinkage,
    Stored,
    places_of,
    shrunk,
    summarize_losses,
    with_emptied,
)
from safekept.home.layout import Layout
from safekept.vault.tags import PRE_CHANGE, PRE_IMPORT, PRE_RESTORE

from ..base.context import HomeRef, UserContext
from ..base.operations.homes import SnapshotFacts
from .alarms import LOSS, RAISED, Alarm, end_losses, losses_in_snapshots, open_alarms, read_alarm
from .explained_losses import is_explained
from .stored_files import emptiness_in, stored_in
from .ways_back import holds_again, places_kept, restore_commands

if TYPE_CHECKING:
    from safekept.vault.format import Snapshot
    from safekept.vault.repo import Repository

#: How long the generation before a loss is kept, whatever the policies say.
PIN_DAYS = 30
#: Seconds to wait for those who work on the vault before the pin is set.
_WAIT = 10.0
#: So many older snapshots are asked for a count that the newer ones do not know.
_LOOK_BACK = 50
#: Whether a file holds nothing in a snapshot; None where that is not known.
_Empty = Callable[[str], bool | None]
_UNDO_POINTS = (PRE_IMPORT, PRE_RESTORE, PRE_CHANGE)


@dataclass(slots=True)
class Baseline:
    """The last known counts of a home, and which snapshot holds them."""

    counts: dict[str, dict[str, int | None]] = field(default_factory=dict)
    holders: dict[tuple[str, str], str] = field(default_factory=dict)  # (profile, class) -> snapshot id
    times: dict[tuple[str, str], float] = field(default_factory=dict)  # and when that one was taken
    whole: bool = False  # whether a snapshot of all profiles was among them

    def take(self, census: Mapping[str, Any], holder: str, when: float, *, narrow: bool) -> None:
        """Fill in what is not known yet from an older snapshot; a profile that later ones lack is gone."""
        for profile, counts in census.items():
            if not isinstance(counts, Mapping) or (self.whole and profile not in self.counts):
                continue
            known = self.counts.setdefault(str(profile), {})
            for name, count in counts.items():
                if known.get(name) is None:
                    known[str(name)] = count if isinstance(count, int) else None
                    if isinstance(count, int):
                        self.holders[str(profile), str(name)] = holder
                        self.times[str(profile), str(name)] = when
        self.whole = self.whole or not narrow

    @property
    def complete(self) -> bool:
        return self.whole and all(
            count is not None for counts in self.counts.values() for count in counts.values()
        )


def find_loss(
    context: UserContext,
    repository: Repository,
    place: HomeRef,
    kind: str,
    new: Snapshot,
    census: Counts,
    listener: Listener,
    *,
    profile: str = "",
    blank: Mapping[str, Iterable[str]] | None = None,
) -> Alarm | None:
    """What fell since the snapshots before; the one that has it is pinned. The alarm is not raised yet.

    `blank`: files that hold nothing in the new snapshot, each with the classes that count it.
    """
    if kind in _UNDO_POINTS:
        return None
    baseline = _baseline(context, repository, place.home, new)
    falls = [
        fall
        for fall in shrunk(baseline.counts, census, whole=not profile)
        if fall.alarming and (not profile or fall.profile == f"{place.layout.profiles}/{profile}")
    ]
    if blank:
        falls = _with_emptied(repository, place.layout, baseline, falls, blank)
    falls = [
        fall
        for fall in falls
        if not _said(context, place.home, fall, baseline.times[fall.profile, fall.name])
        and not is_explained(context, place.home, place.layout, fall, baseline.times[fall.profile, fall.name])
    ]
    if not falls:
        return None
    lost = summarize_losses(falls, baseline.counts, census, every=not profile)
    kept = [baseline.holders[fall.profile, fall.name] for fall in falls]
    wanted = places_kept(repository, place, lost, kept, new)
    holders = list(dict.fromkeys([*(holder for holder, _ in wanted), *kept]))
    pinned = pin_for_a_while(repository, holders, listener)
    return Alarm(
        home=place.home,
        kind=LOSS,
        text=lost.text,
        restore=restore_commands(context, repository, place, wanted),
        pinned=next((one for one in holders if one in pinned), ""),
        losses=tuple(falls),
        paths=lost.places(place.layout),
    )


def end_what_is_back(
    context: UserContext,
    repository: Repository,
    home: str,
    kind: str,
    census: Counts,
    snapshot: Snapshot,
    listener: Listener,
) -> tuple[Alarm, ...]:
    """Alarms about what this snapshot holds again are over, however it came back; those that stay open."""
    if kind in _UNDO_POINTS:
        return ()
    found = [alarm for alarm in open_alarms(context, home) if alarm.kind == LOSS]
    empty = emptiness_in(repository, snapshot)
    back = [
        alarm
        for alarm in found
        if _counted_again(alarm, census, empty)
        or holds_again(repository, alarm.pinned, snapshot, alarm.paths)
    ]
    end_losses(context, back, snapshot.id, listener)
    return tuple(alarm for alarm in found if alarm not in back)


def _counted_again(alarm: Alarm, census: Counts, empty: _Empty) -> bool:
    """Whether its counts are back; they say too little of one that is about more than counts."""
    falls = alarm.losses if not alarm.about else ()
    return bool(falls) and all(_is_back(fall, census, empty) for fall in falls)


def _with_emptied(
    repository: Repository,
    layout: Layout,
    baseline: Baseline,
    falls: list[Shrinkage],
    blank: Mapping[str, Iterable[str]],
) -> list[Shrinkage]:
    """The falls, with files that were emptied since the snapshot that counted them last."""
    from safekept.vault.snapshots import list_snapshots, public_id

    snapshots = {public_id(one): one for one in list_snapshots(repository)[0]}
    asked: dict[str, Stored] = {}
    counted: dict[str, tuple[float, str]] = {}
    for path, names in blank.items():
        profile = layout.profile_of(path)
        keys = [(profile, name) for name in names if (profile, name) in baseline.holders]
        if keys:
            counted[path] = max((baseline.times[key], baseline.holders[key]) for key in keys)

    def stored(path: str) -> bytes | None:
        holder = counted[path][1]
        if holder not in snapshots:
            return None
        return asked.setdefault(holder, stored_in(repository, snapshots[holder]))(path)

    found = with_emptied(falls, counted, layout.profile_of, stored, layout.counted)
    for fall in found:
        if fall.emptied:
            (path,) = places_of(layout, fall)
            key = (fall.profile, fall.name)
            baseline.times[key], baseline.holders[key] = counted[path]
    return found


def pin_for_a_while(repository: Repository, ids: Iterable[str], listener: Listener) -> set[str]:
    """Pin these for 30 days; those that are pinned now. One that is pinned for longer stays so."""
    from safekept.vault.care import pin
    from safekept.vault.snapshots import list_snapshots, public_id
    from safekept.vault.tags import pinned_until

    until = (datetime.date.today() + datetime.timedelta(days=PIN_DAYS)).isoformat()
    wanted, done = set(ids), set[str]()
    try:
        found = [one for one in list_snapshots(repository)[0] if public_id(one) in wanted]
        longer = {public_id(one) for one in found if (day := pinned_until(one)) == "" or (day or "") >= until}
        rest = [one for one in found if public_id(one) not in longer]
        done |= longer
        if rest:
            with repository.lock(exclusive=True, wait=_WAIT) as lock:
                done |= {public_id(one) for one in pin(repository, rest, lock, until=until)}
    except SafekeptError as error:
        listener(Event("alarm", text=f"Note: the snapshot before the loss was not pinned: {error.clause}"))
    return done


def _baseline(context: UserContext, repository: Repository, home: str, new: Snapshot) -> Baseline:
    baseline, seen = Baseline(), 0
    try:
        for entry in context.journal.backwards("snapshot"):
            if not _counts_for(entry, home):
                continue
            taken = SnapshotFacts.read(entry)
            baseline.take(
                _mapping(taken.census), taken.snapshot or "", entry.time, narrow=bool(taken.profile)
            )
            seen += 1
            if seen >= _LOOK_BACK or baseline.complete:
                break
    except OSError:
        pass
    if not seen:
        _from_vault(baseline, repository, home, new)
    return baseline


def _from_vault(baseline: Baseline, repository: Repository, home: str, new: Snapshot) -> None:
    """Where the journal knows nothing of this home: what the newest snapshot of it says itself."""
    from safekept.vault.read import read_manifest

    from ..snapshots.listing import list_home

    for one in list_home(repository, home).shown:
        if one.kind in _UNDO_POINTS or one.snapshot.id == new.id:
            continue
        try:
            manifest = read_manifest(repository, one.snapshot) or {}
        except SafekeptError:
            continue
        narrow = bool(_mapping(manifest.get("scope")).get("profile"))
        baseline.take(_mapping(manifest.get("census")), one.id, one.snapshot.time_ns / 1e9, narrow=narrow)
        return


def _counts_for(entry: Record, home: str) -> bool:
    taken = SnapshotFacts.read(entry)
    return entry.state in ("done", "incomplete") and taken.home == home and taken.kind not in _UNDO_POINTS


def _said(context: UserContext, home: str, fall: Shrinkage, since: float) -> bool:
    """Whether a notice of this very fall was sent after it was last counted: a guard, for example.

    One of a loss that came back is over: what is gone again is another loss.
    """
    back = {one.id for one in losses_in_snapshots(context, home) if one.back_since or one.back_in}
    for entry in context.journal.backwards(RAISED):
        if entry.time < since:
            return False
        alarm = read_alarm(entry)
        if (
            alarm.home == home
            and alarm.id not in back
            and any(
                (one.profile, one.name) == (fall.profile, fall.name) and one.after <= fall.after
                for one in alarm.losses
            )
        ):
            return True
    return False


def _is_back(fall: Shrinkage, census: Counts, empty: _Empty) -> bool:
    now = census.get(fall.profile, {}).get(fall.name)
    if now is None and fall.emptied:  # a file that is no class of its own
        path = fall.name if fall.profile == "default" else f"{fall.profile}/{fall.name}"
        return empty(path) is False
    return now is not None and not (
        now < fall.before and Shrinkage(fall.profile, fall.name, fall.before, now).alarming
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
