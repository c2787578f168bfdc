"""A rollback in words: what it did, what it left and why, and what cannot be brought back."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..console import Console, count_text, path_text, time_text
from .lists import ago, fitting, listing
from .points import about

if TYPE_CHECKING:
    from safekept.actions.projects.points import PointRollback
    from safekept.actions.projects.rollback import RollbackOutcome
    from safekept.actions.undo.changes import Change
    from safekept.actions.undo.undo import Undone, UndoRequest
    from safekept.checkpoints.points import RollbackPlan


_RESTORES = ("restore", "recreate", "replace-directory")
_REMOVES = ("remove", "replace-by-directory")


def show_rollback(console: Console, outcome: PointRollback, *, again: bool = False) -> int:
    """What was done, what stays and why, what is gone, and how to take it back; the exit code.

    `again`: the undo of a rollback is taken back, so that the rollback is done once more.
    """
    from safekept.actions.projects.home_points.point import HomePoint
    from safekept.actions.projects.rollback import RollbackOutcome

    point, planned = outcome.point, outcome.planned
    if outcome.undoes and isinstance(point, HomePoint):
        return _show_home_undone(console, outcome)
    if point.kind == "turn":
        from .turns import show_turn_rollback

        return show_turn_rollback(console, outcome)
    in_project = isinstance(outcome, RollbackOutcome)
    undo = _undo(console, outcome)
    console.document({"dry_run": planned, **outcome.as_dict(), "undo": None if planned else undo})
    what = "the point before the last rollback" if outcome.undoes else point.title
    verb = "Would go back to" if planned else "Went back to"
    if not outcome.changed and (outcome.stays or not in_project):
        verb = "Would change nothing for" if planned else "Changed nothing for"
    heading = f"{verb} {what} of {path_text(point.place)}"
    if again and outcome.changed:
        heading = f"{'Would do' if planned else 'Did'} the rollback of {path_text(point.place)} again"
    console.heading(heading, planned or outcome.complete)
    why = about(point) if isinstance(point, HomePoint) else path_text(point.reason)
    reason = f", {why}" if why and not outcome.undoes else ""
    console.fact("Taken", fitting(console, ago(point.time_ns) + reason, 13))
    show_paths(console, outcome)
    for note in outcome.notes:
        console.fact("Note", note)
    if not outcome.changed:
        console.line(_nothing(outcome))
    if planned:
        console.line("Nothing was changed")
        return 0
    acted = outcome.changed if in_project else bool(outcome.operation)
    if acted:
        console.fact("Time", time_text(outcome.seconds))
    if acted:
        if not in_project:
            console.line("Restart the agent to use what came back")
        console.line(f"Changed your mind? `{undo}`")
    return 0 if outcome.complete else 3


def show_paths(console: Console, outcome: PointRollback, again: Sequence[str] = ()) -> None:
    """What came back and went, what stays and why, and what is gone, in one place.

    `again`: the command that it is part of, where it is more than this place.
    """
    from safekept.actions.projects.rollback import RollbackOutcome

    planned = outcome.planned
    listing(console, "Restores" if planned else "Restored", _paths(outcome, _RESTORES))
    listing(console, "Removes" if planned else "Removed", _paths(outcome, _REMOVES))
    if isinstance(outcome, RollbackOutcome):
        _show_modes(console, "Sets" if planned else "Set", outcome.plan, _paths(outcome, ("metadata",)))
        _show_left(console, outcome, again)
        _show_gone(console, outcome.plan)
        _show_git(console, outcome)
    else:
        listing(console, "Left", [f"{path}: {why}" for path, why in outcome.stays])


def _show_git(console: Console, outcome: RollbackOutcome) -> None:
    """What moved in the repository: put back, or to be had with --git."""
    from safekept.checkpoints.store import STAYS

    done = outcome.rolled_back
    said = [path_text(plan.words) for plan in outcome.plan.repositories if plan.words]
    if not outcome.plan.git:
        if said:
            again = console.command(
                "rollback", outcome.plan.target.id, "--git", "--dir", outcome.plan.project
            )
            listing(console, "Git", said)
            console.fact("", f"not touched; to bring that back, too: `{again}`")
        return
    listing(console, "Git", said if done is None else [path_text(line) for line in done.in_git])
    if done is None:
        left = [(name, why, "") for plan in outcome.plan.repositories for name, why in plan.left]
    else:
        left = [item for one in done.repositories for item in one.left]
    words = [f"{_item(name)}: {STAYS[why]}" + (f" ({more})" if more else "") for name, why, more in left]
    listing(console, "Git left", [path_text(line) for line in words])


def _item(name: str) -> str:
    return name.partition(":")[2] or name


def _show_home_undone(console: Console, outcome: PointRollback) -> int:
    """The same words as `safekept undo`."""
    from safekept.actions.projects.home_points.rollback import HomeRollbackUndone
    from safekept.actions.undo.undo import UndoRequest

    assert isinstance(outcome, HomeRollbackUndone)
    return show_undone(console, outcome.undone, UndoRequest(dry_run=outcome.planned))


def _undo(console: Console, outcome: PointRollback) -> str | None:
    return console.command("undo", outcome.operation) if outcome.operation else None


def _paths(outcome: PointRollback, actions: tuple[str, ...]) -> list[str]:
    return [path for path, action in outcome.steps if action in actions]


def _nothing(outcome: PointRollback) -> str:
    stays = len(outcome.stays)
    if not stays:
        return "Nothing differs: no file had to be changed"
    return f"No file was changed: {count_text(stays, 'path')} " + (
        "differs and stays" if stays == 1 else "differ and stay"
    )


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


def _again(outcome: RollbackOutcome) -> list[str]:
    """The command that was given, whole: it runs from any directory."""
    plan = outcome.plan
    if outcome.undoes:
        return ["rollback", "--undo", plan.target.id, "--dir", plan.project]
    files = [os.path.join(plan.project, path) for path in plan.files]
    return ["rollback", plan.target.id, *files, *(["--git"] if plan.git else []), "--dir", plan.project]


def _show_left(console: Console, outcome: RollbackOutcome, again: Sequence[str]) -> None:
    from safekept.checkpoints.checkpoint import REASONS

    plan, done = outcome.plan, outcome.rolled_back
    left = plan.left if done is None else done.left
    mine = [one for one in left if one.reason == "mine"]
    if mine:
        listing(
            console, "Kept yours", [one.path + (f" ({one.detail})" if one.detail else "") for one in mine]
        )
        command = console.command(*(again or _again(outcome)), "--overwrite-mine")
        console.fact("", f"changed by you after the agent's last turn; to take them, too: `{command}`")
    since = [one.path for one in left if one.reason == "since"]
    if since:
        listing(console, "Kept", since)
        console.fact("", "changed after the rollback that is undone; nothing of that is touched")
    others = [one for one in left if one.reason not in ("mine", "since")]
    listing(console, "Left", [str(one) for one in others])
    if any(one.path in plan.then and one.reason in REASONS and one.reason != "git" for one in others):
        console.fact(
            "",
            "the checkpoint has an older state; what stands there now is in none: move it away, then go back",
        )


#: Why no checkpoint holds a file, in a word; `REASONS` has the sentence.
_UNCOVERED = {
    "excluded": "left out by rule",
    "oversize": "large",
    "sidecar": "beside a database",
    "special": "no plain file",
}


def _show_gone(console: Console, plan: RollbackPlan) -> None:
    from safekept.checkpoints.points import LEFT

    listing(console, "Gone", [f"{one.path}: {one.detail or LEFT[one.reason]}" for one in plan.lost])
    if plan.lost:
        console.fact("", "not covered then, and gone now: no checkpoint can bring that back")
    exposed = [one for one in plan.not_covered if one.reason == "not-kept"]
    listing(console, "Not kept", [f"{one.path}: {one.detail}" for one in exposed])
    uncovered = Counter(one.reason for one in plan.not_covered if one.reason not in ("git", "not-kept"))
    if uncovered:
        why = ", ".join(_UNCOVERED.get(reason, reason) for reason, _ in uncovered.most_common())
        files = count_text(uncovered.total(), "file")
        console.fact("Not kept", f"{files} that no checkpoint holds ({why}): as they are now")


# What was taken back, in words: what returned, what is set aside and until when, what stays.


def show_what_goes(console: Console, undone: Undone) -> None:
    """What is about to be taken back, said before it is: without a question, and without a surprise."""
    if not console.as_json:
        _show_meant(console, "Taking back", undone)


def _show_meant(console: Console, verb: str, undone: Undone) -> None:
    """The first line: what, where, and why this one; then the newer one elsewhere, which it is not."""
    from safekept.actions.undo.last_change import ASKED_HERE, HERE

    why = {HERE: ", where you are", ASKED_HERE: ", which was asked for here"}.get(undone.how, "")
    console.line(f"{verb} the {_of(undone.change)}{_in(undone.change, undone.here, why)}")
    if undone.newer_elsewhere is not None:
        newer = undone.newer_elsewhere
        command = console.command("undo", newer.operation)
        console.line(f"Not the newer {newer.noun} of {_when(newer)}{_in(newer)}; that one: `{command}`")


def show_undone(console: Console, undone: Undone, request: UndoRequest) -> int:
    """The result or the plan; the exit code."""
    named = ("--home", undone.change.home) if request.home and undone.change.home else ()
    again = console.command("undo", *(() if request.dry_run else (undone.operation,)), *named)
    undo = None if request.dry_run or not undone.operation else again
    console.document({"dry_run": request.dry_run, **undone.as_dict(), "undo": undo})
    if request.dry_run and not console.as_json and undone.brought_back is None:
        _show_meant(console, "Would take back", undone)
    if undone.rollback is not None:
        if not console.as_json:
            show_rollback(console, undone.rollback, again=undone.change.takes_back)
        return 0 if undone.complete else 3
    if undone.plan is not None:
        _show_landing(console, undone, request)
    elif undone.turn is not None:
        if not console.as_json:
            show_rollback(console, undone.turn)
        return 0 if undone.complete or request.dry_run else 3
    elif undone.session is not None:
        _show_session(console, undone, request.dry_run)
    elif undone.brought_back is not None:
        return _show_brought_back(console, undone, request.dry_run)
    if request.dry_run:
        console.line("Nothing was changed")
    else:
        console.line(f"Changed your mind? Run `{again}`")
        log, back = console.command("log"), console.command("undo", "ID", *named)
        console.line(f"Further back? `{log}` shows what was done; take one of these back: `{back}`")
    return 0


def _of(change: Change) -> str:
    """`restore of 5 min ago (ID)`."""
    actor = change.landed.actor or "person"
    by = "" if actor == "person" else f", by {path_text(actor)}"
    return f"{change.noun} of {_when(change)} ({change.operation}{by})"


def _when(change: Change) -> str:
    return ago(int(change.time * 1e9))


def _in(change: Change, here: str = "", why: str = "") -> str:
    """` in app, where you are, and 2 more`. `here`: the place to name; else the first."""
    place, more = here or change.place, len(change.every_place) - 1
    if not place:
        return why
    return f" in {path_text(place)}{why}" + (f"{',' if why else ''} and {more} more" if more else "")


def _show_landing(console: Console, undone: Undone, request: UndoRequest) -> None:
    plan, landed = undone.plan, undone.landed
    assert plan is not None
    if landed is None:
        from safekept.actions.restoring.starting import wrappers_going

        listing(console, "Returns", plan.returns)
        listing(console, "Goes", plan.goes)
        listing(console, "Removes", wrappers_going(undone.change.landed))
    else:
        console.heading(f"Taken back in {path_text(plan.home)}")
        console.fact("What", f"the {_of(undone.change)}")
        console.fact("Returned", count_text(landed.created + landed.replaced, "file"))
        console.fact("Set aside", count_text(landed.removed + landed.replaced, "file"))
        facts, noun = undone.facts, undone.change.noun
        for one in (facts.wrappers_gone if facts else None) or ():
            console.fact("Removed", f"{path_text(str(one['path']))}, which the {noun} had made")
        for one in (facts.wrappers if facts else None) or ():
            console.fact("Made again", path_text(str(one["path"])))
    listing(console, "Since", plan.since)
    if plan.since:
        fate = "would be" if landed is None else "are"
        console.fact("", f"changed after it; as they were until now they {fate} set aside, not lost")
    if landed is None:
        return
    if landed.replaced_in:
        until = time.strftime("%Y-%m-%d", time.localtime(time.time() + request.keep_days * 86400))
        console.fact("Kept", f"until {until}, in")
        console.fact("", path_text(landed.replaced_in))
    for remark in landed.remarks:
        console.fact("Note", f"{path_text(remark.path)}: {remark.reason}")
    for note in undone.notes:
        console.fact("Note", note)
    console.fact("Time", time_text(landed.seconds))


def _show_session(console: Console, undone: Undone, dry_run: bool) -> None:
    session = undone.session
    assert session is not None
    name, database = path_text(session.session), path_text(session.database)
    if session.returned:
        verb = "would come back into" if dry_run else "is back in"
    else:
        verb = "would be taken out of" if dry_run else "was taken out of"
    console.heading(f"Session {name} {verb} {database}")
    if not dry_run:
        console.fact("What", f"the {_of(undone.change)}")
    if session.messages is not None:
        console.fact("Messages", f"{session.messages:,}")
    if session.undo_point:
        console.fact("Before", f"kept as snapshot {session.undo_point[:8]}")


def _show_brought_back(console: Console, undone: Undone, dry_run: bool) -> int:
    found = undone.brought_back
    assert found is not None
    verb = "Would bring back" if dry_run else "Brought back"
    console.heading(f"{verb} {count_text(len(found.back), found.what)}", not found.lost)
    console.fact("What", f"the {_of(undone.change)}")
    listing(console, "Back", found.back)
    listing(console, "Gone", found.lost)
    if found.lost and found.what != "mode":
        console.fact("", "past their days of grace, and reclaimed")
    for note in found.notes:
        console.fact("Note", note)
    if dry_run:
        console.line("Nothing was changed")
    return 0 if undone.complete else 3
