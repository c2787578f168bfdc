"""The restore of a drill: the one landing, into scratch, with nothing of this machine in the way."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace

from safekept.core.entries import Content, Entry, EntryLost, Kind, Outcome, Remark, Source
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener
from safekept.core.files import NoRoom, free_bytes
from safekept.home.landing import LandingPlan, Targets, database_of, land, plan_landing
from safekept.home.layout import Layout

from .checks.restored import RestoredHome
from .place import DrillPlace, no_room
from .subject import Subject

# A Source in which damage stays local, whatever it is: for a drill, which wants to know all of it. A
# restore stops at an archive whose bytes are not what its manifest says. A drill goes on, so that the
# receipt names every file that is lost and still judges everything else. Hashes are left to the drill
# itself, which holds the restored files against them.

#: After so many losses in a row a stream that is read from front to back is given up.
_GIVE_UP = 20
#: What a small drill takes beside the state files.
_SAMPLE_FILES = 200
_SAMPLE_BYTES = 64 << 20


class LocalDamage:
    """The chosen entries of a source; `lost` fills with what it could not give."""

    def __init__(self, source: Source, entries: list[Entry], chosen: set[str] | None = None) -> None:
        self._source, self._entries, self._chosen = source, entries, chosen
        self.lost: dict[str, str] = {}
        self.in_a_row = 0

    @property
    def ordered(self) -> bool:
        return self._source.ordered

    @property
    def remarks(self) -> list[Remark]:
        return self._source.remarks

    def __iter__(self) -> Iterator[Entry]:
        for entry in self._entries:
            if self._chosen is not None and entry.path not in self._chosen:
                continue
            if entry.kind is not Kind.FILE:
                yield entry
            else:
                yield replace(entry, sha256="", equals=None, open=_Opener(self, entry))

    def lose(self, path: str, reason: str) -> EntryLost:
        self.lost[path] = reason
        return EntryLost(Remark(path, Outcome.UNREADABLE, reason))

    def given_up(self) -> bool:
        return self.ordered and self.in_a_row >= _GIVE_UP


class _Opener:
    __slots__ = ("entry", "source")

    def __init__(self, source: LocalDamage, entry: Entry) -> None:
        self.source, self.entry = source, entry

    def __call__(self) -> Content:
        source, path = self.source, self.entry.path
        if source.given_up():
            raise source.lose(path, "lies behind damage in the archive")
        try:
            return _Guarded(source, path, self.entry.open())
        except EntryLost as lost:
            source.in_a_row += 1
            raise source.lose(path, lost.remark.reason) from lost
        except SafekeptError as error:
            source.in_a_row += 1
            raise source.lose(path, str(error.facts.get("reason") or error.what)) from error


class _Guarded(Content):
    """Content whose every trouble is a loss of this one file."""

    def __init__(self, source: LocalDamage, path: str, content: Content) -> None:
        super().__init__()
        self._source, self._path, self._content = source, path, content
        self.size, self.mtime_ns = content.size, content.mtime_ns

    def chunks(self) -> Iterator[bytes]:
        came = 0
        source, content = self._source, self._content
        try:
            for chunk in content.chunks():
                came += len(chunk)
                yield chunk
        except EntryLost as lost:
            source.in_a_row += 1
            raise source.lose(self._path, lost.remark.reason) from lost
        except SafekeptError as error:
            source.in_a_row += 1
            raise source.lose(self._path, str(error.facts.get("reason") or error.what)) from error
        if came != self.size:
            raise source.lose(self._path, f"{came:,} bytes came where {self.size:,} were announced")
        source.in_a_row = 0
        self.remarks, self.database = content.remarks, content.database

    def close(self) -> None:
        self._content.close()


def choose_small(entries: list[Entry], layout: Layout, seed: str) -> set[str]:
    """The paths that a small drill restores: the state files, and a sample of the rest.

    The sample is another one every time, so that many small drills come round to everything.
    """
    files = [entry for entry in entries if entry.kind is Kind.FILE]
    chosen = {entry.path for entry in files if layout.quick(entry.path) or layout.database(entry.path)}
    rest = [entry for entry in files if entry.path not in chosen]
    room = _SAMPLE_BYTES
    for entry in random.Random(seed).sample(rest, min(len(rest), _SAMPLE_FILES)):
        if entry.size <= room:
            room -= entry.size
            chosen.add(entry.path)
    # A database comes with its logs, and everything with the directories above it.
    chosen |= {entry.path for entry in files if database_of(entry.path) in chosen}
    return chosen | {path[:at] for path in chosen for at in range(len(path)) if path[at] == "/"}


def land_in_scratch(
    subject: Subject,
    place: DrillPlace,
    needed: int,
    chosen: set[str] | None,
    operation: str,
    listener: Listener,
) -> tuple[RestoredHome, int]:
    """Restore a subject, or the chosen paths of it; how many files and links landed is the second.

    What cannot be read is lost and listed; a damaged database lands as it is. Raises what the landing
    refuses, and NoRoom in the words of a drill where the disk filled up meanwhile.
    """
    # What is bound to a machine is left alone by a restore; here there is none to leave it to.
    layout = replace(subject.layout, machine_bound_patterns=())
    source = LocalDamage(subject.source, subject.entries, chosen)
    external = {
        prefix: os.path.join(place.path, f"external-{number}")
        for number, prefix in enumerate(subject.external)
    }
    home = os.path.join(place.path, "home")
    try:
        plan = plan_landing(source, Targets(home=home, external=external), layout)
        landed = land(
            source, plan, operation=operation, allow_damaged=True, leave_lost=True, listener=listener
        )
    except NoRoom as error:
        raise no_room(needed, [(os.path.dirname(place.path), free_bytes(place.path))]) from error
    passed_over = 0
    if chosen is not None:
        passed_over = sum(entry.kind is Kind.FILE and entry.path not in chosen for entry in subject.entries)
    restored = as_restored(
        plan,
        subject,
        source,
        root_mode=subject.root_mode,
        passed_over=passed_over,
        exact_times=place.exact_times,
        modes=place.keeps_modes,
    )
    return restored, landed.created


def as_restored(
    plan: LandingPlan,
    subject: Subject,
    source: LocalDamage,
    *,
    exact_times: bool,
    modes: bool,
    root_mode: int | None = None,
    passed_over: int = 0,
) -> RestoredHome:
    """What landed, beside what the store says it should be: the ground of every check, also in a rebuild."""
    folded = {database_of(path) for path, item in plan.items.items() if item.sidecar}
    # One whose search indexes were rebuilt is more than what was stored, too.
    folded |= {path for path, item in plan.items.items() if item.left_out}
    return RestoredHome(
        plan.home,
        subject.layout,
        {entry.path: entry for entry in subject.entries},
        plan.items,
        plan.roots,
        subject.manifest,
        source.lost,
        frozenset(folded - {""}),
        root_mode,
        subject.unreadable,
        passed_over,
        exact_times,
        modes,
    )
