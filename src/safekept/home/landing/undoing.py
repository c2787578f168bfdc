"""Undo: a landing whose source is what another landing replaced.

It goes through the same frame, so it is recorded, can be killed at any instant, and can itself be
undone. What the other landing created is moved to this one's own `replaced/`, and so is anything
that was changed since: nothing is lost.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.sqlite import SIDECARS, is_database

from ..owner import worker_for
from .area import LandingDirectory
from .desired_state import DesiredState, Wanted
from .landing import Landed, Work
from .record import AWAY, IN_PLACE, MAKE, PUT, UNMAKE, LandingRecord, Step, read_record
from .recovery import PastLanding, landings, recover, trusted
from .swap.moving import duplicate
from .tree import LandingTree, StillTree


class NothingToUndo(SafekeptError):
    code = "nothing-to-undo"


class UndoNotPossible(SafekeptError):
    code = "undo-not-possible"


def undo(home: str, operation: str = "", *, deadline: float = 30.0, listener: Listener = silent) -> Landed:
    """Take the last landing that was not undone back, or the named one."""
    if (worker := worker_for(home)) is not None:
        return worker.undo(home, operation, deadline)
    recover(home)
    past = choose(home, operation)
    record = read_record(past.directory.record)
    if not trusted(record, home):
        raise not_possible(past.operation, "it was made for other places than this home")
    work = Work(home, new_id(), deadline, listener)

    def fill(directory: LandingDirectory) -> tuple[DesiredState, None]:
        choose(home, past.operation)  # again, now that nothing else can land
        work.clock("stage")
        return _Reverse(record, past.directory, directory).desired(), None

    return work.run(record.roots, fill, verb="undo", undoes=past.directory)


def choose(home: str, operation: str) -> PastLanding:
    """The last landing that was not undone, or the named one; raises where it cannot be taken back."""
    known = landings(home)
    if operation:
        named = [past for past in known if past.operation == operation]
        if not named:
            raise not_possible(operation, "it is not known here; it may have expired")
        past = named[0]
        if past.undone_by:
            raise not_possible(operation, f"it was taken back already, by {past.undone_by}")
    else:
        open_ones = [past for past in known if not past.undone_by]
        if not open_ones:
            raise NothingToUndo(
                f"There is no import or restore to take back in `{home}`",
                kept="Nothing was changed",
                next_steps=(NextStep("import", ("FILE",), before="Import a backup instead:"),),
            )
        past = open_ones[-1]
    if not past.replaced:
        raise not_possible(past.operation, "what it replaced is no longer kept")
    return past


def not_possible(operation: str, why: str) -> UndoNotPossible:
    """The refusal, with the reason."""
    return UndoNotPossible(
        f"{operation} cannot be taken back: {why}",
        kept="Nothing was changed",
        next_steps=(NextStep("import", ("FILE",), before="Restore from a backup instead:"),),
        operation=operation,
    )


class _Reverse:
    """Turns a record around: what it replaced is wanted, what it created is to go."""

    def __init__(self, record: LandingRecord, past: LandingDirectory, directory: LandingDirectory) -> None:
        self.record, self.past, self.directory = record, past, directory
        self._count = 0

    def desired(self) -> DesiredState:
        desired = DesiredState()
        returned: set[tuple[int, str]] = set()
        with contextlib.ExitStack() as stack:
            os.mkdir(os.path.join(self.directory.staged, "0"), 0o700)
            staged = stack.enter_context(LandingTree(self.directory.staged))
            kept = [self._tree(stack, root.label) for root in self.record.roots]
            for step in self.record.steps:
                if step.do in (PUT, AWAY, IN_PLACE):
                    if (step.root, step.path) not in returned and self._stage(
                        desired, step, kept[step.root], staged
                    ):
                        returned.add((step.root, step.path))
                elif step.do == MAKE:
                    desired.gone_directories.append((step.root, step.path))
                elif step.do == UNMAKE:
                    desired.directories[step.root, step.path] = (0o700, 0)
        for step in self.record.steps:
            if step.do == PUT and (step.root, step.path) not in returned:
                desired.aways.append((step.root, step.path, step.entry))
        for before in self.record.directories:
            desired.directories[before.root, before.path] = (before.mode, before.mtime_ns)
        return desired

    def _tree(self, stack: contextlib.ExitStack, label: str) -> LandingTree:
        place = os.path.join(self.past.replaced, label)
        os.makedirs(place, 0o700, exist_ok=True)
        return stack.enter_context(LandingTree(place))

    def _stage(self, desired: DesiredState, step: Step, kept: LandingTree, staged: LandingTree) -> bool:
        """A second name for what is kept; the first stays until the undo is committed."""
        facts = kept.look(step.path)
        if facts is None:
            return False
        self._count += 1
        name = f"0/{self._count}"
        duplicate(kept, step.path, staged, name)
        database = step.database and stat.S_ISREG(facts.st_mode) and _header(staged, name)
        for suffix in SIDECARS if database else ():
            if kept.look(step.path + suffix) is not None:
                duplicate(kept, step.path + suffix, staged, name + suffix)
        desired.puts.append(Wanted(step.root, step.path, step.entry, name, database))
        return True


def _header(tree: LandingTree, path: str) -> bool:
    descriptor = tree.open(path)
    try:
        return is_database(os.pread(descriptor, 16, 0))
    finally:
        os.close(descriptor)


# What taking a landing back would do, as a value that can be shown first. Looking changes nothing. What
# returns is what the landing replaced or removed and still keeps; what goes is what it created. What
# was changed after it is listed by name: an undo sets that aside with everything else it replaces.


@dataclass(slots=True)
class LandingUndo:
    """The plan. Lists hold paths as people know them, relative to the home, sorted."""

    operation: str  # what would be taken back
    home: str
    time: float  # when it landed
    undoes: str = ""  # where that was an undo itself: what it took back
    returns: list[str] = field(default_factory=list)
    goes: list[str] = field(default_factory=list)
    since: list[str] = field(default_factory=list)  # changed, made or removed after it

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            "home": self.home,
            "time": self.time,
            "undoes": self.undoes,
            "returns": self.returns,
            "goes": self.goes,
            "since": self.since,
        }


def plan_undo(home: str, operation: str = "") -> LandingUndo:
    """What `undo` would do. Raises NothingToUndo and UndoNotPossible as that does."""
    if (worker := worker_for(home)) is not None:
        return LandingUndo(**worker.do("plan_undo", home, operation))
    past = choose(home, operation)
    record = read_record(past.directory.record)
    if not trusted(record, home):
        raise not_possible(past.operation, "it was made for other places than this home")
    plan = LandingUndo(past.operation, home, past.time, past.undoes)
    # The record gets its last name when the landing is committed: what changed later was changed since.
    committed_ns = os.stat(past.directory.record).st_ctime_ns
    comes = {(step.root, step.path) for step in record.steps if step.do in (PUT, IN_PLACE, MAKE)}
    returns: set[str] = set()
    created: set[str] = set()
    since: set[str] = set()
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(StillTree(root.base)) for root in record.roots]
        for step in record.steps:
            if step.do not in (PUT, AWAY, IN_PLACE):
                continue
            kept = os.path.join(past.directory.replaced, record.roots[step.root].label, step.path)
            (returns if os.path.lexists(kept) else created).add(step.entry)
            # What was moved out of the way of something that came is judged by what came.
            if step.do == AWAY and (step.root, step.path) in comes:
                continue
            if _changed(targets[step.root], step, committed_ns):
                since.add(step.entry)
    plan.returns, plan.goes, plan.since = sorted(returns), sorted(created - returns), sorted(since)
    return plan


def _changed(target: LandingTree, step: Step, committed_ns: int) -> bool:
    """Whether a place is not as the landing left it, as far as size and time tell."""
    now = target.look(step.path)
    if step.do == AWAY:
        return now is not None
    if now is None or (now.st_size, now.st_mtime_ns) != (step.size, step.mtime_ns):
        return True
    logs = (target.look(step.path + suffix) for suffix in ("-wal", "-journal") if step.database)
    return any(log is not None and log.st_size and log.st_mtime_ns > committed_ns for log in logs)
