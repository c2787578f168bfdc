"""The tools for points: what can be gone back to, what changed since, a point by hand, and going back."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.actions.projects.turns.turn import turn_of
from safekept.core.ages import seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.spelling import shown

from ..plan_tokens import of_rollback
from .answers import ToolAnswer, clipped
from .caller import Caller

if TYPE_CHECKING:
    from safekept.actions.projects.points import PointRollback, Points, Target
    from safekept.actions.projects.timeline import PointRow
    from safekept.checkpoints.points import Changes


#: Means the turn that changed something here last.
NEWEST = "newest"


class WholeTurnOnly(SafekeptError):
    code = "whole-turn-only"


def points_at(caller: Caller, directory: str) -> Points:
    """The points that can be gone back to from a directory within the roots."""
    from safekept.actions.projects.points import Points

    return Points(
        caller.context,
        caller.roots.directory(directory),
        settings=caller.policy.take,
        deadline=caller.settings.number("database.deadline"),
        keep_days=caller.settings.number("import.keep_days"),
        listener=caller.listener,
    )


def meant(caller: Caller, points: Points, word: str) -> Target:
    """What a word means, in a project within the roots or in a home of this user; nothing else is read."""
    from safekept.actions.projects.points import HOME

    target = points.resolve(word)
    if target.kind == HOME:
        caller.home(target.place, existing=False)
    else:
        caller.roots.need(target.place, "the project")
    return target


def one_turn(caller: Caller, points: Points, word: str) -> Target:
    """A turn, where all that it changed is within the roots or in homes of this user."""
    if project := points.project:
        caller.roots.need(project, "the project")
    target = points.turn("" if word == NEWEST else word)
    for place in target.turn.places if target.turn is not None else ():
        if not caller.is_own(place):
            caller.roots.need(place, "the turn changed something in")
    return target


def list_checkpoints(caller: Caller, directory: str, limit: int, every: bool) -> ToolAnswer:
    """What can be gone back to, newest first."""
    with points_at(caller, directory) as points:
        if project := points.project:
            caller.roots.need(project, "the project")
        found = points.list(every=every)
    own = [row for row in found.rows if row.point.kind != "home" or caller.is_own(row.point.place)]
    rows, at_home = own[: max(1, limit)], [one for one in found.home_points if caller.is_own(one.home)]
    near = [one for one in found.near.all if caller.roots.holds(one)]
    answer = ToolAnswer(
        data={
            **found.as_dict(),
            "checkpoints": [row.as_dict() for row in rows if row.point.kind != "home"],
            "home_points": [
                *(row.as_dict() for row in rows if row.point.kind == "home"),
                *(one.as_dict() for one in at_home),
            ],
            "more": len(own) - len(rows),
            "near": near,
        }
    )
    for private in ("below", "above"):  # those within the roots are in `near`
        del answer.data[private]
    place = found.project or (found.home if own else None)
    if place is None:
        answer.add(f"There are no checkpoints of {shown(found.directory)}.")
        answer.items("Projects nearby that have some", near)
    else:
        kind = "Checkpoints" if found.project else "Home points"
        answer.add(f"{kind} of {shown(place)}, newest first:" if rows else "There is no checkpoint.")
        answer.add(*map(_row, rows))
        if len(rows) < len(own):
            answer.add(f"  … and {len(own) - len(rows):,} older ones")
        answer.add("The number counts from the newest and shifts with every change; the id stays.")
    for one in at_home:
        names = ", ".join(map(shown, one.paths[:3])) or "everything"
        answer.add(
            f"  {one.short}  {_age(one.time_ns)} ago  in the agent's home: {names}  {shown(one.reason)[:80]}"
        )
    return answer


def _row(row: PointRow) -> str:
    point = row.point
    number = f"#{row.number}" if row.number else "-"
    what = f"  {_amount(row.changes)} changed after it" if row.changes is not None else ""
    reason = shown(point.reason.split("\n")[0])[:80]
    damaged = "  DAMAGED" if row.damaged else ""
    turn = f"  turn {one}" if (one := turn_of(point)) else ""
    return (
        f"  {number:<4} {point.short}  {_age(point.time_ns)} ago  {point.kind}  {reason}{what}{damaged}{turn}"
    )


def _amount(changes: Changes) -> str:
    if changes.hidden and not changes.files:
        return "hidden files"
    return f"{changes.files:,} files" + (" and hidden files" if changes.hidden else "")


def _age(time_ns: int) -> str:
    return seconds_text(max(0, time.time_ns() - time_ns) / 1e9)


def difference(
    caller: Caller, directory: str, checkpoint: str, files: Sequence[str], lines: int
) -> ToolAnswer:
    """What changed since a point, as text."""
    with points_at(caller, directory) as points:
        found = points.diff(meant(caller, points, checkpoint), tuple(files))
    whole, limit = list(found.lines), max(1, lines)
    cut = clipped(whole, limit)
    document = {**found.as_dict(), "diff": "\n".join(cut), "lines_left_out": len(whole) - len(cut)}
    answer = ToolAnswer(data=document)
    since = f"since {found.point.title} of {shown(found.point.place)}"
    if not found.files:
        answer.add(f"Nothing changed {since}.")
        return answer
    answer.items(f"Changed {since}", found.files)
    answer.add("", *cut)
    if len(cut) < len(whole):
        answer.add(f"… {len(whole) - len(cut):,} more lines: ask for single files, or for more lines")
    return answer


def take_checkpoint(caller: Caller, directory: str, reason: str, files: Sequence[str]) -> ToolAnswer:
    """Keep a project as it is now."""
    from safekept.actions.projects import checkpoint

    place = caller.roots.directory(directory)
    project = checkpoint.project_around(caller.context, place, named=bool(files))
    caller.roots.need(project, "the project")
    for name in files:
        caller.roots.directory(_joined(place, name))
    done = checkpoint.take_checkpoint(
        caller.context,
        place,
        caller.policy,
        reason=reason or "asked for over MCP",
        files=tuple(files),
        listener=caller.listener,
    )
    taken = done.taken
    point = taken.checkpoint or taken.latest
    answer = ToolAnswer(
        data={
            "operation": done.operation,
            "project": done.project,
            "checkpoint": point.as_dict() if point else None,
            "skipped": [{"path": one.path, "reason": one.reason} for one in taken.skipped],
            "remarks": list(taken.remarks),
        }
    )
    named = f"Checkpoint {point.id}" if point else "Nothing was there to keep"
    answer.add(f"{named}: {shown(done.project)} as it is now." if point else f"{named}.")
    answer.items("Not in it", [f"{one.path}: {one.reason}" for one in taken.skipped if one.reason != "git"])
    answer.add(*(f"Note: {remark}" for remark in taken.remarks))
    return answer


def roll_back(
    caller: Caller,
    directory: str,
    checkpoint: str,
    files: Sequence[str],
    overwrite_mine: bool,
    confirm: str,
    git: bool = False,
    turn: str = "",
) -> ToolAnswer:
    """Go back to a point, or take a whole turn back: the plan, or with the token of that plan the deed."""
    spend = caller.spending(confirm)
    with points_at(caller, directory) as points:
        if turn and files:
            raise WholeTurnOnly(
                "A turn goes back as a whole, not with single files",
                kept="Nothing was changed",
                next_steps=("Ask for one of the two at a time",),
            )
        target = one_turn(caller, points, turn) if turn else meant(caller, points, checkpoint)
        plan = points.plan(target, files, overwrite_mine=overwrite_mine, git=git)
        answer = rollback_plan(plan)
        unconfirmed = caller.planned(answer, confirm, of_rollback(plan), differs=plan.changed)
        if unconfirmed is not None:
            return unconfirmed
        done = points.apply(
            target,
            files,
            overwrite_mine=overwrite_mine,
            git=git,
            agreed=lambda plan: spend(of_rollback(plan)),
        )
    return rolled_back(done)


def rollback_plan(plan: PointRollback) -> ToolAnswer:
    """A plan in words and data."""
    from safekept.actions.projects.rollback import RollbackOutcome
    from safekept.checkpoints.points import ACTIONS

    answer = ToolAnswer(data={"plan": plan.plan_document})
    point = plan.point
    what = f"go back to {point.title}" if point.kind != "turn" else f"take {point.title} back"
    answer.add(f"Plan: {what} ({_age(point.time_ns)} ago) in {shown(point.place)}")
    answer.items("Would change", [f"{path}: {ACTIONS[action]}" for path, action in plan.steps])
    answer.items("Would stay as it is", [f"{path}: {why}" for path, why in plan.stays])
    if isinstance(plan, RollbackOutcome):
        answer.items("No checkpoint can bring back", [one.path for one in plan.plan.lost])
        moved = [one.words for one in plan.plan.repositories if one.words]
        answer.items("Would put back in git" if plan.plan.git else "Stays in git without git=true", moved)
    answer.add(*(f"Note: {note}" for note in plan.notes))
    return answer


def rolled_back(done: PointRollback) -> ToolAnswer:
    """What was done, in words and data."""
    from safekept.actions.projects.rollback import RollbackOutcome
    from safekept.checkpoints.points import REMOVING

    answer = ToolAnswer(data={"changed": done.changed, **done.as_dict()})
    title, where = done.point.title, shown(done.point.place)
    answer.add(
        f"Took {title} back in {where}." if done.point.kind == "turn" else f"Went back to {title} in {where}."
    )
    removed = [path for path, action in done.steps if action in REMOVING]
    answer.items("Restored", [path for path, action in done.steps if action not in REMOVING])
    answer.items("Removed", removed)
    if isinstance(done, RollbackOutcome) and done.rolled_back is not None:
        answer.items("In git", done.rolled_back.in_git)
    answer.items("Left as it is", [f"{path}: {why}" for path, why in done.stays])
    answer.add(*(f"Note: {note}" for note in done.notes))
    if not done.complete:
        answer.add("Not everything could be put back; what is listed above stays as it is.")
    if done.changed:
        answer.add("What was there before is kept: the tool `undo` takes this back.")
    return answer


def _joined(place: str, name: str) -> str:
    return name if "\0" in name else os.path.join(place, name)
