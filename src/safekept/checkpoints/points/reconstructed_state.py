"""The project as it was at a checkpoint, put together from all that is known.

A full point knows everything. A named-only point knows its named files; for any other path the next
later point that knows it is the truth, since what an agent changes is captured before it is changed.
So going back to a named-only point undoes that change and every later one, and brings back nothing
older than the point itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from safekept.core.records import dataclass

from ..checkpoint import LOOKED_AT, Checkpoint, CheckpointDamaged, FileState, Skipped
from ..store.repositories.state import same_repositories
from ..store.store import Store
from ..store.tree_state import TreeState
from .attribution import marks_amid_turns
from .rollback_plan import parents, visible_state


class States:
    """States of checkpoints, each read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[str, TreeState] = {}

    @classmethod
    def of(cls, source: Store | States) -> States:
        return source if isinstance(source, States) else cls(source)

    def __call__(self, point: Checkpoint) -> TreeState:
        if point.id not in self._known:
            self._known[point.id] = self.store.state(point)
        return self._known[point.id]


@dataclass(slots=True)
class ReconstructedState:
    """A full point, with what earlier named-only points know better laid over it."""

    base: Checkpoint
    over: dict[str, tuple[FileState | None, Checkpoint]] = field(default_factory=dict)
    #: Directories that were made for named files: gone with the last of them.
    made: frozenset[str] = frozenset()
    damaged: bool = False  # what it is put together from cannot be read

    def state(self, source: Store | States) -> Mapping[str, FileState]:
        whole = States.of(source)(self.base)
        if not self.over:
            return whole
        merged = dict(whole)
        for path, (state, _) in self.over.items():
            if state is None:
                merged.pop(path, None)
            else:
                merged[path] = state
        for path in sorted(self.made, reverse=True):
            found = merged.get(path)
            if found is None or found.kind != "directory":  # an earlier call knows a file of that name
                continue
            if not any(other.startswith(path + "/") for other in merged):
                del merged[path]
        return merged

    def differs(self, store: Store, other: ReconstructedState) -> bool:
        """Whether a person would see a difference between the two."""
        if self.base.hidden and other.base.hidden and self.base.hidden != other.base.hidden:
            return True
        pairs = {path: (one, two) for path, one, two in store.difference(self.base, other.base)}
        alike = [path for path in self.over.keys() | other.over.keys() if path not in pairs]
        if alike:  # the same in both full points
            shared = store.state(self.base, alike)
            pairs |= {path: (shared.get(path), shared.get(path)) for path in alike}
        for path, (one, two) in pairs.items():
            first = self.over[path][0] if path in self.over else one
            second = other.over[path][0] if path in other.over else two
            if visible_state(first) != visible_state(second):
                return True
        return False


def named_paths(store: Store, point: Checkpoint) -> list[str]:
    """The paths that a named-only point speaks for, whether they existed or not."""
    named = store.about(point).get("named")
    return [str(path) for path in named] if isinstance(named, list) else []


def every_name(store: Store, points: Sequence[Checkpoint]) -> list[str]:
    """All files that named-only points speak for; what cannot be read speaks for nothing."""
    found: set[str] = set()
    for point in points:
        if not point.full:
            with contextlib.suppress(CheckpointDamaged):
                found.update(named_paths(store, point))
    return sorted(found)


def reconstruct_all(
    source: Store | States, points: Sequence[Checkpoint], live: Checkpoint | None
) -> dict[str, ReconstructedState]:
    """Every checkpoint of a project by id; `points` newest first, `live` a point of now."""
    return {point.id: rebuilt for point, rebuilt in _each(States.of(source).store, points, live)}


def reconstruct(
    store: Store, points: Sequence[Checkpoint], target: Checkpoint, live: Checkpoint
) -> ReconstructedState:
    """The same for one checkpoint; only what is needed for it is read."""
    needed: list[Checkpoint] = []
    for point in sorted(points, key=lambda point: (point.time_ns, point.id)):
        if (point.time_ns, point.id) >= (target.time_ns, target.id):
            needed.append(point)
            if point.full:
                break
    found = [rebuilt for _, rebuilt in _each(store, needed[::-1], live)]
    rebuilt = found[-1] if found else ReconstructedState(target)
    return replace(rebuilt, over={**_named_later(store, points, rebuilt.base), **rebuilt.over})


def _named_later(
    store: Store, points: Iterable[Checkpoint], base: Checkpoint
) -> dict[str, tuple[FileState | None, Checkpoint]]:
    """Files that a full point left out, as the first point after it that was told their names has them:
    what an agent changes is captured before it is changed. One that says that a file was not there says
    nothing about the time before it."""
    left_out = LeftOut(store.state(base))
    found: dict[str, tuple[FileState | None, Checkpoint]] = {}
    later = [point for point in points if (point.time_ns, point.id) > (base.time_ns, base.id)]
    seen: set[str] = set()
    for point in sorted(later, key=lambda point: (point.time_ns, point.id)) if left_out.items else ():
        if point.kind != "before":
            continue
        with contextlib.suppress(CheckpointDamaged):
            new = [name for name in named_paths(store, point) if name not in seen and left_out.find(name)]
            states = store.state(point, new) if new else {}
            found |= {name: (states[name], point) for name in new if name in states}
            seen.update(new)
    return found


