"""The project as it was at a checkpoint, put together from all that is known.

A full point knows everything. A named-only point knows its named files; for any other path the next
later point that knows it is the truth, since what an agent changes is captured before it is changed.
So going back to a named-only point undoes that change and every later one, and brings back nothing
older than the point itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .checkpoint import Checkpoint, FileState, Skipped
from .rollback_journal import RollbackJournal
from .rollback_plan import parents, substance
from .store import Store
from .tree_state import TreeState


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
class Moment:
    """A full point, with what earlier named-only points know better laid over it."""

    base: Checkpoint
    over: dict[str, tuple[FileState | None, Checkpoint]] = field(default_factory=dict)

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
        return merged

    def differs(self, states: States, other: Moment) -> bool:
        """Whether a person would see a difference between the two."""
        pairs = {path: (one, two) for path, one, two in states.store.difference(self.base, other.base)}
        for path in self.over.keys() | other.over.keys():
            if path not in pairs:  # the same in both full points
                pairs[path] = (states(self.base).get(path),) * 2
        for path, (one, two) in pairs.items():
            first = self.over[path][0] if path in self.over else one
            second = other.over[path][0] if path in other.over else two
            if substance(first) != substance(second):
                return True
        return False


def named_paths(store: Store, point: Checkpoint) -> list[str]:
    """The paths that a named-only point speaks for, whether they existed or not."""
    named = store.about(point).get("named")
    return [str(path) for path in named] if isinstance(named, list) else []


def every_name(store: Store, points: Sequence[Checkpoint]) -> list[str]:
    """All files that named-only points speak for."""
    return sorted({name for point in points if not point.full for name in named_paths(store, point)})


def moments(
    source: Store | States, points: Sequence[Checkpoint], live: Checkpoint | None
) -> dict[str, Moment]:
    """Every checkpoint of a project by id; `points` newest first, `live` a point of now."""
    states = States.of(source)
    found: dict[str, Moment] = {}
    newer = Moment(live) if live is not None else None
    for point in points:
        if point.full:
            newer = Moment(point)
        elif newer is None:
            newer = Moment(point)  # nothing later is known: what it does not name is as it was before
        else:
            newer = Moment(newer.base, dict(newer.over))
            for path, state in _named_states(states, point, newer.base).items():
                newer.over[path] = (state, point)
        found[point.id] = newer
    return found


def _named_states(states: States, point: Checkpoint, base: Checkpoint) -> dict[str, FileState | None]:
    """The states of the files that a point names; read from what differs, so that little is read."""
    differing = {path: one for path, one, _ in states.store.difference(point, base)}
    whole = states(base)
    return {
        path: differing[path] if path in differing else whole.get(path)
        for path in named_paths(states.store, point)
    }


def numbered(store: Store, points: Sequence[Checkpoint], live: Checkpoint | None) -> list[Checkpoint]:
    """The points that have numbers, number 1 first.

    Only *before* and *manual* points have one. A point to which nothing changed, seen from the next
    newer one or from the project as it is, has none; nor has one that a rollback went back behind. So
    `rollback 1` always undoes the last change that is still there.
    """
    states = States(store)
    known = moments(states, points, live)
    reference = Moment(live) if live is not None else None
    undone = _Undone(store, points[0].project) if points else None
    found = []
    for point in points:
        if not point.numbered or (live is not None and point.id == live.id):
            continue
        if undone is not None and undone.covers(point):
            continue
        if reference is None or known[point.id].differs(states, reference):
            found.append(point)
            reference = known[point.id]
    return found


class _Undone:
    """The stretches of a project's history that rollbacks left behind. Ids sort by time."""

    def __init__(self, store: Store, project: str) -> None:
        self._stretches: list[tuple[str, str]] = []
        position = "~"
        lines = RollbackJournal(store.project_directory(project)).finished()
        for line in sorted(lines, key=lambda line: str(line.get("undo")), reverse=True):
            target, undo = str(line.get("target", "")), str(line.get("undo", ""))
            # A rollback that lies itself in such a stretch, or was undone, left nothing behind.
            if undo < position and target and not line.get("files"):
                self._stretches.append((target, undo))
                position = target

    def covers(self, point: Checkpoint) -> bool:
        return any(target < point.id <= undo for target, undo in self._stretches)


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
    """Whether a path that a moment does not hold was surely not there; answered by the point that knows."""

    def __init__(self, states: States, moment: Moment) -> None:
        self._states, self._moment = states, moment

    def __call__(self, path: str) -> str:
        over = self._moment.over.get(path)
        left_out = LeftOut(self._states(over[1] if over else self._moment.base))
        if over is not None:  # it was looked at by name: only an entry of its own counts
            return "then-left-out" if left_out.find(path) is not None else ""
        return left_out.reason(path)
