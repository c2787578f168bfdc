"""Going back to files of the agent's home that were kept before a change: in the timeline of the project."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.core.ages import seconds_text
from safekept.core.spelling import shown

from .answers import Answer
from .caller import Caller
from .fingerprints import of_home_rollback

if TYPE_CHECKING:
    from safekept.actions.projects.home_points.rollback import HomeRollback, HomeRollbackRequest


def roll_home_back(caller: Caller, place: str, point: str, files: Sequence[str], confirm: str) -> Answer:
    """The plan, or with the token of that plan the deed."""
    from safekept.actions.projects.home_points.rollback import HomeRollbackRequest, roll_back_home
    from safekept.actions.projects.home_points.timeline import home_points

    for one in home_points(caller.context, every=True):
        if one.id == point:
            caller.home(one.home, existing=False)  # whose it is, before anything of it is read

    spend = caller.spending(confirm)

    def request(dry_run: bool) -> HomeRollbackRequest:
        return HomeRollbackRequest(
            point,
            tuple(files),
            place,
            dry_run,
            deadline=caller.settings.number("database.deadline"),
            keep_days=caller.settings.number("import.keep_days"),
            agreed=lambda plan: spend(of_home_rollback(plan)),
        )

    plan = roll_back_home(caller.context, request(True), caller.listener)
    caller.home(plan.point.home, existing=False)
    answer = _plan(plan)
    unconfirmed = caller.planned(answer, confirm, of_home_rollback(plan), differs=plan.differs)
    if unconfirmed is not None:
        return unconfirmed
    return _done(roll_back_home(caller.context, request(False), caller.listener))


def _plan(plan: HomeRollback) -> Answer:
    answer = Answer(data={"plan": plan.as_dict()})
    age = seconds_text(max(0, time.time_ns() - plan.point.time_ns) / 1e9)
    answer.add(f"Plan: go back to home point {plan.point.short} ({age} ago) in {shown(plan.point.home)}")
    answer.items("Would be replaced", plan.replace)
    answer.items("Would come back", plan.create)
    answer.items("Would be removed", plan.remove)
    answer.items("Would stay as it is", [f"{path}: {reason}" for path, reason in plan.left])
    return answer


def _done(done: HomeRollback) -> Answer:
    answer = Answer(data={"changed": done.landed is not None, **done.as_dict()})
    answer.add(f"Went back to home point {done.point.short} in {shown(done.point.home)}.")
    answer.items("Restored", [*done.create, *done.replace])
    answer.items("Removed", done.remove)
    answer.items("Left as it is", [f"{path}: {reason}" for path, reason in done.left])
    answer.add(*(f"Note: {note}" for note in done.notes))
    answer.add("What was there before is kept: the tool `undo` takes this back.")
    return answer
