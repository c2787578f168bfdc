"""Whose change a file shows: the agent's, or the user's own.

An agent's turn lies between its *before* point and its *after* mark. What changed outside any turn,
that is after an after-mark and before the next turn, was changed by the user, whatever tool he used.
For each file the newest change decides. No after-mark after the checkpoint means that nothing is
known, and then nothing counts as the user's (DESIGN §10).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from .checkpoint import Checkpoint, FileState
from .rollback_plan import substance


class History(Protocol):
    """What is asked of the store."""

    def difference(
        self, older: Checkpoint, newer: Checkpoint
    ) -> Iterable[tuple[str, FileState | None, FileState | None]]: ...
    def state(
        self, checkpoint: Checkpoint, paths: Collection[str] | None = None
    ) -> Mapping[str, FileState]: ...


def changed_by_user(
    store: History,
    later: Sequence[Checkpoint],
    live: Checkpoint,
    now: Mapping[str, FileState],
    paths: Collection[str],
    named: Callable[[Checkpoint], Collection[str]],
) -> set[str]:
    """Which of `paths` show an edit of the user's.

    `later` are the checkpoints after the one gone back to, newest first, without `live`, which is a
    full point of this moment with the state `now`.
    """
    if not any(point.kind == "after" for point in later):
        return set()
    undecided = {path: substance(now.get(path)) for path in paths}
    waiting: dict[str, bool] = {}  # differs already, at a point that does not say by whom
    known: dict[str, FileState | None] = {path: now.get(path) for path in paths}
    newer, mine = live, set()
    carried_out = {point.turn for point in later if point.kind == "after"}
    for point in later:
        if not undecided and not waiting:
            break
        if point.full:
            for path, older, _ in store.difference(point, newer):
                if path in known:
                    known[path] = older
            newer = point
            covered: Collection[str] = list(undecided.keys() | waiting.keys())
            states: Mapping[str, FileState | None] = known
        else:
            covered = [path for path in named(point) if path in undecided or path in waiting]
            if not covered:
                continue
            states = store.state(point, covered)
        for path in covered:
            if path in undecided and substance(states.get(path)) == undecided[path]:
                continue
            silent = point.kind == "manual" or (
                point.kind == "undo" and f"rollback {point.id}" not in carried_out
            )
            if silent:  # taken at any time, by anybody: the next older point knows more
                undecided.pop(path, None)
                waiting[path] = True
                continue
            undecided.pop(path, None)
            waiting.pop(path, None)
            if point.kind == "after":
                mine.add(path)
    return mine
