"""Whose change a file shows, where it was in one half at one point and in the other at the next.

What git hides changes with every new rule. So each point is asked with both its halves, and
two states are the same where their bytes are, whatever each half calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from ..checkpoint import Checkpoint, CheckpointDamaged, FileState
from ..points.attribution import History
from ..points.rollback_plan import HIDDEN_REASONS
from ..store.store import Store
from ..store.tree_state import TreeState

#: Whether two states are of the same bytes.
Same = Callable[[FileState, FileState], bool]


class BothHalves:
    """The points of a project, asked for some of its paths. `live` is the point of this moment, with the
    state `now` of both halves."""

    def __init__(
        self,
        store: Store,
        hidden: History,
        live: Checkpoint,
        now: Mapping[str, FileState],
        paths: Collection[str],
        same: Same,
    ) -> None:
        self._store, self._hidden, self._live = store, hidden, live
        self._now, self._paths, self._same = now, paths, same
        self._states: dict[str, TreeState] = {}

    def difference(
        self, older: Checkpoint, newer: Checkpoint
    ) -> Iterable[tuple[str, FileState | None, FileState | None]]:
        one = self.state(older)
        two = self._now if newer.id == self._live.id else self.state(newer)
        return [
            (path, one.get(path), two.get(path)) for path in self._paths if one.get(path) != two.get(path)
        ]

    def state(self, checkpoint: Checkpoint, paths: Collection[str] | None = None) -> TreeState:
        """Raises CheckpointDamaged."""
        if checkpoint.id not in self._states:
            self._states[checkpoint.id] = self._read(checkpoint)
        return self._states[checkpoint.id]

    def _read(self, checkpoint: Checkpoint) -> TreeState:
        state = self._store.state(checkpoint, self._paths)
        if checkpoint.full:
            try:
                hidden = self._hidden.state(checkpoint)
            except (
                CheckpointDamaged
            ):  # nothing hidden was kept then: the visible half says what it does not know
                hidden = None
            if hidden is not None:
                for path, entry in hidden.items():
                    state.setdefault(path, entry)
                shown = {path: why for path, why in state.skipped.items() if why.reason not in HIDDEN_REASONS}
                state.skipped = {**shown, **hidden.skipped}
                # Of a hidden directory the visible half knows only what tools named.
                state.partial -= hidden.keys()
        for path in self._paths:
            one, now = state.get(path), self._now.get(path)
            if one is not None and now is not None and one.oid != now.oid and self._same(one, now):
                state[path] = replace(one, oid=now.oid)
        return state
