"""What a plan amounts to, with the state of everything it would touch: the facts a token is bound to.

A file counts by its size, its time and its inode. A live database counts by its inode alone: the agent
that asks writes to it while it asks, and a landing brings it back through SQLite, keeping what was there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from safekept.core.sqlite.format import HEADER, SIDECARS, is_database

from .tokens import fingerprint_of

if TYPE_CHECKING:
    from safekept.actions.projects.points import PointRollback
    from safekept.actions.restoring.restore import PreparedRestore
    from safekept.actions.undo.undo import Undone
    from safekept.checkpoints.points import RollbackPlan


def of_rollback(outcome: PointRollback) -> str:
    """Of going back to a point."""
    from safekept.actions.projects.rollback import RollbackOutcome

    if isinstance(outcome, RollbackOutcome):
        return fingerprint_of(["rollback", *_rollback(outcome.plan)])
    home, steps, left = outcome.point.place, list(outcome.steps), list(outcome.stays)
    state = {path: _state(os.path.join(home, path)) for path, _ in steps}
    return fingerprint_of(["home-point", outcome.point.id, *map(list, steps), *map(list, left), state])


def of_restore(prepared: PreparedRestore) -> str:
    """Of bringing paths of a home back."""
    plan = prepared.plan
    places = {}
    for path in plan.replace:
        item = plan.items[path]
        places[path] = os.path.join(plan.roots[item.root].base, item.place)
    places |= {path: os.path.join(plan.home, path) for path in plan.remove}
    facts = {
        "snapshot": prepared.chosen.id,
        "home": plan.home,
        "exact": plan.exact,
        "only": list(plan.only),
        "create": plan.create,
        "replace": plan.replace,
        "remove": plan.remove,
        "outside": plan.outside,
        "obstacles": [*plan.links, *plan.mounts],
        "state": {path: _state(place) for path, place in places.items()},
    }
    return fingerprint_of(["restore", facts])


def of_undo(undone: Undone) -> str:
    """Of taking an operation back."""
    facts: list[object] = ["undo", undone.change.operation, undone.change.kind]
    if undone.plan is not None:
        plan = undone.plan
        paths = sorted({*plan.returns, *plan.goes, *plan.since})
        state = {path: _state(os.path.join(plan.home, path)) for path in paths}
        facts += [plan.operation, plan.home, plan.returns, plan.goes, plan.since, state]
    if undone.rollback is not None:
        facts += _rollback(undone.rollback.plan)
    if undone.session is not None:
        facts += [undone.session.session, undone.session.database, undone.session.returned]
    return fingerprint_of(facts)


def _rollback(plan: RollbackPlan) -> list[object]:
    from safekept.checkpoints.points import substance

    steps: list[object] = []
    for step in plan.steps:
        now = substance(step.now)
        when = step.now.mtime_ns if step.now is not None and step.now.kind != "directory" else 0
        steps.append([step.path, step.action, list(now) if now else None, when])
    left = [[one.path, one.reason] for one in plan.left]
    return [plan.project, plan.target.id, list(plan.files), steps, left]


def _state(path: str) -> list[object]:
    try:
        facts = os.lstat(path)
    except OSError:
        return []
    if path.endswith(SIDECARS) or _is_database(path):
        return ["database", facts.st_dev, facts.st_ino]
    return [facts.st_dev, facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]


def _is_database(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return is_database(os.read(descriptor, len(HEADER)))
    except OSError:
        return False
    finally:
        os.close(descriptor)
