"""Deciding what a rollback does to each path, before anything is touched.

Pure: made from two states of the project (as it was, as it is) and answers to a few questions. Rules:

- A file is replaced or removed only if the undo point holds it; what is on disk and in no state is
  not ours to touch, whatever the reason.
- "Not in the checkpoint" is no proof of "created since": it must not have been left out then either.
- The user's own later edits stay, unless they say otherwise; so does a new file that may be one that was
  left out then, under another name.
- Nothing that git keeps for itself (`.git`) is ever written.
"""

from __future__ import annotations

import dataclasses
import stat
from collections.abc import Callable, Collection, Mapping

from safekept.core.records import dataclass

from ..checkpoint import FileState, Skipped
from ..points.rollback_plan import Left, Step, parents, same, visible_state


@dataclass(frozen=True, slots=True)
class RollbackInputs:
    """Everything the decision is made from."""

    then: Mapping[str, FileState]
    now: Mapping[str, FileState]
    wanted: Callable[[str], bool] = lambda path: True
    mine: Collection[str] = frozenset()
    left_out_then: Callable[[str], str] = lambda path: (
        ""
    )  # why it may have been there unsaved; "" for surely absent
    left_out_now: Callable[[str], Skipped | None] = lambda path: None
    on_disk: Callable[[str], int] = lambda path: 0  # its type bits (stat.S_IFMT), 0 where nothing is
    since: Collection[str] = frozenset()  # changed after the rollback that is being undone
    renamed: Callable[[str, FileState], str] = lambda path, now: ""  # what was left out and it may have been


def plan_steps(sides: RollbackInputs) -> tuple[list[Step], list[Left]]:
    """What to change and what to leave, each path once, in order of name."""
    return _Planner(sides).run()


def directories_of(paths: Mapping[str, FileState]) -> set[str]:
    """Every directory that a state speaks of, or that a path in it implies."""
    found: set[str] = set()
    for path, state in paths.items():
        above = path if state.kind == "directory" else path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found


def is_never_written(path: str) -> bool:
    """Names that no rollback writes: git's own data, and what is no plain path below the project."""
    parts = path.split("/")
    return any(part in ("", ".", "..") or part.lower() == ".git" for part in parts) or "\0" in path


class _Planner:
    def __init__(self, sides: RollbackInputs) -> None:
        self.sides = sides
        self.steps: dict[str, Step] = {}
        self.left: dict[str, Left] = {}
        self.holds_left: set[str] = set()  # directories with something in them, at any depth, that stays
        self.directories_then = directories_of(sides.then)
        self.directories_now = directories_of(sides.now)

    def run(self) -> tuple[list[Step], list[Left]]:
        sides = self.sides
        for path in sides.then.keys() | sides.now.keys():
            then, now = sides.then.get(path), sides.now.get(path)
            if same(then, now) or not sides.wanted(path):
                continue
            if is_never_written(path):
                self._leave(path, "git")
            elif path in sides.since:
                self._leave(path, "since")
            elif then is None:
                assert now is not None
                self._take_away(path, now)
            elif now is None:
                self._bring_back(path, then)
            else:
                self._change(path, then, now)
        self._remove_directories()
        self._resolve_conflicts()
        self._spare_directories()
        return [self.steps[path] for path in sorted(self.steps)], [
            self.left[path] for path in sorted(self.left)
        ]

    def _leave(self, path: str, reason: str, detail: str = "") -> None:
        self.steps.pop(path, None)
        self.left[path] = Left(path, reason, detail)
        self.holds_left.update(parents(path))

    def _step(self, path: str, action: str, then: FileState | None, now: FileState | None) -> None:
        self.steps[path] = Step(path, action, then, now)

    def _change(self, path: str, then: FileState, now: FileState) -> None:
        """On both sides, and different."""
        if visible_state(then) == visible_state(now):
            self._step(path, "metadata", then, now)
        elif path in self.sides.mine:
            self._leave(path, "mine")
        elif then.kind == now.kind and then.oid == now.oid:
            self._step(path, "metadata", then, now)
        elif then.kind == "directory":
            self._step(path, "replace-by-directory", then, now)
        elif now.kind == "directory":
            self._step(path, "replace-directory", then, now)
        else:
            self._step(path, "restore", then, now)

    def _bring_back(self, path: str, then: FileState) -> None:
        """In the older state only: deleted since, or there and not saved."""
        implied = path in self.directories_now
        there = self.sides.on_disk(path)
        if path in self.sides.mine:
            self._leave(path, "mine", "you deleted it")
        elif then.kind == "directory" and implied:
            self._step(path, "metadata", then, None)
        elif implied:
            self._step(path, "replace-directory", then, None)
        elif then.kind == "directory" and there == stat.S_IFDIR:
            return  # it is there, and only hidden
        elif there:
            why = self.sides.left_out_now(path)
            self._leave(path, why.reason if why else "unknown", why.detail if why else "")
        else:
            self._step(path, "make-directory" if then.kind == "directory" else "recreate", then, None)

    def _take_away(self, path: str, now: FileState) -> None:
        """In the newer state only: made since, or there before and not saved."""
        if now.kind == "directory":
            return  # see _remove_directories
        if path in self.sides.mine:
            self._leave(path, "mine", "you made it")
        elif reason := self.sides.left_out_then(path):
            self._leave(path, reason)
        elif other := self.sides.renamed(path, now):
            self._leave(path, "renamed", f"`{other}` is gone")
        elif path in self.directories_then:
            self._step(path, "replace-by-directory", None, now)
        else:
            self._step(path, "remove", None, now)

    def _remove_directories(self) -> None:
        """Directories that are new since: removed if they end up empty, which is seen when it is tried."""
        for path in self.directories_now - self.directories_then - self.sides.then.keys():
            if path in self.holds_left or path in self.sides.mine or is_never_written(path):
                continue
            if path in self.sides.since:
                continue
            if self.sides.wanted(path) and not self.sides.left_out_then(path):
                self._step(path, "remove-directory", None, self.sides.now.get(path))

    def _resolve_conflicts(self) -> None:
        """A path can only come back if everything above it is, or becomes, a directory."""
        for path in sorted(self.steps):
            step = self.steps[path]
            if not step.places and step.action != "make-directory":
                continue
            blocker = self._blocker(path)
            if not blocker and step.action == "replace-directory" and path in self.holds_left:
                blocker = min(left for left in self.left if left.startswith(path + "/"))
            if blocker:
                self._leave(path, "in-the-way", blocker)

    def _blocker(self, path: str) -> str:
        for above in parents(path):
            if above in self.left and above not in self.directories_now:
                return above
            there = self.sides.on_disk(above)
            if there and there != stat.S_IFDIR:
                step = self.steps.get(above)
                if step is None or step.action != "replace-by-directory":
                    return above
        return ""

    def _spare_directories(self) -> None:
        """The time of a directory in which something stays is the time of what happened in it."""
        for left in self.left:
            above = left.rpartition("/")[0]
            step = self.steps.get(above)
            if step is not None and step.action == "metadata" and step.then and step.now:
                if visible_state(step.then) == visible_state(step.now):
                    del self.steps[above]
                else:
                    kept = dataclasses.replace(step.then, mtime_ns=step.now.mtime_ns)
                    self.steps[above] = dataclasses.replace(step, then=kept)
