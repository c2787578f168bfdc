"""The tools for projects: what can be gone back to, what changed since, a point by hand, and going back."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.core.ages import seconds_text
from safekept.core.spelling import shown

from .answers import Answer, clipped
from .caller import Caller
from .fingerprints import of_rollback
from .home_points import roll_home_back

if TYPE_CHECKING:
    from safekept.actions.projects.rollback import RollbackOutcome, RollbackRequest
    from safekept.checkpoints.points import RollbackPlan

#: Lines of a diff in one answer, unless more are asked for.
LINES = 400


def project_of(caller: Caller, directory: str) -> tuple[str, str]:
    """The directory that is meant, resolved, and its project with checkpoints; both within the roots."""
    from safekept.actions.projects.project import need_project
    from safekept.actions.projects.rollback import checkpoint_store

    place = caller.roots.directory(directory)
    with checkpoint_store(caller.context) as store:
        project = need_project(store, place, caller.context)
    caller.roots.need(project, "the project")
    return place, project


def list_checkpoints(caller: Caller, directory: str, limit: int, every: bool) -> Answer:
    """What can be gone back to in a project, newest first."""
    from safekept.actions.projects.project import find_project
    from safekept.actions.projects.rollback import checkpoint_store, list_timeline

    place = caller.roots.directory(directory)
    with checkpoint_store(caller.context) as store:
        project = find_project(store, place, caller.context)
    if project is not None:
        caller.roots.need(project, "the project")
    found = list_timeline(caller.context, place, settings=caller.policy.take, every=every)
    rows = found.rows[: max(1, limit)]
    near = [one for one in found.near.all if caller.roots.holds(one)]
    answer = Answer(
        data={
            "directory": found.directory,
            "project": found.project,
            "checkpoints": [row.as_dict() for row in rows],
            "more": len(found.rows) - len(rows),
            "hidden": found.hidden,
            "near": near,
        }
    )
    at_home = [one for one in found.home_points if caller.is_own(one.home)]
    answer.data["home_points"] = [one.as_dict() for one in at_home]
    if found.project is None:
        answer.add(f"There are no checkpoints of {shown(found.directory)}.")
        answer.items("Projects nearby that have some", near)
        return answer
    answer.add(f"Checkpoints of {shown(found.project)}, newest first:" if rows else "There is no checkpoint.")
    for row in rows:
        point = row.checkpoint
        age = seconds_text(max(0, time.time_ns() - point.time_ns) / 1e9)
        number = f"#{row.number}" if row.number else "-"
        what = f"  {row.changes.files:,} files changed after it" if row.changes is not None else ""
        reason = shown(point.reason.split("\n")[0])[:80]
        damaged = "  DAMAGED" if row.damaged else ""
        answer.add(f"  {number:<4} {point.id}  {age} ago  {point.kind}  {reason}{what}{damaged}")
    if len(rows) < len(found.rows):
        answer.add(f"  … and {len(found.rows) - len(rows):,} older ones")
    answer.add("The number counts from the newest and shifts with every change; the id stays.")
    for one in at_home:
        age = seconds_text(max(0, time.time_ns() - one.time_ns) / 1e9)
        names = ", ".join(map(shown, one.paths[:3])) or "everything"
        answer.add(f"  {one.short}  {age} ago  in the agent's home: {names}  {shown(one.reason)[:80]}")
    return answer


def difference(caller: Caller, directory: str, checkpoint: str, files: Sequence[str], lines: int) -> Answer:
    """What changed in a project since a checkpoint, as text."""
    from safekept.actions.projects.rollback import show_difference

    place, _ = project_of(caller, directory)
    found = show_difference(
        caller.context, place, checkpoint or "1", tuple(files), settings=caller.policy.take
    )
    whole, limit = list(found.lines), max(1, lines)
    cut = clipped(whole, limit)
    paths = [path for path, _, _ in found.pairs]
    answer = Answer(
        data={
            "project": found.project,
            "checkpoint": found.checkpoint.as_dict(),
            "files": paths,
            "diff": "\n".join(cut),
            "lines_left_out": len(whole) - len(cut),
        }
    )
    since = f"since checkpoint {found.checkpoint.id} of {shown(found.project)}"
    if not paths:
        answer.add(f"Nothing changed {since}.")
        return answer
    answer.items(f"Changed {since}", paths)
    answer.add("", *cut)
    if len(cut) < len(whole):
        answer.add(f"… {len(whole) - len(cut):,} more lines: ask for single files, or for more lines")
    return answer


def take_checkpoint(caller: Caller, directory: str, reason: str, files: Sequence[str]) -> Answer:
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
    answer = Answer(
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
) -> Answer:
    """Go back to a checkpoint: the plan, or with the token of that plan the deed."""
    from safekept.actions.projects.home_points.timeline import named_point
    from safekept.actions.projects.rollback import RollbackRequest, rollback

    place = caller.roots.directory(directory)
    if point := named_point(caller.context, place, checkpoint or "1"):
        return roll_home_back(caller, place, point, files, confirm)
    place, _ = project_of(caller, directory)
    spend = caller.spending(confirm)

    def request(dry_run: bool) -> RollbackRequest:
        return RollbackRequest(
            directory=place,
            target=checkpoint or "1",
            files=tuple(files),
            overwrite_mine=overwrite_mine,
            dry_run=dry_run,
            settings=caller.policy.take,
            agreed=lambda plan: spend(of_rollback(plan)),
        )

    plan = rollback(caller.context, request(True), caller.listener).plan
    answer = rollback_plan(plan)
    unconfirmed = caller.planned(answer, confirm, of_rollback(plan), differs=plan.steps)
    if unconfirmed is not None:
        return unconfirmed
    return rolled_back(rollback(caller.context, request(False), caller.listener))


def rollback_plan(plan: RollbackPlan) -> Answer:
    """A plan in words and data."""
    from safekept.checkpoints.points import ACTIONS

    answer = Answer(data={"plan": plan.as_dict()})
    point = plan.target
    age = seconds_text(max(0, time.time_ns() - point.time_ns) / 1e9)
    answer.add(f"Plan: go back to checkpoint {point.id} ({age} ago) in {shown(plan.project)}")
    answer.items("Would change", [f"{step.path}: {ACTIONS[step.action]}" for step in plan.steps])
    answer.items("Would stay as it is", [str(one) for one in plan.left])
    answer.items("No checkpoint can bring back", [one.path for one in plan.gone])
    answer.add(*(f"Note: {remark}" for remark in plan.remarks))
    return answer


def rolled_back(outcome: RollbackOutcome) -> Answer:
    """What was done, in words and data."""
    done = outcome.rolled_back
    assert done is not None
    answer = Answer(data={"changed": bool(done.done), **outcome.as_dict()})
    answer.add(f"Went back to checkpoint {done.plan.target.id} in {shown(done.plan.project)}.")
    answer.items("Restored", done.restored)
    answer.items("Removed", done.removed)
    answer.items("Left as it is", [str(one) for one in done.left])
    answer.add(*(f"Note: {remark}" for remark in done.remarks))
    if not done.complete:
        answer.add("Not everything could be put back; what is listed above stays as it is.")
    if done.done:
        answer.add("What was there before is kept: the tool `undo` takes this back.")
    return answer


def _joined(place: str, name: str) -> str:
    return name if "\0" in name else os.path.join(place, name)
