"""A rollback in words: what it did, what it left and why, and what nobody can bring back."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..console import Console, count_text, path_text, time_text
from .points import ago, fitting, listing

if TYPE_CHECKING:
    from safekept.actions.projects.rollback import RollbackOutcome
    from safekept.checkpoints.points import Left, RollbackPlan


def show_outcome(console: Console, outcome: RollbackOutcome, where: list[str], undoing: bool) -> int:
    """What was done, what stays and why, what is gone, and how to take it back; the exit code."""
    plan, done = outcome.plan, outcome.rolled_back
    undo = console.command("rollback", "--undo", *where)
    console.document({"dry_run": done is None, **outcome.as_dict(), "undo": undo if done else None})
    point = plan.target
    what = "the point before the last rollback" if undoing else f"checkpoint {point.id}"
    reason = f", {path_text(point.reason)}" if point.reason and not undoing else ""
    left = plan.left if done is None else done.left
    changed = bool(plan.steps if done is None else done.done)
    verb = "Would go back to" if done is None else "Went back to"
    if not changed and left:
        verb = "Would change nothing for" if done is None else "Changed nothing for"
    complete = done is None or done.complete
    console.heading(f"{verb} {what} of {path_text(plan.project)}", complete)
    console.fact("Taken", fitting(ago(point.time_ns) + reason, 13))
    if done is None:
        listing(console, "Restores", [step.path for step in plan.steps if step.places])
        listing(console, "Removes", [step.path for step in plan.steps if step.action == "remove"])
        _show_modes(console, "Sets", plan, [step.path for step in plan.steps if step.action == "metadata"])
    else:
        listing(console, "Restored", done.paths("restore", "recreate", "replace-directory"))
        listing(console, "Removed", done.paths("remove", "replace-by-directory"))
        _show_modes(console, "Set", plan, done.paths("metadata"))
    _show_left(console, plan, left)
    _show_gone(console, plan)
    uncovered = Counter(one.reason for one in plan.not_covered if one.reason != "git")
    if uncovered:
        why = ", ".join(f"{count:,} {reason}" for reason, count in uncovered.most_common())
        console.fact("Untouched", f"{count_text(uncovered.total(), 'path')} that no checkpoint holds: {why}")
    for remark in plan.remarks if done is None else done.remarks:
        console.fact("Note", remark)
    if not changed and left:
        stays = (
            f"{count_text(len(left), 'path')} {'differs and stays' if len(left) == 1 else 'differ and stay'}"
        )
        console.line(f"No file was changed: {stays}")
    elif not changed:
        console.line("Nothing differs: no file had to be changed")
    if done is None:
        console.line("Nothing was changed")
        return 0
    console.fact("Time", time_text(done.seconds))
    if changed:
        console.line(f"Changed your mind? `{undo}`")
    return 0 if done.complete else 3


def _show_modes(console: Console, label: str, plan: RollbackPlan, paths: list[str]) -> None:
    """What only had its mode or time put back. Times of directories are not worth a line."""
    lines, times = [], 0
    for path in paths:
        own = path == "."  # the project's own directory
        then, now = (plan.root, plan.root_now) if own else (plan.then.get(path), plan.now.get(path))
        if then is None or now is None or then.mode == now.mode:
            times += then is not None and then.kind != "directory"
            continue
        lines.append(f"{path}: mode {now.mode & 0o7777:04o} to {then.mode & 0o7777:04o}")
    listing(console, label, lines)
    if times:
        console.fact("" if lines else label, f"the time of {count_text(times, 'file')}")


def _show_gone(console: Console, plan: RollbackPlan) -> None:
    from safekept.checkpoints.checkpoint import REASONS

    listing(console, "Gone", [f"{one.path}: {REASONS.get(one.reason, one.reason)}" for one in plan.gone])
    if plan.gone:
        console.fact("", "not covered then, and gone now: no checkpoint can bring that back")


def _show_left(console: Console, plan: RollbackPlan, left: list[Left]) -> None:
    from safekept.checkpoints.checkpoint import REASONS
    from safekept.checkpoints.points import LEFT

    mine = [one for one in left if one.reason == "mine"]
    if mine:
        listing(
            console, "Kept yours", [one.path + (f" ({one.detail})" if one.detail else "") for one in mine]
        )
        console.fact("", "changed by you after the agent's last turn; --overwrite-mine takes them, too")
    since = [one.path for one in left if one.reason == "since"]
    if since:
        listing(console, "Kept", since)
        console.fact("", "changed after the rollback that is undone; nothing of that is touched")
    others = [one for one in left if one.reason not in ("mine", "since")]
    lines = [f"{one.path}: {LEFT[one.reason]}" + (f" ({one.detail})" if one.detail else "") for one in others]
    listing(console, "Left", lines)
    if any(one.path in plan.then and one.reason in REASONS and one.reason != "git" for one in others):
        console.fact(
            "",
            "the checkpoint has an older state; what stands there now is in none: move it away, then go back",
        )
