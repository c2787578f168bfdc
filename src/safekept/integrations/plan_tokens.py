"""Confirmations: a plan that was shown may be carried out once, soon, and only as it was shown.

A token is a seal over the plan's fingerprint with a secret that this process made for itself: one of
another process, of another plan, altered, used or too old is worth nothing. The fingerprint holds what
would be done and the state of what it would be done to, so a change in between makes it worthless too.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from safekept.core.sqlite.format import HEADER, SIDECARS, is_database

if TYPE_CHECKING:
    from safekept.actions.projects.points import PointRollback
    from safekept.actions.restoring.restore import PreparedRestore
    from safekept.actions.undo.undo import Undone
    from safekept.checkpoints.points import RollbackPlan


#: Seconds for which a plan may be confirmed.
LIFETIME = 600.0
#: Tokens that may be open at a time; the oldest go first.
_OPEN = 256

UNKNOWN = "it is none that this server gave out, or it was altered"
USED = "it was used already"
EXPIRED = "it is older than ten minutes"
OTHER = "it belongs to another plan, or what the plan is about changed since"


class Confirmations:
    """The tokens of one server process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._open: dict[str, tuple[str, float]] = {}  # nonce: fingerprint, time
        self._used: dict[str, None] = {}
        self._lock = threading.Lock()

    def give(self, fingerprint: str) -> str:
        """A token for exactly this plan."""
        nonce = secrets.token_urlsafe(9)
        with self._lock:
            self._open[nonce] = (fingerprint, self._clock())
            while len(self._open) > _OPEN:
                del self._open[next(iter(self._open))]
        return f"{nonce}.{self._seal(nonce, fingerprint)}"

    def refusal(self, token: str, fingerprint: str) -> str:
        """Why this token does not confirm this plan, in words; nothing where it does. Takes nothing away."""
        nonce, _, seal = token.strip().partition(".")
        with self._lock:
            held = self._open.get(nonce)
            used = nonce in self._used
        if held is None:
            return USED if used else UNKNOWN
        given, when = held
        if not hmac.compare_digest(seal.encode("utf-8", "replace"), self._seal(nonce, given).encode()):
            return UNKNOWN
        if self._clock() - when > LIFETIME:
            return EXPIRED
        return "" if hmac.compare_digest(given, fingerprint) else OTHER

    def spend(self, token: str, fingerprint: str) -> str:
        """The same, and a token that confirms the plan is used up by it."""
        refusal = self.refusal(token, fingerprint)
        if refusal:
            return refusal
        nonce = token.strip().partition(".")[0]
        with self._lock:
            if self._open.pop(nonce, None) is None:  # another request was faster with the same one
                return USED
            self._used[nonce] = None
            while len(self._used) > _OPEN:
                del self._used[next(iter(self._used))]
        return ""

    def _seal(self, nonce: str, fingerprint: str) -> str:
        made = hmac.new(self._secret, f"{nonce}\0{fingerprint}".encode(), hashlib.sha256)
        return made.hexdigest()[:32]


def fingerprint_of(facts: object) -> str:
    """One short name for facts made of lists, mappings, texts and numbers."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# What a plan amounts to, with the state of everything it would touch: the facts a token is bound to. A
# file counts by its size, its time and its inode. A live database counts by its inode alone: the agent
# that asks writes to it while it asks, and a landing brings it back through SQLite, keeping what was
# there.


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
    if undone.turn is not None:
        facts.append(of_rollback(undone.turn))
    if undone.session is not None:
        facts += [undone.session.session, undone.session.database, undone.session.returned]
    return fingerprint_of(facts)


def _rollback(plan: RollbackPlan) -> list[object]:
    from safekept.checkpoints.points import visible_state

    steps: list[object] = []
    for step in plan.steps:
        now = visible_state(step.now)
        when = step.now.mtime_ns if step.now is not None and step.now.kind != "directory" else 0
        steps.append([step.path, step.action, list(now) if now else None, when])
    left = [[one.path, one.reason] for one in plan.left]
    # What moves in the repository is as good as a file that changes.
    git = [[one.path, [[move.name, move.now, move.then] for move in one.moves]] for one in plan.repositories]
    return [plan.project, plan.target.id, list(plan.files), steps, left, git if plan.git else []]


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
