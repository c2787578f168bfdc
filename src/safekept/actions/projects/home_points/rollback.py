"""Go back to a home point: the named files of an agent's home become what they were, and no other.

Through the one landing: staged, proven, swapped in, and undoable. What was not there then goes, into what
the landing keeps and into a home point of its own. Databases stay as they are and are named. Never asks.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from safekept.core.entries import Outcome
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.journal import Record, new_id
from safekept.home.landing import Landed, LandingPlan, Removals, Targets, expire, land, plan_landing
from safekept.home.layout import Layout
from safekept.vault.read import HomeSource, snapshot_source
from safekept.vault.snapshots import list_snapshots
from safekept.vault.tags import layout_of

from ...base.context import UserContext
from ...base.own_places import refuse_unsafe_target, within
from ...base.record import record, recording_failure
from ...base.recovery import make_right
from ...snapshots.stored_home import reading
from ...vault.opening import open_vault
from ..rollback_news import RollbackNews, leave_news
from .point import HomePoint, no_such_point, pick_point, points_among
from .state import PointState, compare
from .take import before_home_change

_KEPT = "Nothing was changed"


class NotInHomePoint(SafekeptError):
    code = "not-in-home-point"


@dataclass(frozen=True, slots=True)
class HomeRollbackRequest:
    """Which point, and how much of it."""

    point: str  # its id, or the start of one
    files: tuple[str, ...] = ()  # none: all that it is about
    directory: str = ""  # where relative names are looked for, before the home
    dry_run: bool = False
    session: str = ""
    deadline: float = 30.0
    keep_days: float = 14.0
    #: Is shown the plan before anything is changed, and raises where it is not what was agreed to.
    agreed: Callable[[HomeRollback], None] | None = None


@dataclass(frozen=True, slots=True)
class HomeRollback:
    """What going back to a home point does, or did."""

    operation: str
    point: HomePoint
    create: tuple[str, ...]
    replace: tuple[str, ...]
    remove: tuple[str, ...]
    left: tuple[tuple[str, str], ...]  # what differs and stays, and why
    landed: Landed | None = None  # None: a dry run, or nothing had to be changed
    undo_point: str = ""
    dry_run: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def differs(self) -> bool:
        return bool(self.create or self.replace or self.remove)

    @property
    def complete(self) -> bool:
        return not self.left

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation or None,
            "home_point": self.point.as_dict(),
            "home": self.point.home,
            "create": list(self.create),
            "replace": list(self.replace),
            "remove": list(self.remove),
            "left": [{"path": path, "reason": reason} for path, reason in self.left],
            "landed": self.landed.as_dict() if self.landed else None,
            "undo_point": self.undo_point or None,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class OpenPoint:
    """A point that was found, open for reading."""

    point: HomePoint
    source: HomeSource
    layout: Layout
    state: PointState
    sessions: tuple[str, ...] = ()  # those that changed this home, as far as its points tell


@contextlib.contextmanager
def opened_point(
    context: UserContext, request: HomeRollbackRequest, listener: Listener = silent
) -> Iterator[OpenPoint]:
    """Find the point and compare it with the home. Changes nothing but what a killed landing left."""
    with open_vault(context, listener=listener) as repository, reading(repository, listener):
        points = points_among(repository, list_snapshots(repository)[0])
        found = pick_point(points, request.point)
        if found is None:
            raise no_such_point(f"there is no home point `{request.point}`; it was forgotten, or never taken")
        point, snapshot = found
        source, manifest = snapshot_source(repository, snapshot)
        name = layout_of(snapshot)
        layout = context.layout(name if name in context.choices.layouts else "generic")
        home = os.path.realpath("/" + source.roots[0].place)
        refuse_unsafe_target(context, home, into=False, exact=False)
        make_right(context, home, listener)
        wanted = tuple(_wanted(point, home, name, request.directory) for name in request.files)
        state = compare(point, source, layout, home, wanted, manifest)
        yield OpenPoint(point, source, layout, state, sessions_among(points, point.home))


def roll_back_home(
    context: UserContext, request: HomeRollbackRequest, listener: Listener = silent
) -> HomeRollback:
    """Plan and do it."""
    with opened_point(context, request, listener) as found:
        point, state, home = found.point, found.state, found.point.home
        plan = _plan(found, home)
        left = [*state.left, *((path, "bound to this machine") for path in plan.kept)]
        create = set(state.create) - set(plan.kept)
        replace = (set(state.change) | set(plan.replace)) - set(plan.kept) - create
        shape = HomeRollback(
            "",
            point,
            tuple(sorted(create)),
            tuple(sorted(replace)),
            tuple(state.remove),
            tuple(left),
            dry_run=request.dry_run,
        )
        if request.dry_run or not (shape.differs or state.touched or state.remove_directories):
            return shape
        if request.agreed is not None:
            request.agreed(shape)
        return _carry_out(context, request, found, plan, shape, listener)


def _plan(found: OpenPoint, home: str) -> LandingPlan:
    state = found.state
    plan = plan_landing(state.part, Targets(home=home), found.layout, only=state.part.only)
    plan.removals = Removals(list(state.remove), sorted(state.remove_directories, reverse=True))
    plan.remove = sorted(state.remove)
    # A link that goes is not in the way; any other is, and the landing says so.
    going = {os.path.join(home, path) for path in state.remove}
    plan.links = [link for link in plan.links if link not in going]
    return plan


def _carry_out(
    context: UserContext,
    request: HomeRollbackRequest,
    found: OpenPoint,
    plan: LandingPlan,
    shape: HomeRollback,
    listener: Listener,
) -> HomeRollback:
    point, operation = found.point, new_id()
    facts: dict[str, object] = {
        "home": point.home,
        "layout": found.layout.name,
        "snapshot": point.id,
        "home_point": point.id,
        "exact": True,
        "only": list(found.state.part.wanted),
        "session": request.session,
        "directory": request.directory,
    }
    record(context, Record(operation, "restore", "begun", facts=facts), listener)
    with recording_failure(context, operation, "restore", facts, listener):
        undo_point = _undo_point(context, found, request, listener)
        facts["undo_point"] = undo_point
        landed = land(
            found.state.part,
            plan,
            operation=operation,
            deadline=request.deadline,
            leave_lost=True,
            listener=listener,
        )
    lost = [(one.path, one.reason) for one in landed.remarks if one.outcome is Outcome.UNREADABLE]
    left = (*shape.left, *lost)
    outcome = {**facts, **landed.as_dict(), "left": len(left)}
    state = "incomplete" if lost else "done"
    record(context, Record(operation, "restore", state, facts=outcome), listener)
    expire(point.home, request.keep_days)
    news = RollbackNews(point.home, f"home point {point.short}", point.reason, tuple(found.state.part.wanted))
    leave_news(context, news, found.sessions)
    return HomeRollback(operation, point, shape.create, shape.replace, shape.remove, left, landed, undo_point)


def _undo_point(
    context: UserContext, found: OpenPoint, request: HomeRollbackRequest, listener: Listener
) -> str:
    """What is about to go, as a point of its own. The landing keeps it too, so this may fail."""
    try:
        return before_home_change(
            context,
            found.point.home,
            found.layout,
            found.state.part.wanted,
            reason=f"before going back to {found.point.short}",
            session=request.session,
            undo=True,
            listener=listener,
        ).id
    except SafekeptError as error:
        text = f"Note: no home point was taken first ({error.what}); what is replaced is kept beside the home"
        listener(Event("undo-point", text=text))
        return ""


def _wanted(point: HomePoint, home: str, name: str, directory: str) -> str:
    """What a typed name is called in the home: as it stands, below where the person is, or below the home."""
    candidates = []
    for base in (directory, home) if not os.path.isabs(name) else ("",):
        full = os.path.normpath(os.path.join(base, name)) if base else os.path.normpath(name)
        full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
        if within(full, home) and full != home:
            candidates.append(os.path.relpath(full, home))
    for path in candidates:
        if any(within(path, one) for one in point.paths):
            return path
    held = ", ".join(f"`{path}`" for path in point.paths[:5]) + (" …" if len(point.paths) > 5 else "")
    raise NotInHomePoint(
        f"`{name}` is not among what home point {point.short} is about: {held}",
        kept=_KEPT,
        next_steps=(f"See what it would change: `safekept rollback {point.short} --diff`",),
        path=name,
        paths=list(point.paths),
    )


def sessions_among(points: Iterable[tuple[HomePoint, object]], home: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(point.session for point, _ in points if point.home == home))


def last_home_rollback(context: UserContext, directory: str) -> str:
    """The operation that `rollback --undo` means here, if that was a rollback of a home point.

    It counts where it was asked for, and in the home itself; in a project only if it is newer than the
    last rollback of the project.
    """
    from ...undo.changes import LANDING, ROLLBACK, changes

    place = os.path.realpath(directory)
    known = [one for one in changes(context) if one.open]
    homes = [
        one
        for one in known
        if one.kind == LANDING
        and one.facts.get("home_point")
        and (within(place, one.home) or os.path.realpath(str(one.facts.get("directory"))) == place)
    ]
    own = [one for one in known if one.kind == ROLLBACK and within(place, one.project)]
    last = max(homes, key=lambda one: one.time, default=None)
    if last is None or any(one.time > last.time for one in own):
        return ""
    return last.operation
