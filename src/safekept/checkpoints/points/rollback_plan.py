"""What a rollback will do, path by path, and in words; decided in `deciding`, carried out in `rollback`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from safekept.core.files import durable_write, private_directory, write_all
from safekept.core.platform.syncing import sync_file
from safekept.core.records import dataclass

from ..checkpoint import LOOKED_AT, REASONS, Checkpoint, FileState, Skipped

if TYPE_CHECKING:
    from ..scan.hidden_look import HiddenLook
    from ..store.repositories.moves import RepositoryPlan

# The record of a project's rollbacks: what lets a killed one be finished or taken back.
# `projects/<id>/rollback.jsonl`, one object per line: `begun` (names of ours that may be lying about),
# `committed` (everything is staged and every change is listed: from here a killed rollback is finished),
# `repository` (when the files are back, the project's git repositories are to follow: these items),
# `taking-back` (it failed and is being undone: from here a killed one is undone), and `done` or `taken-
# back`. When one is over, its lists are dropped and one line of it stays.

NAME = "rollback.jsonl"
VERSION = 1
_OVER = ("done", "taken-back")
REPOSITORY = "repository"
_LINES_KEPT = 100


class RollbackJournal:
    """Appends durably and reads back."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, NAME)

    def write(self, state: str, operation: str, **facts: Any) -> None:
        """Add one line; durable when this returns."""
        private_directory(os.path.dirname(self.path))
        line = json.dumps({"version": VERSION, "state": state, "operation": operation, **facts}).encode()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            write_all(descriptor, (b"\n" if torn else b"") + line + b"\n")
            sync_file(descriptor)
        finally:
            os.close(descriptor)

    def close(self, state: str, operation: str, **facts: Any) -> None:
        """The rollback is over: its end is written, and what only recovery needs is dropped."""
        self.write(state, operation, **facts)
        every = list(self.read())
        over = {line["operation"] for line in every if line["state"] in _OVER}
        waiting = [line for line in every if line["state"] == REPOSITORY and line["operation"] not in over]
        lines = [line for line in every if line["state"] in _OVER][-_LINES_KEPT:] + waiting
        with contextlib.suppress(OSError):  # longer than it need be, and right
            durable_write(self.path, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def read(self) -> Iterable[dict[str, Any]]:
        """Every readable line, oldest first; a torn one is passed over."""
        try:
            with open(self.path, "rb") as file:
                lines = file.readlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                fields = json.loads(line)
            except ValueError:
                continue
            if isinstance(fields, dict) and "state" in fields and "operation" in fields:
                yield fields

    def pending(self) -> list[dict[str, Any]]:
        """The lines of a rollback that never came to an end; empty where there is none."""
        lines = list(self.read())
        over = {line["operation"] for line in lines if line["state"] in _OVER}
        return [line for line in lines if line["operation"] not in over]

    def finished(self) -> list[dict[str, Any]]:
        """Rollbacks that changed something, oldest first: to take another back would do nothing."""
        return [
            line
            for line in self.read()
            if line["state"] == "done" and (line.get("done") != 0 or line.get("git"))
        ]


#: Why a path is left as it is, beside the reasons for which it was never saved.
LEFT = {
    **REASONS,
    "mine": "changed by you after the agent's last write",
    "since": "changed after the rollback that is undone",
    "later": "changed again by a later turn",
    "renamed": "may be the only copy of a file that was renamed, so it is not deleted",
    "unknown": "on disk, and not saved by any checkpoint",
    "unproven": "may have been there before; the checkpoint's list of what it left out is not whole",
    "then-left-out": "was there at the checkpoint and was not saved then",
    "in-the-way": "something that stays stands in its place",
    "case": "its name differs only in case from another, and this disk takes both for one",
    "no-symlinks": "a symbolic link, and this disk has none",
    "no-such-name": "this disk cannot hold such a name",
    "held": "a database that a program has open",
    "changed": "changed while the rollback ran",
    "damaged": "its content is missing from the store, or damaged",
    "not-empty": "a directory that still holds something",
    "not-permitted": "belongs to another user",
    "mount": "another filesystem is mounted there",
    "not-set": "its mode or time could not be put back",
    "hidden-shut": "kept encrypted, and that could not be read or brought back",
    "not-kept": "is there and is not kept, so it stays as it is",
    "with-git": "a git repository's own data, which comes back with --git",
}

#: Why the visible half leaves something to the hidden one.
HIDDEN_REASONS = ("ignored", "secret", "excluded", "oversize", "changing")
#: How a plan names them all, where none can be named.
HIDDEN_FILES = "(ignored files, secrets and large files)"
#: How a plan names the project's own directory.
OWN = "."
#: What was left although it should have come back, or gone.
_INCOMPLETE = (
    *("damaged", "changed", "held", "case", "in-the-way", "mount", "not-permitted", "unreadable", "not-set"),
    *("hidden-shut", "no-symlinks", "no-such-name", "later"),
)
#: What stays because it is later work, or is written by git alone.
_THEIRS = ("mine", "since", "git")


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


#: Those after which what stood under a name is gone.
REMOVING = ("remove", "remove-directory", "replace-by-directory")


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

    @property
    def why(self) -> str:
        """The reason in words."""
        return LEFT[self.reason] + (f" ({self.detail})" if self.detail else "")

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


@dataclass(slots=True)
class RollbackPlan:
    """The whole of it. `undo` is the point that was taken just now, and holds the project as it is.

    Of a plan that is only shown, no such point was kept.
    """

    project: str
    target: Checkpoint
    undo: Checkpoint
    files: tuple[str, ...] = ()  # asked for by name; empty: everything
    steps: list[Step] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    not_covered: list[Skipped] = field(default_factory=list)  # in the project now, and in no checkpoint
    gone: list[Skipped] = field(default_factory=list)  # not covered then, and not there any more
    remarks: list[str] = field(default_factory=list)
    git: bool = False  # the project's git repositories go back, too
    repositories: list[RepositoryPlan] = field(default_factory=list)  # what moved there, asked for or not
    made_project: bool = False  # the project was gone, and its directory was made again
    made: tuple[str, ...] = ()  # that directory, and those above it that were gone with it, outermost first
    hidden: HiddenLook | None = None  # what the undo point found hidden; None: it was not looked at
    deferred: Collection[str] = ()  # whose change it is only the hidden half knows: it decides these
    undone: str | None = None  # the id that the rollback went back to which this one undoes
    #: Only what was changed up to this point goes back, as far as it still is as it was there: one turn.
    until: Checkpoint | None = None
    later_turns: bool = False  # others were at work after that point
    root: FileState | None = None  # the project's own directory as it was; None where that is not known
    root_now: FileState | None = None
    then: Mapping[str, FileState] = field(default_factory=dict, repr=False)  # as it was
    now: Mapping[str, FileState] = field(default_factory=dict, repr=False)  # as the undo point holds it

    @property
    def kept(self) -> list[Left]:
        """What stays because it was changed since: by the user, or after a rollback that is undone."""
        return [left for left in self.left if left.reason in ("mine", "since")]

    def incomplete(self, left: Iterable[Left]) -> bool:
        """Whether something is left that should have come back: what the target holds, or a failure."""
        return any(
            one.reason in _INCOMPLETE or (one.path in self.then and one.reason not in _THEIRS) for one in left
        )

    def settle_hidden(self) -> None:
        """Nothing hidden changed: what the visible half leaves to the other is covered, and as it was."""
        self.not_covered = [one for one in self.not_covered if one.reason not in HIDDEN_REASONS]
        self.gone = [one for one in self.gone if one.reason not in HIDDEN_REASONS]

    def settle_repositories(self) -> None:
        """A repository that is gone and was kept is not lost: `--git` brings it."""
        kept = {one.git_directory for one in self.repositories if one.gone and one.words}
        gone = [one for one in self.gone if one.path not in kept or not self.git]
        self.gone = [replace(one, reason="with-git") if one.path in kept else one for one in gone]

    @property
    def lost(self) -> list[Skipped]:
        """What is gone, and in no checkpoint."""
        return [one for one in self.gone if one.reason != "with-git"]

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for step in self.steps:
            found[step.action] = found.get(step.action, 0) + 1
        return found

    def as_dict(self) -> dict[str, object]:
        return {
            "project": self.project,
            "target": self.target.as_dict(),
            "undo": None if self.undo.reason == LOOKED_AT else self.undo.id,
            "files": list(self.files),
            "counts": self.counts(),
            "steps": [{"path": step.path, "action": step.action} for step in self.steps],
            "left": [{"path": one.path, "reason": one.reason, "detail": one.detail} for one in self.left],
            "not_covered": [
                {"path": one.path, "reason": one.reason, "detail": one.detail} for one in self.not_covered
            ],
            "gone": [{"path": one.path, "reason": one.reason, "detail": one.detail} for one in self.gone],
            "git": self.git,
            "repositories": [one.as_dict() for one in self.repositories],
            "remarks": list(self.remarks),
            **({"until": self.until.id} if self.until is not None else {}),
        }


def visible_state(state: FileState | None) -> tuple[str, int, str] | None:
    """What makes two states the same to a person: kind, mode, bytes; not the time."""
    if state is None:
        return None
    return state.kind, 0 if state.kind == "symlink" else file_mode(state), state.oid


def same(one: FileState | None, other: FileState | None) -> bool:
    """Whether nothing at all has to be done to make one into the other."""
    if one is None or other is None:
        return one is other
    return visible_state(one) == visible_state(other) and one.mtime_ns == other.mtime_ns


def file_mode(state: FileState) -> int:
    """The mode that is given back: never setuid; setgid and sticky for directories only."""
    return state.mode & (0o3777 if state.kind == "directory" else 0o777)


def parents(path: str) -> list[str]:
    """`a/b/c` -> `a`, `a/b`."""
    return [path[:at] for at, letter in enumerate(path) if letter == "/"]
