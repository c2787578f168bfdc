"""How a home is now, beside how its last snapshot saw it: by a quick look, for a status that must be fast.

The doctor looks closer, and says what it finds in the same words (findings/losses.py).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from safekept.core.entries import Outcome
from safekept.core.errors import SafekeptError
from safekept.core.files.small import read_document
from safekept.core.records import dataclass
from safekept.home.health import (
    Counts,
    LossSummary,
    QuickLook,
    Shrinkage,
    Stored,
    count_now,
    no_databases,
    shrunk,
    summarize_losses,
    with_emptied,
)
from safekept.home.layout import Layout
from safekept.vault.care import SOUND, states_in_file
from safekept.vault.snapshots import list_snapshots, public_id

from ..alarms.explained_losses import is_explained
from ..base.context import UserContext
from ..base.operations.homes import LandingFacts, SnapshotFacts
from ..snapshots.soundness import sound_database

if TYPE_CHECKING:
    from safekept.vault.format import Snapshot

    from ..alarms.alarms import Alarm
    from ..snapshots.listing import Listed
    from .coverage import Coverage
    from .home_summary import LastSnapshot
    from .vault_status import VaultView

DAMAGED_NOW, WHEN_STORED = "database-damaged", "damaged-when-stored"


@dataclass(frozen=True, slots=True)
class DamagedDatabase:
    """A database of a home that is not sound, and the snapshot that has it sound."""

    path: str
    wrong: str = ""  # what is wrong with it, in words
    snapshot: str = ""  # short id; empty: none is known
    proof: str = "checked and sound"  # what is known of it there
    mended: bool = False  # it was damaged when it was stored, and what is there now is something else


@dataclass(frozen=True, slots=True)
class Fewer:
    """What an agent seldom takes away by itself: no alarm, and worth a line for a while."""

    fall: Shrinkage
    snapshot: str  # the short id of the newest that has more
    paths: tuple[str, ...] = ()  # what that one has and the home has not; nothing: entries of a file

    def as_dict(self) -> dict[str, object]:
        return {**self.fall.as_dict(), "snapshot": self.snapshot, "paths": list(self.paths)}


_SELDOM, _SECONDS = ("skills", "memories"), 7 * 86400.0


@dataclass(frozen=True, slots=True)
class HomeNow:
    """What is wrong with a home as it is."""

    databases: tuple[DamagedDatabase, ...] = ()
    lost: LossSummary = field(default_factory=LossSummary)  # since the newest whole snapshot
    snapshot: str = ""  # the short id of that one
    restore: tuple[str, ...] = ()  # what of it brings that back; nothing: the whole home
    census: Counts = field(default_factory=dict)  # what that snapshot counted
    unread: tuple[str, ...] = ()  # settings and databases that changed since, and that were not looked into
    unchecked: tuple[str, ...] = ()  # other databases that changed since they were last found sound
    #: Within the ordinary, and worth a line: a look through the week, made when it is shown.
    fewer: Callable[[], tuple[Fewer, ...]] = tuple


@dataclass(frozen=True, slots=True)
class StoredHome:
    """What the snapshots of a home say, for a look at the home itself to stand beside."""

    view: VaultView
    whole: LastSnapshot | None
    last: LastSnapshot | None
    damaged: Mapping[str, str]  # database -> the snapshot that has it sound
    checked: Mapping[str, tuple[str, float]]  # database -> as what it was last checked, and when
    coverage: Coverage | None
    manifest: Mapping[str, object] | None
    shown: Sequence[Listed]
    losses: Sequence[Alarm] = ()  # that a snapshot may hold

    def databases(self, newest: LastSnapshot) -> Mapping[str, str]:
        """The databases that the newest snapshot holds, and the state of each."""
        listed = next((one for one in self.shown if one.id == newest.id), None)
        if listed is not None:
            return states_in_file(listed.snapshot)
        return self.coverage.databases or {} if self.coverage else {}

    def sound_at(self, newest: LastSnapshot) -> dict[str, float]:
        """When each database was last checked and found sound."""
        found = {path: newest.time for path, state in self.databases(newest).items() if state == SOUND}
        return found | {path: when for path, (state, when) in self.checked.items() if state == SOUND}

    def newest_whole(self) -> Snapshot | None:
        whole = self.whole
        snapshots = self.view.snapshots if whole is not None else ()
        return next((one for one in snapshots if whole is not None and public_id(one) == whole.id), None)

    def file(self) -> Stored:
        """What the newest whole snapshot has in a file."""
        from ..alarms.stored_files import stored_in, unknown

        snapshot, repository = self.newest_whole(), self.view.repository
        return unknown if snapshot is None or repository is None else stored_in(repository, snapshot)

    def places_back(self, layout: Layout, lost: LossSummary) -> tuple[str, ...]:
        """What brings back what is lost: those of its places that the snapshot has."""
        paths, snapshot = lost.named_places(layout), self.newest_whole()
        if not paths or self.view.repository is None or snapshot is None:
            return paths
        from safekept.vault.read import snapshot_source

        with contextlib.suppress(SafekeptError, OSError):
            source, _ = snapshot_source(self.view.repository, snapshot)
            return tuple(path for path in paths if source.node(path) is not None)
        return paths


def now_beside(
    context: UserContext, home: str, stored: StoredHome, layout: Layout | None, time: float, *, isolated: bool
) -> HomeNow:
    """A quick look at the home itself, beside what its newest whole snapshot says."""
    newest = stored.whole or stored.last
    if layout is None or stored.last is None or newest is None or not os.path.isdir(home):
        return HomeNow()
    census = census_in(stored.manifest) if stored.whole is not None else {}
    since, stored_at = newest.time, stored.last.time

    def excused(one: Shrinkage, counted: float = since) -> bool:
        return is_explained(context, home, layout, one, counted)

    databases = {**stored.databases(newest), **stored.damaged}
    quick = QuickLook(home, layout, since, isolated, stored.sound_at(newest))
    bad, lost, unchecked, counts = look_now(quick, databases, census, excused, stored.file)
    gaps = stored.coverage.of(Outcome.DAMAGED) if stored.coverage else ()
    reasons = {gap.path: gap.reason for gap in gaps}

    def mended(path: str) -> bool:
        """Whether it is something else since it was found damaged when it was stored."""
        found = stored.checked[path][1] if path in stored.checked else stored_at
        return path in sound_to_the_doctor(context, home, found) or restored_since(context, home, found)(path)

    found = [
        DamagedDatabase(
            path,
            bad.get(path) or reasons.get(path, ""),
            (stored.damaged.get(path) or sound_database(stored.shown, path, stored.losses))[:8],
            mended=path not in bad
            and os.path.isfile(os.path.join(home, path))
            and path in stored.damaged
            and (mended(path) or "should be a database" in reasons.get(path, "")),
        )
        for path in dict.fromkeys((*stored.damaged, *bad))
    ]
    known = layout if stored.view.repository is not None else None
    fewer = partial(fewer_lately, context, home, known, counts, excused, time)
    places = stored.places_back(layout, lost)
    unread = tuple(path for path in quick.unread if path not in bad)
    return HomeNow(tuple(found), lost, newest.short, places, census, unread, unchecked, fewer)


def falls_of(before: Counts, after: Counts, *, whole: bool = True) -> tuple[Shrinkage, ...]:
    """What fell beyond the ordinary: the very rule by which a snapshot raises an alarm."""
    return tuple(fall for fall in shrunk(before, after, whole=whole) if fall.alarming)


def look_now(
    quick: QuickLook,
    databases: Iterable[str],
    census: Counts,
    excused: Callable[[Shrinkage], bool],
    stored: Callable[[], Stored],
) -> tuple[dict[str, str], LossSummary, tuple[str, ...], Counts]:
    """Databases that are damaged, or none any more; what is lost; which were not checked; what there is.

    `excused`: whether a fall is no loss; `stored` asks the snapshot about files that are empty now. What was
    not read at all, `quick` knows.
    """
    home, layout = quick.home, quick.layout
    try:
        owner = os.stat(home).st_uid
    except OSError:
        return {}, LossSummary(), (), {}
    known = [path for path in databases if layout.database(path)]
    if os.geteuid() == 0 and owner != 0:
        # Root opens nothing in other people's homes by itself.
        quick.unread.extend(known)
        return {}, LossSummary(), (), {}
    bad = no_databases(home, layout, known, isolated=quick.isolated)
    after = count_now(home, layout, census, quick)
    falls = list(falls_of(census, after))
    if quick.blank:
        falls = with_emptied(falls, quick.blank, layout.profile_of, stored(), layout.counted)
    falls = [one for one in falls if not excused(one)]
    damaged, unchecked = quick.check(path for path in known if path not in bad)
    bad |= damaged
    unchecked = [path for path in unchecked if path not in quick.unread]
    return bad, summarize_losses(falls, census, after), tuple(unchecked), after


def fewer_lately(
    context: UserContext,
    home: str,
    layout: Layout | None,
    counts: Counts,
    excused: Callable[[Shrinkage, float], bool],
    now: float,
) -> tuple[Fewer, ...]:
    """By the snapshots of the last week, beside what is there now; what is an alarm is not named again.

    `layout`: the vault may be asked which files these are.
    """
    found: dict[tuple[str, str], Fewer] = {}
    try:
        for entry in context.journal.backwards(SnapshotFacts.verb):
            if entry.time < now - _SECONDS:
                break
            taken = SnapshotFacts.read(entry)
            if taken.home != home or entry.state not in ("done", "incomplete"):
                continue
            before = census_in({"census": taken.census or {}})
            for fall in shrunk({one: _seldom(had) for one, had in before.items()}, counts, whole=False):
                known = (fall.profile, fall.name) in found or fall.alarming
                if not known and not excused(fall, entry.time):
                    found[fall.profile, fall.name] = Fewer(fall, (taken.snapshot or "")[:8])
    except OSError:
        pass
    if not found or layout is None:
        return tuple(found.values())
    return _with_paths(context, home, layout, found.values())


def _with_paths(context: UserContext, home: str, layout: Layout, found: Iterable[Fewer]) -> tuple[Fewer, ...]:
    """Each with the files that are gone: what is named can be brought back by its name."""
    from ..alarms.stored_files import missing_now
    from ..vault.opening import open_vault

    def there(path: str) -> bool:
        return os.path.lexists(os.path.join(home, path))

    found = tuple(found)
    with contextlib.suppress(SafekeptError, OSError), open_vault(context) as repository:
        by_id = {public_id(one)[:8]: one for one in list_snapshots(repository)[0]}
        return tuple(
            replace(one, paths=missing_now(repository, by_id[one.snapshot], layout, one.fall, there))
            if one.snapshot in by_id
            else one
            for one in found
        )
    return found


def _seldom(counts: Mapping[str, int | None]) -> dict[str, int | None]:
    return {name: counts[name] for name in _SELDOM if name in counts}


def restored_since(context: UserContext, home: str, when: float) -> Callable[[str], bool]:
    """Whether a path of a home was brought back after that time, and stayed so: by the journal."""
    places: set[str] = set()
    undone: set[str] = set()
    try:
        for entry in context.journal.backwards("restore", "import", "rebuild", "undo"):
            if entry.time <= when:
                break
            if entry.state not in ("done", "incomplete") or entry.operation in undone:
                continue
            done = LandingFacts.read(entry)
            if entry.verb == "undo":
                undone.add(done.undoes or "")
            elif done.home == home:
                places.update(done.only or ("",))
    except OSError:
        pass
    return lambda path: any(not one or path == one or path.startswith(one + "/") for one in places)


def doctor_file(context: UserContext) -> str:
    """Where the doctor writes down what it found (findings/doctor_memory.py)."""
    return os.path.join(context.places.data_directory, "doctor.json")


def found_damaged(context: UserContext, home: str) -> dict[str, float]:
    """Databases of a home that the doctor found damaged when it last looked, and when that was."""

    def damaged(document: dict[str, Any]) -> dict[str, float]:
        found = [one for one in document["findings"] if (one["home"], one["code"]) == (home, DAMAGED_NOW)]
        return {str(one.get("path") or ""): float(document["time"]) for one in found}

    return read_document(doctor_file(context), damaged, {})


def sound_to_the_doctor(context: UserContext, home: str, since: float) -> set[str]:
    """Databases that were damaged when they were stored, and that the doctor found sound after that."""

    def sound(document: dict[str, Any]) -> set[str]:
        if float(document["time"]) <= since:
            return set()
        found = [one for one in document["findings"] if one["home"] == home]
        return {path for one in found if one["code"] == WHEN_STORED for path in str(one["path"]).split(", ")}

    return read_document(doctor_file(context), sound, set())


def census_in(manifest: Mapping[str, object] | None) -> Counts:
    """What a snapshot counted, by its own account; what is not understood is left out."""
    census = manifest.get("census") if manifest else None
    return {
        str(profile): {str(name): count for name, count in counts.items() if isinstance(count, int)}
        for profile, counts in (census.items() if isinstance(census, Mapping) else ())
        if isinstance(counts, Mapping)
    }
