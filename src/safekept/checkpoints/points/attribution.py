"""Whose change a file shows: the agent's, or the user's own.

An agent's turn lies between its *before* point and its *after* mark. What changed outside any turn,
that is after an after-mark and before the next turn, was changed by the user, whatever tool they used.
For each file the newest change decides. While a second agent is still at its turn, the mark of the first
one ends nothing. A point that hid a file says nothing of its content. No
after-mark after the checkpoint means that nothing is known, and then nothing counts as the user's
(DESIGN §10).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from ..checkpoint import Checkpoint, CheckpointDamaged, FileState
from ..store.tree_state import TreeState
from .rollback_plan import visible_state


class History(Protocol):
    """What is asked of the store."""

    def difference(
        self, older: Checkpoint, newer: Checkpoint
    ) -> Iterable[tuple[str, FileState | None, FileState | None]]: ...
    def state(self, checkpoint: Checkpoint, paths: Collection[str] | None = None) -> TreeState: ...


#: A turn without a mark of its own counts as still going on for so long; after that its agent has died.
_OPEN_NS = 12 * 3600 * 1_000_000_000


def marks_amid_turns(points: Sequence[Checkpoint]) -> frozenset[str]:
    """After-marks that were made while another agent was at its turn: what follows may be its work. So it
    is where a turn has another mark before its next change: commands ran side by side, or left a process."""
    turns: dict[tuple[str, str], tuple[int, int]] = {}  # when it began, and when it ended
    seen: dict[str, tuple[str, str]] = {}  # the turn that a session is at
    marks: list[Checkpoint] = []
    last: dict[str, Checkpoint] = {}  # of each session, where it is a mark
    amid: set[str] = set()
    for point in sorted(points, key=lambda point: (point.time_ns, point.id)):
        key = (point.session, point.turn)
        before_it = last.pop(point.session, None)
        if point.kind == "after" and point.session:
            if before_it is not None and before_it.turn == point.turn:
                amid.add(before_it.id)
            last[point.session] = point
        if point.kind == "after":
            marks.append(point)
            if key in turns:
                turns[key] = (turns[key][0], point.time_ns)
        elif point.kind == "before" and point.turn:
            before = seen.get(point.session)
            if before is not None and before != key and turns[before][1] > point.time_ns:
                turns[before] = (turns[before][0], point.time_ns)
            seen[point.session] = key
            turns[key] = (turns.get(key, (point.time_ns, 0))[0], point.time_ns + _OPEN_NS)
    return frozenset(amid) | frozenset(
        mark.id
        for mark in marks
        if any(
            began < mark.time_ns < ended
            for (session, _), (began, ended) in turns.items()
            if session != mark.session
        )
    )


def changed_by_user(
    store: History,
    later: Sequence[Checkpoint],
    live: Checkpoint,
    now: Mapping[str, FileState],
    paths: Collection[str],
    named: Callable[[Checkpoint], Collection[str]],
    amid_turns: Collection[str] = frozenset(),
    blind: Callable[[Checkpoint, str], None] = lambda point, path: None,
) -> set[str]:
    """Which of `paths` show an edit of the user's.

    `later` are the checkpoints after the one gone back to, newest first, without `live`, which is a
    full point of this moment with the state `now`. `amid_turns`: see `marks_amid_turns`. `blind` is told of
    each path that a point on the way hid.
    """
    # The mark that a rollback leaves is no agent's: without one everything here is the same person's work.
    if not any(point.kind == "after" and not point.turn.startswith("rollback ") for point in later):
        return set()
    undecided = {path: visible_state(now.get(path)) for path in paths}
    waiting: dict[str, bool] = {}  # differs already, at a point that does not say by whom
    known: dict[str, FileState | None] = {path: now.get(path) for path in paths}
    newer, mine = live, set()
    carried_out = {point.turn for point in later if point.kind == "after"}
    for point in later:
        if not undecided and not waiting:
            break
        covered: Collection[str]
        states: Mapping[str, FileState | None]
        try:
            if point.full:
                for path, older, _ in store.difference(point, newer):
                    if path in known:
                        known[path] = older
                newer = point
                covered, states = list(undecided.keys() | waiting.keys()), known
            else:
                covered = [path for path in named(point) if path in undecided or path in waiting]
                if not covered:
                    continue
                states = store.state(point, covered)
            blank = [path for path in covered if states.get(path) is None]
            unsure = store.state(point, blank) if blank else None
        except CheckpointDamaged:  # a point that cannot be read knows nothing; the next older one does
            continue
        for path in covered:
            state = visible_state(states.get(path))
            if state is None and unsure is not None and not unsure.knows(path):
                # Hidden there: nothing is known of it but, by its own entry, that it existed.
                blind(point, path)
                if undecided.get(path, "") is not None or path not in unsure.skipped:
                    continue
            elif path in undecided and state == undecided[path]:
                continue
            silent = point.kind == "manual" or (
                point.kind == "undo" and f"rollback {point.id}" not in carried_out
            )
            if silent:  # taken at any time, by any caller: the next older point knows more
                undecided.pop(path, None)
                waiting[path] = True
                continue
            undecided.pop(path, None)
            waiting.pop(path, None)
            if point.kind == "after" and point.id not in amid_turns:
                mine.add(path)
    return mine
