"""What one turn of an agent changed in a project, and no more: the paths that taking it back may touch.

A turn lies between its first point and its mark. What differs between the two is the turn's, and goes back as
far as it is still as the turn left it. What was changed again stays: by a later turn, since going back would
take that one's work as well; by the user, as in every rollback.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ..checkpoint import LOOKED_AT, Checkpoint, CheckpointDamaged, FileState
from ..points.reconstructed_state import LeftOut, States, named_paths, reconstruct
from ..points.rollback_plan import Left
from ..store.store import Store
from .undo_point import Undoing


def changed_until(
    store: Store,
    states: States,
    points: Sequence[Checkpoint],
    then: Mapping[str, FileState],
    until: Checkpoint,
    live: Checkpoint,
) -> Undoing:
    """The paths that were changed up to a point, and how they were left. Raises CheckpointDamaged."""
    rebuilt = reconstruct(store, points, until, live)
    after, hides = rebuilt.state(states), LeftOut(states(rebuilt.base))
    left_as: dict[str, FileState | None] = {}
    for path in then.keys() | after.keys():
        older, newer = then.get(path), after.get(path)
        if older == newer:
            continue
        # The mark did not see it: whatever lies there now counts as changed since.
        left_as[path] = older if newer is None and hides.reason(path) else newer
    return Undoing(left_as, states(until).root if until.full else None)


def turns_after(points: Sequence[Checkpoint], until: Checkpoint) -> list[Checkpoint]:
    """The points at which other turns began, or went on, after one."""
    start = (until.time_ns, until.id)
    return [point for point in points if point.kind == "before" and (point.time_ns, point.id) >= start]


def changed_by_turns(
    store: Store,
    points: Sequence[Checkpoint],
    until: Checkpoint,
    live: Checkpoint,
    paths: Collection[str],
) -> set[str]:
    """Which of the paths later turns changed: between a point before a tool and the next one that looked.
    What a point cannot tell counts as theirs."""
    start = (until.time_ns, until.id)
    later = sorted((point.time_ns, point.id, point) for point in points if (point.time_ns, point.id) >= start)
    in_order = [point for *_, point in later if point.reason != LOOKED_AT]
    whole = [*(point for point in in_order if point.full), live]
    found: set[str] = set()
    try:
        for point, following in pairwise(whole):
            if point.kind == "before":
                found.update(path for path, _, _ in store.difference(point, following) if path in paths)
        for point in in_order:
            if point.kind == "before" and not point.full:
                found.update(path for path in named_paths(store, point) if path in paths)
    except CheckpointDamaged:
        return set(paths)
    return found


def as_later(left: list[Left]) -> list[Left]:
    """With the words for a turn: what was changed since it was changed by a later one."""
    return [replace(one, reason="later") if one.reason == "since" else one for one in left]