def _each(
    store: Store, points: Iterable[Checkpoint], live: Checkpoint | None
) -> Iterator[tuple[Checkpoint, ReconstructedState]]:
    newer = ReconstructedState(live) if live is not None else None
    for point in points:
        if point.full or newer is None:  # where nothing later is known, the rest is as it was before
            newer = ReconstructedState(point)
        else:
            try:
                names = named_paths(store, point)
                states = store.state(point, names)
            except CheckpointDamaged:
                yield point, ReconstructedState(point, damaged=True)
                continue
            over = {name: (states.get(name), point) for name in names}
            made = {above for name in names if name not in states for above in parents(name)} - states.keys()
            newer = ReconstructedState(newer.base, {**newer.over, **over}, newer.made | made)
        yield point, newer


def numbered(
    store: Store,
    points: Sequence[Checkpoint],
    live: Checkpoint | None,
    most: int = 0,
    damaged: list[Checkpoint] | None = None,
    git: bool = False,
) -> list[Checkpoint]:
    """The points that have numbers, number 1 first. Going back changes none of them.

    Only *before* and *manual* points have one, and of those not one after which nothing was ever changed:
    every state counts that was seen between it and the next of them, up to the one that a rollback left.
    So `rollback 1` undoes the last change, and stays what it is when that was done. Where the newest point is
    an after-mark, what happened since is the user's own, which no number undoes. One that kept nothing has
    no number; neither has one that is damaged, which is added to `damaged`. `most`: so many are enough.
    `git`: what moved in the project's own repository is a change as well. Where the project itself is gone,
    the mark of its last turn is number 1.
    """
    stood = [live] if live is not None else []  # the points whose repositories are compared
    newest = next((point for point in points if point.kind != "undo"), None)
    last = _last_of_gone(newest, live)
    ended = newest is not None and newest.kind == "after" and newest.id not in marks_amid_turns(points)
    seen = [ReconstructedState(live)] if live is not None and not ended else []
    found: list[Checkpoint] = [last] if last is not None else []
    for point, rebuilt in _each(store, points, live):
        if most and len(found) >= most:
            break
        if live is not None and point.id == live.id:
            continue
        if not point.numbered:
            # What was only looked at may be the user's own, and what came after the point that a
            # rollback took is that rollback's.
            if not rebuilt.damaged and point.reason != LOOKED_AT:
                seen = [rebuilt] if point.kind == "undo" else [*seen, rebuilt]
                stood = [point] if point.kind == "undo" else [*stood, point]
            continue
        try:
            differs = not rebuilt.damaged and (not seen or any(rebuilt.differs(store, one) for one in seen))
        except CheckpointDamaged:  # one of the two
            rebuilt.damaged, differs = not _readable(store, rebuilt), True
        if git and not differs:
            differs = any(not same_repositories(store, point, one) for one in stood)
        if rebuilt.damaged:
            if damaged is not None:
                damaged.append(point)
            continue
        seen, stood = [rebuilt], [point]
        if differs and not holds_nothing_named(store, point):
            found.append(point)
    return found


def _last_of_gone(newest: Checkpoint | None, live: Checkpoint | None) -> Checkpoint | None:
    """The mark of the last turn in a project that is gone: that it went is the last change."""
    if live is not None or newest is None or newest.kind != "after" or not newest.full:
        return None
    return None if os.path.lexists(newest.project) else newest


def _readable(store: Store, rebuilt: ReconstructedState) -> bool:
    try:
        rebuilt.state(store)
    except CheckpointDamaged:
        return False
    return True


def holds_nothing_named(store: Store, point: Checkpoint) -> bool:
    """Whether a point of named files holds none of them, and knows of none that it was not there."""
    if point.full:
        return False
    try:
        about = store.about(point)
    except CheckpointDamaged:
        return False
    named, missed = about.get("named"), about.get("named_not_stored")
    rows = missed if isinstance(missed, list) else []
    left_out = {str(one.get("path")) for one in rows if isinstance(one, dict)}
    return not isinstance(named, list) or all(str(name) in left_out for name in named)


class LeftOut:
    """What a checkpoint did not save although it was there, asked by path."""

    def __init__(self, state: TreeState) -> None:
        self._state = state

    @property
    def items(self) -> list[Skipped]:
        return sorted(self._state.skipped.values(), key=lambda one: one.path)

    def find(self, path: str) -> Skipped | None:
        """The entry for a path, or for a directory above it."""
        for place in (path, *reversed(parents(path))):
            if place in self._state.skipped:
                return self._state.skipped[place]
        return None

    def reason(self, path: str) -> str:
        """Why a path may have been there although it is not in the checkpoint; "" if it surely was not."""
        if self._state.knows(path):
            return ""
        return "then-left-out" if self.find(path) is not None else "unproven"


class Absence:
    """Whether a path that a state does not hold was surely not there; answered by the point that knows."""

    def __init__(self, states: States, rebuilt: ReconstructedState) -> None:
        self._states, self._rebuilt = states, rebuilt

    def __call__(self, path: str) -> str:
        over = self._rebuilt.over.get(path)
        if over is not None:  # it was looked at by name: only an entry of its own counts
            left_out = LeftOut(self._states.store.state(over[1], [path]))
            return "then-left-out" if left_out.find(path) is not None else ""
        return LeftOut(self._states(self._rebuilt.base)).reason(path)
