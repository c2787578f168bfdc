"""Who made a version of a file: an agent's turn, an update, a restore, or what safekept did not see.

A version was made between the last snapshot of the one before it and the first of its own. A home point is
taken right before an agent changes a file, so one that names the file and is followed by another content says
whose turn that was. What safekept did itself stands in the journal. What is left was done by hand or by a
program that is not connected; it is not guessed which.
"""

from __future__ import annotations

from collections.abc import Sequence

from safekept.vault.tags import PRE_MIGRATION, PRE_UPDATE

from ..base.context import UserContext
from ..base.operations.care import GuardFacts
from ..base.operations.homes import LandingFacts
from ..projects.file_history import FIRST, NOT_AN_AGENT
from ..projects.home_points.point import HomePoint
from ..projects.home_points.stored import point_of
from ..snapshots.history import History, Version
from ..undo.log import JournalUnreadable, LogRequest, read_log
from ..undo.operation import Operation

#: What safekept did to a home, as a person says it.
_DOINGS = {
    "restore": "a restore",
    "import": "an import",
    "rebuild": "a rebuild",
    "undo": "an undo",
    "rollback": "a rollback",
    "rollback-undo": "a rollback taken back",
    "guard": "an update",
}
_STORED = ("done", "incomplete")
#: Seconds after a home point for which a change is taken for that of the turn it was taken for.
_TURN = 900.0
NOT_KNOWN = "It is not known who made it: no agent is connected here"


def authors(context: UserContext, found: History) -> list[str]:
    """Of each version, newest first; of the oldest it is not known."""
    doings = _doings(context, found.place.home)
    watched = any(point_of(one.first.snapshot) or point_of(one.last.snapshot) for one in found.versions)
    who = [
        _author(newer, older, found.path, doings, watched)
        for newer, older in zip(found.versions, found.versions[1:], strict=False)
    ]
    return [*who, FIRST] if found.versions else []


def _author(newer: Version, older: Version, path: str, doings: Sequence[Operation], watched: bool) -> str:
    begin, end = older.last.snapshot.time_ns / 1e9, newer.first.snapshot.time_ns / 1e9
    written = newer.node.mtime_ns / 1e9
    for one in doings:
        if begin <= one.time <= end and _touches(one, path):
            work = one.work
            words = f": {work.command}" if isinstance(work, GuardFacts) and work.command else ""
            return f"Made by {_DOINGS[one.verb]}{words}"
    point = point_of(older.last.snapshot)
    if point is not None and any(path == name or path.startswith(name + "/") for name in point.paths):
        turn = _turn(point)
        return f"Made by {turn}" if written <= begin + _TURN else f"{NOT_AN_AGENT}; or by {turn}"
    if older.last.kind in (PRE_UPDATE, PRE_MIGRATION):
        return f"Made by {'an update' if older.last.kind == PRE_UPDATE else 'a migration'}"
    return NOT_AN_AGENT if watched else NOT_KNOWN


def _turn(point: HomePoint) -> str:
    host = (point.host or "agent").capitalize()
    session = f", session {point.session}" if point.session else ""
    return f"{host}{session}{': ' + point.reason if point.reason else ''}"


def _touches(one: Operation, path: str) -> bool:
    work = one.work
    only = work.only if isinstance(work, LandingFacts) else None
    return not only or any(path == name or path.startswith(f"{name}/") for name in only)


def _doings(context: UserContext, home: str) -> list[Operation]:
    try:
        found = read_log(context, LogRequest(most=None, home=home, counted=False)).operations
        return [one for one in found if one.verb in _DOINGS and one.outcome in _STORED]
    except JournalUnreadable:
        return []
