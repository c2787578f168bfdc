"""From plan to changes: every path proven against the undo point, every change listed in order."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import field

from safekept.core.events import Event, Listener
from safekept.core.files import temporary_name
from safekept.core.records import dataclass
from safekept.core.sqlite import SIDECARS, is_database

from ..checkpoint import FileState
from ..points.rollback_plan import OWN, Left, RollbackPlan, Step, file_mode, parents
from .placing import Change, FileStamp
from .project_tree import ProjectTree, alike_names
from .proving import Damaged, FileContents, PathProof, open_elsewhere, prove

_ORDER = {"take": 0, "rmdir": 1, "mkdir": 2, "swap": 3, "put": 4, "set": 5}


@dataclass(slots=True)
class Prepared:
    """What one rollback is about to do, in order."""

    changes: list[Change] = field(default_factory=list)
    outsides: list[Change] = field(default_factory=list)  # modes and times of directories, at the very end
    left: list[Left] = field(default_factory=list)
    content: dict[str, FileState] = field(default_factory=dict)  # by our own name: what is to be staged there

    def asides(self) -> list[str]:
        return [change.aside for change in self.changes if change.aside]

    def drop(self, path: str, reason: str, detail: str = "") -> None:
        self.changes = [change for change in self.changes if change.path != path]
        self.left.append(Left(path, reason, detail))


class Preparation:
    """Makes the list of changes. Reads the project and the store; writes nothing."""

    def __init__(
        self,
        ground: ProjectTree,
        contents: FileContents,
        plan: RollbackPlan,
        scratch: str,
    ) -> None:
        self.ground, self.contents, self.plan = ground, contents, plan
        self.then, self.now, self.scratch = plan.then, plan.now, scratch
        self.out = Prepared()
        self.going = {
            step.path for step in plan.steps if step.action in ("remove-directory", "replace-directory")
        }
        self._made: set[str] = set()

    def run(self, listener: Listener) -> Prepared:
        """Prove and list everything. Raises UndoPointFailed."""
        alike = alike_names(self.ground, self.plan.steps, self.then, self.now)
        total = len(self.plan.steps)
        for number, step in enumerate(self.plan.steps):
            listener(Event("prove", number, total, unit="files", path=step.path))
            if other := alike.get(step.path):
                self.out.left.append(Left(step.path, "case", other))
                continue
            self._add(step)
        self.out.changes.sort(key=_order)
        self._add_outsides()
        return self.out

    def _add(self, step: Step) -> None:
        proof = PathProof()
        if step.takes:
            assert step.now is not None
            proof = prove(self.ground, self.contents, step.path, step.now, self.scratch)
            if proof.reason:
                self.out.left.append(Left(step.path, proof.reason, proof.detail))
                return
        if step.places:
            assert step.then is not None
            if (stays := self._foreign_log(step, proof)) is not None:
                self.out.left.append(Left(step.path, "in-the-way", stays))
                return
        begun = len(self.out.changes)
        for sidecar, old in proof.sidecars:
            self._change("take", sidecar, aside=self._aside(sidecar), old=old)
        self._do(step, proof)
        if proof.database or proof.sidecars:
            for change in self.out.changes[begun:]:
                change.database = step.path if change.kind in ("take", "swap", "put") else ""

    def _do(self, step: Step, proof: PathProof) -> None:
        match step.action:
            case "remove":
                self._change("take", step.path, step, aside=self._aside(step.path), old=proof.old)
            case "replace-by-directory":
                self._change("take", step.path, step, aside=self._aside(step.path), old=proof.old)
                self._mkdir(step.path)
            case "restore":
                self._content("swap", step, proof.old)
            case "recreate":
                self._content("put", step, None)
            case "replace-directory":
                self._rmdir(step.path)
                self._content("put", step, None)
            case "remove-directory":
                self._rmdir(step.path, step)
            case "make-directory":
                self._mkdir(step.path, step)
            case "metadata":
                self._metadata(step)

    def _change(
        self, kind: str, path: str, step: Step | None = None, aside: str = "", old: FileStamp | None = None
    ) -> Change:
        change = Change(kind, path, aside=aside, old=old, action=step.action if step else "")
        self.out.changes.append(change)
        return change

    def _content(self, kind: str, step: Step, old: FileStamp | None) -> None:
        assert step.then is not None
        for above in parents(step.path):
            self._mkdir(above)
        change = self._change(kind, step.path, step, aside=self._aside(step.path), old=old)
        change.mode, change.mtime_ns = file_mode(step.then), step.then.mtime_ns
        change.owner = self._owner(step.path)
        self.out.content[change.aside] = step.then

    def _mkdir(self, path: str, step: Step | None = None) -> None:
        """Make a directory that is not there, and those above it."""
        facts = self.ground.look(path)
        there = facts is not None and stat.S_ISDIR(facts.st_mode) and path not in self.going
        if there or path in self._made:
            return
        for above in parents(path):
            self._mkdir(above)
        self._made.add(path)
        change = self._change("mkdir", path, step)
        state = self.then.get(path)
        change.mode = file_mode(state) if state is not None else 0o755
        change.owner = self._owner(path)

    def _rmdir(self, path: str, step: Step | None = None) -> None:
        facts = self.ground.look(path)
        if facts is not None:
            change = self._change("rmdir", path, step, old=FileStamp.of(facts))
            change.owner = self._owner(path)

    def _metadata(self, step: Step) -> None:
        assert step.then is not None
        path = "" if step.path == OWN else step.path
        facts = self.ground.look(path)
        if facts is None:
            self.out.left.append(Left(path, "changed", "it is gone"))
            return
        old = FileStamp.of(facts)
        change = Change("set", path, old=old, action=step.action)
        change.mode, change.mtime_ns = file_mode(step.then), step.then.mtime_ns
        if step.then.kind == "directory":
            self.out.outsides.append(change)
            return
        seen = step.now is not None and (
            step.then.kind == "symlink"
            or (facts.st_size, facts.st_mtime_ns) == (step.now.size, step.now.mtime_ns)
        )
        narrower = stat.S_IMODE(facts.st_mode) != change.mode
        if not seen:
            self.out.left.append(Left(step.path, "changed"))
        elif (
            narrower
            and self._is_database(step.then)
            and (held := open_elsewhere(self.ground.full(step.path)))
        ):
            self.out.left.append(Left(step.path, "held", held))
        else:
            self.out.changes.append(change)

    def _is_database(self, state: FileState) -> bool:
        if state.kind != "file" or state.size < 512:
            return False
        with contextlib.suppress(Damaged):
            return is_database(next(iter(self.contents.chunks(state)), b""))
        return False

    def _foreign_log(self, step: Step, proof: PathProof) -> str | None:
        """A log beside a database is part of it: an old one must not meet the restored file.

        Those of the database that is there now go with it. One that belongs to nothing goes if the
        undo point holds it; else the database stays away.
        """
        assert step.then is not None
        if not self._is_database(step.then):
            return None
        going = {sidecar for sidecar, _ in proof.sidecars}
        planned = {other.path for other in self.plan.steps if other.action == "remove"}
        for suffix in SIDECARS:
            path = step.path + suffix
            if path in going or path in planned or self.ground.look(path) is None:
                continue
            state = self.now.get(path)
            own = prove(self.ground, self.contents, path, state, self.scratch) if state is not None else None
            if own is None or own.reason or own.old is None:
                return path
            proof.sidecars.append((path, own.old))
        return None

    def _aside(self, path: str) -> str:
        """A name of ours in the deepest directory above a path that is there now and stays."""
        place = ""
        for above in parents(path):
            facts = self.ground.look(above)
            if facts is None or not stat.S_ISDIR(facts.st_mode) or above in self.going:
                break
            place = above
        return temporary_name(place) if place else temporary_name("")

    def _owner(self, path: str) -> tuple[int, int] | None:
        """As root: the owner of what is there, or the directory that it comes into."""
        if os.geteuid() != 0:
            return None
        for place in (path, *reversed(parents(path)), ""):
            facts = self.ground.look(place)
            if facts is not None:
                return facts.st_uid, facts.st_gid
        return None

    def _add_outsides(self) -> None:
        """Give the directories that are worked in the times they had, where that is still the truth."""
        listed = {change.path for change in self.out.outsides}
        spoiled = {left.path.rpartition("/")[0] for left in (*self.plan.left, *self.out.left)}
        busy: dict[str, bool] = {}  # whether names in it come or go
        for change in self.out.changes:
            if change.kind == "set":
                continue
            above = change.path.rpartition("/")[0]
            busy[above] = busy.get(above, False) or change.kind != "swap"
            if change.aside:
                busy.setdefault(change.aside.rpartition("/")[0], False)
        for path in (*busy, *(change.path for change in self.out.changes if change.kind == "mkdir")):
            if path in listed or path in self.going:
                continue
            listed.add(path)
            facts, state = self.ground.look(path), self.then.get(path) if path else self.plan.root
            change = Change("set", path, old=FileStamp.of(facts) if facts is not None else None)
            if state is not None and state.kind == "directory" and path not in spoiled:
                change.mtime_ns = state.mtime_ns
            elif facts is not None and not busy.get(path, False):
                change.mtime_ns = facts.st_mtime_ns
            if path in self._made or (not path and self.plan.made_project):
                change.mode = file_mode(state) if state is not None else 0o755
            self.out.outsides.append(change)
        self.out.outsides.sort(key=lambda change: -change.path.count("/") if change.path else 1)


def _order(change: Change) -> tuple[int, int, str]:
    depth = change.path.count("/")
    return _ORDER[change.kind], -depth if change.kind == "rmdir" else depth, change.path
