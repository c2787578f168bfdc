"""What a rollback will do, decided before anything is touched.

Pure: made from two states of the project (as it was, as it is) and answers to a few questions. Rules:

- A file is replaced or removed only if the undo point holds it; what is on disk and in no state is
  not ours to touch, whatever the reason.
- "Not in the checkpoint" is no proof of "created since": it must not have been left out then either.
- The user's own later edits stay, unless he says otherwise.
- Nothing that git keeps for itself (`.git`) is ever written.
"""

from __future__ import annotations

import dataclasses
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from .checkpoint import REASONS, Checkpoint, FileState, Skipped

#: Why a path is left as it is, beside the reasons for which it was never saved.
LEFT = {
    **REASONS,
    "mine": "changed by you after the agent's last write",
    "unknown": "on disk, and not saved by any checkpoint",
    "unproven": "may have been there before; the checkpoint's list of what it left out is not whole",
    "then-left-out": "was there at the checkpoint and was not saved then",
    "in-the-way": "something that stays stands in its place",
    "case": "its name differs only in case from another, and this disk takes both for one",
    "held": "a database that a program has open",
    "changed": "changed while the rollback ran",
    "damaged": "its content is missing from the store, or damaged",
    "not-empty": "a directory that still holds something",
    "not-permitted": "belongs to somebody else",
    "mount": "another filesystem is mounted there",
}


#: What can be done to a path, in words.
ACTIONS = {
    "restore": "put back as it was",
    "recreate": "brought back; it was deleted since",
    "remove": "removed; it was made since",
    "metadata": "mode or time put back",
    "make-directory": "directory brought back",
    "remove-directory": "directory removed; it was made since",
    "replace-directory": "put back in place of a directory",
    "replace-by-directory": "removed in favour of the directory that was there",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One path that will be changed."""

    path: str
    action: str  # one of ACTIONS
    then: FileState | None
    now: FileState | None

    @property
    def places(self) -> bool:
        """Whether new content comes in under this name."""
        return self.action in ("restore", "recreate", "replace-directory")

    @property
    def takes(self) -> bool:
        """Whether content that is there now goes away."""
        return self.action in ("restore", "remove", "replace-by-directory")


@dataclass(frozen=True, slots=True)
class Left:
    """One path that differs and stays as it is, and why."""

    path: str
    reason: str  # a key of LEFT
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {LEFT[self.reason]}" + (f" ({self.detail})" if self.detail else "")


@dataclass(slots=True)
class RollbackPlan:
    """The whole of it. `undo` is the point that was taken just now, and holds the project as it is."""

    project: str
    target: Checkpoint
    undo: Checkpoint
    files: tuple[str, ...] = ()  # asked for by name; empty: everything
    steps: list[Step] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    not_covered: list[Skipped] = field(default_factory=list)  # in the project now, and in no checkpoint
    remarks: list[str] = field(default_factory=list)
    made_project: bool = False  # the project was gone, and its directory was made again
    then: Mapping[str, FileState] = field(default_factory=dict, repr=False)  # as it was
    now: Mapping[str, FileState] = field(default_factory=dict, repr=False)  # as the undo point holds it

    @property
    def kept(self) -> list[Left]:
        """What stays because the user changed it."""
        return [left for left in self.left if left.reason == "mine"]

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for step in self.steps:
            found[step.action] = found.get(step.action, 0) + 1
        return found

    def as_dict(self) -> dict[str, object]:
        return {
            "project": self.project,
            "target": self.target.as_dict(),
            "undo": self.undo.id,
            "files": list(self.files),
            "counts": self.counts(),
            "steps": [{"path": step.path, "action": step.action} for step in self.steps],
            "left": [{"path": one.path, "reason": one.reason, "detail": one.detail} for one in self.left],
            "not_covered": [
                {"path": one.path, "reason": one.reason, "detail": one.detail} for one in self.not_covered
            ],
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True)
class Sides:
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


def plan_steps(sides: Sides) -> tuple[list[Step], list[Left]]:
    """What to change and what to leave, each path once, in order of name."""
    return _Planner(sides).run()


def substance(state: FileState | None) -> tuple[str, int, str] | None:
    """What makes two states the same to a person: kind, mode, bytes; not the time."""
    if state is None:
        return None
    return state.kind, 0 if state.kind == "symlink" else file_mode(state), state.oid


def same(one: FileState | None, other: FileState | None) -> bool:
    """Whether nothing at all has to be done to make one into the other."""
    if one is None or other is None:
        return one is other
    return substance(one) == substance(other) and one.mtime_ns == other.mtime_ns


def file_mode(state: FileState) -> int:
    """The mode that is given back: never setuid; setgid and sticky for directories only."""
    return state.mode & (0o3777 if state.kind == "directory" else 0o777)


def directories_of(paths: Mapping[str, FileState]) -> set[str]:
    """Every directory that a state speaks of, or that a path in it implies."""
    found: set[str] = set()
    for path, state in paths.items():
        above = path if state.kind == "directory" else path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found


def parents(path: str) -> list[str]:
    """`a/b/c` -> `a`, `a/b`."""
    return [path[:at] for at, letter in enumerate(path) if letter == "/"]


def untouchable(path: str) -> bool:
    """Names that no rollback writes: git's own data, and what is no plain path below the project."""
    parts = path.split("/")
    return any(part in ("", ".", "..") or part.lower() == ".git" for part in parts) or "\0" in path


class _Planner:
    def __init__(self, sides: Sides) -> None:
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
            if untouchable(path):
                self._leave(path, "git")
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
        if substance(then) == substance(now):
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
        elif path in self.directories_then:
            self._step(path, "replace-by-directory", None, now)
        else:
            self._step(path, "remove", None, now)

    def _remove_directories(self) -> None:
        """Directories that are new since: removed if they end up empty, which is seen when it is tried."""
        for path in self.directories_now - self.directories_then - self.sides.then.keys():
            if path in self.holds_left or path in self.sides.mine or untouchable(path):
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
                if substance(step.then) == substance(step.now):
                    del self.steps[above]
                else:
                    kept = dataclasses.replace(step.then, mtime_ns=step.now.mtime_ns)
                    self.steps[above] = dataclasses.replace(step, then=kept)
