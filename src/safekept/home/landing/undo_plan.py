"""What taking a landing back would do, as a value that can be shown first. Looking changes nothing.

What returns is what the landing replaced or removed and still keeps; what goes is what it created. What
somebody changed after it is listed by name: an undo sets that aside with everything else it replaces.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field

from .record import AWAY, MAKE, POUR, PUT, Step, read_record
from .recovery import trusted
from .tree import StillTree, Tree
from .undoing import choose, not_possible


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
    past = choose(home, operation)
    record = read_record(past.directory.record)
    if not trusted(record, home):
        raise not_possible(past.operation, "it was made for other places than this home")
    plan = LandingUndo(past.operation, home, past.time, past.undoes)
    # The record gets its last name when the landing is committed: what changed later was changed since.
    committed_ns = os.stat(past.directory.record).st_ctime_ns
    comes = {(step.root, step.path) for step in record.steps if step.do in (PUT, POUR, MAKE)}
    returns: set[str] = set()
    created: set[str] = set()
    since: set[str] = set()
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(StillTree(root.base)) for root in record.roots]
        for step in record.steps:
            if step.do not in (PUT, AWAY, POUR):
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


def _changed(target: Tree, step: Step, committed_ns: int) -> bool:
    """Whether a place is not as the landing left it, as far as size and time tell."""
    now = target.look(step.path)
    if step.do == AWAY:
        return now is not None
    if now is None or (now.st_size, now.st_mtime_ns) != (step.size, step.mtime_ns):
        return True
    logs = (target.look(step.path + suffix) for suffix in ("-wal", "-journal") if step.database)
    return any(log is not None and log.st_size and log.st_mtime_ns > committed_ns for log in logs)
