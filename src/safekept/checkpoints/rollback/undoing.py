"""What undoing a rollback may touch: what that rollback changed, and nothing that was changed since."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..checkpoint import Checkpoint, CheckpointDamaged, FileState
from ..points.reconstructed_state import LeftOut, States, reconstruct
from ..points.rollback_plan import substance
from ..store.store import Store
from ..store.tree_state import TreeState


@dataclass(frozen=True, slots=True)
class Undoing:
    """One rollback seen from later: the paths it changed, and how it left them."""

    left_as: dict[str, FileState | None]
    root: FileState | None = None  # how it left the project's own directory; None where nobody knows

    def changed(self, path: str) -> bool:
        return path in self.left_as

    def since(self, differing: Collection[str], now: TreeState) -> set[str]:
        """Those of the paths that differ which somebody changed after the rollback."""
        return {
            path
            for path in differing
            if path in self.left_as and substance(now.get(path)) != substance(self.left_as[path])
        }

    def others(
        self, differing: Collection[str], then: Mapping[str, FileState], now: Mapping[str, FileState]
    ) -> list[str]:
        """Files that differ and that the rollback had nothing to do with."""

        def is_file(path: str) -> bool:
            sides = (then.get(path), now.get(path))
            return any(state is not None and state.kind != "directory" for state in sides)

        return sorted(path for path in differing if path not in self.left_as and is_file(path))


def undoing(
    store: Store, states: States, points: Sequence[Checkpoint], undo: Checkpoint, target: str
) -> Undoing | None:
    """What the rollback with this undo point did; None where nothing of it is known any more.

    Its after-mark says it; where that is missing or did not look, what was gone back to does.
    """
    goal = next((point for point in points if point.id == target), None)
    mark = next(
        (point for point in points if point.kind == "after" and point.turn == f"rollback {undo.id}"), None
    )
    try:
        aim = reconstruct(store, points, goal, undo).state(states) if goal is not None else None
        if mark is None:
            if aim is None:
                return None
            paths = states(undo).keys() | aim.keys()
            return Undoing({path: aim.get(path) for path in paths if aim.get(path) != states(undo).get(path)})
        after = states(mark)
        hides = LeftOut(after)
        found: dict[str, FileState | None] = {}
        for path, _, state in store.difference(undo, mark):
            unseen = state is None and hides.reason(path)
            found[path] = aim.get(path) if unseen and aim is not None else state
        if aim is not None:
            # What it brought back, and the mark could not read: it is as the aim has it.
            before = states(undo)
            brought = {path for path, state in aim.items() if path not in found and state != before.get(path)}
            found.update((path, aim[path]) for path in brought if path not in after and hides.reason(path))
        return Undoing(found, after.root)
    except CheckpointDamaged:
        return None
