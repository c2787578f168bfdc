"""Go back to a home point: the named files of an agent's home become what they were, and no other.

Through the one landing: staged, proven, swapped in, and undoable. What was not there then goes, into what
the landing keeps and into a home point of its own. Databases stay as they are and are named. Never asks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field

from safekept.core.entries import Outcome
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.home.landing import Landed, LandingPlan, Removals, Targets, expire, land, plan_landing

from ...base.context import UserContext
from ...base.operations.homes import RestoreFacts
from ...base.record import record, recording
from ...hosts.connections import staying_connected
from ...undo.undo import Undone
from ..rollback_news import RollbackNews, leave_news
from .opened import OpenPoint, opened_point
from .point import HomePoint
from .take import before_home_change


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
    operation: str = ""  # its id, where that is known before; else one is made
    part_of: str = ""  # the operation that this is a part of
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
    facts: RestoreFacts = field(default_factory=RestoreFacts)  # what the journal says, where it was done
    planned: bool = False  # nothing was done: this is what would be
    notes: tuple[str, ...] = ()
    undoes: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.steps)

    @property
    def complete(self) -> bool:
        return not self.left

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Paths that were changed, or would be, and how: an action of a rollback."""
        kinds = (("recreate", self.create), ("restore", self.replace), ("remove", self.remove))
        return sorted((path, action) for action, paths in kinds for path in paths)

    @property
    def stays(self) -> tuple[tuple[str, str], ...]:
        """What differs and stays as it is, and why."""
        return self.left

    @property
    def undo_point(self) -> str:
        """What was there, as a point of its own; empty where there is none."""
        return self.facts.undo_point or ""

    @property
    def seconds(self) -> float:
        return self.landed.seconds if self.landed else 0.0

    @property
    def plan_document(self) -> dict[str, object]:
        return self.as_dict()

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation or None,
            "home_point": self.point.as_dict(),
            "home": self.point.home,
            "create": list(self.create),
            "replace": list(self.replace),
            "remove": list(self.remove),
            "left": [{"path": path, "reason": reason} for path, reason in self.left],
            "landed": self.facts.landed() if self.landed else None,
            "undo_point": self.undo_point or None,
            "notes": list(self.notes),
        }


def roll_back_home(
    context: UserContext, request: HomeRollbackRequest, listener: Listener = silent
) -> HomeRollback:
    """Plan and do it."""
    with opened_point(context, request.point, request.files, request.directory, listener) as found:
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
            planned=request.dry_run,
        )
        if request.dry_run or not (shape.changed or state.touched or state.remove_directories):
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
    point, operation = found.point, request.operation or new_id()
    work = RestoreFacts(
        home=point.home,
        layout=found.layout.name,
        snapshot=point.id,
        home_point=point.id,
        exact=True,
        only=tuple(found.state.part.wanted),
        session=request.session,
        directory=request.directory,
        part_of=request.part_of or None,
    )
    record(context, work.line(operation, "begun"), listener)
    with staying_connected(context, point.home) as notes, recording(context, operation, work, listener):
        work.undo_point = _undo_point(context, found, request, listener)
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
    work.add({**landed.as_dict(), "left": len(left)})
    record(context, work.line(operation, "incomplete" if lost else "done"), listener)
    expire(point.home, request.keep_days)
    news = RollbackNews(point.home, f"home point {point.short}", point.reason, tuple(found.state.part.wanted))
    leave_news(context, news, found.sessions)
    return HomeRollback(
        operation,
        point,
        shape.create,
        shape.replace,
        shape.remove,
        left,
        landed,
        work,
        notes=tuple(notes),
    )


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
        text = (
            f"Note: no home point was taken first ({error.clause}); what is replaced is kept beside the home"
        )
        listener(Event("undo-point", text=text))
        return ""


@dataclass(frozen=True, slots=True)
class HomeRollbackUndone:
    """A rollback of a home point that was taken back, or would be."""

    undone: Undone
    undoes: bool = True
    notes: tuple[str, ...] = ()

    @property
    def operation(self) -> str:
        return self.undone.operation

    @property
    def point(self) -> HomePoint:
        """The point that was gone back to, as far as the journal tells; its time is that of the rollback."""
        change = self.undone.change
        name = change.landed.home_point or ""
        return HomePoint(name, name, change.home, change.landed.only or (), int(change.time * 1e9))

    @property
    def planned(self) -> bool:
        return self.undone.landed is None

    @property
    def changed(self) -> bool:
        return bool(self.steps)

    @property
    def complete(self) -> bool:
        return self.undone.complete

    @property
    def steps(self) -> list[tuple[str, str]]:
        plan = self.undone.plan
        if plan is None:
            return []
        return sorted(
            [*((path, "restore") for path in plan.returns), *((path, "remove") for path in plan.goes)]
        )

    @property
    def stays(self) -> tuple[tuple[str, str], ...]:
        return ()

    @property
    def seconds(self) -> float:
        return self.undone.landed.seconds if self.undone.landed else 0.0

    @property
    def plan_document(self) -> dict[str, object]:
        return self.as_dict()

    def as_dict(self) -> dict[str, object]:
        return self.undone.as_dict()
