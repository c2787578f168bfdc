"""`/rollback` in a chat: points listed, compared and gone back to.

Each returns what to say, the same as data, and whether it was done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from safekept.actions.projects.home_points.point import HomePoint
    from safekept.actions.projects.points import PointRollback, Points
    from safekept.actions.projects.timeline import PointRow, Timeline
    from safekept.checkpoints.checkpoint import Checkpoint

    from .chat import Conversation

Result = TypeVar("Result")
Answer = tuple[str, dict[str, object], bool]
_ROWS = 20
_DIFF_LINES = 80
_PATHS = 3
_LEFT = 5
#: Letters of what the person said.
_WORDS = 60


def list_(conversation: Conversation, every: bool) -> Answer:
    with _points(conversation) as points:
        found = points.list(every=every, words=True)
    return "\n".join(_listed(found)), found.as_dict(), True


def _listed(found: Timeline) -> list[str]:
    place = found.project or found.home
    rows = found.in_order
    if place is None:
        near = [f"  {project}" for project in found.near.all[:_ROWS]]
        lines = [f"No checkpoints found for {found.directory}"]
        lines += ["There are some in:", *near] if near else []
        if rows:
            lines += ["", "📸 Files of agents' homes:", ""]
            lines += [f"  {_row(row.point)}" for row in rows[:_ROWS]]
            lines += ["", "  /rollback <id>            bring those files back"]
        return lines
    if not rows:
        return [f"Nothing changed in {place} that could be undone."]
    lines = [f"📸 {'Checkpoints for' if found.project else 'Home points of'} {place}:", ""]
    lines += _by_turn(rows[:_ROWS], found.words)
    if len(rows) > _ROWS:
        lines.append(f"  … and {len(rows) - _ROWS} older ones")
    if found.home:
        return [
            *lines,
            "",
            "  /rollback <N>             bring those files back",
            "  /rollback diff <N>        see what that would undo",
        ]
    return [
        *lines,
        "",
        "  /rollback <N>             undo everything since checkpoint N",
        "  /rollback diff <N>        see what that would undo",
        "  /rollback <N> <file>      bring one file back",
        "  /rollback turn [ID]       take back what one turn changed, everywhere",
        "  /rollback undo            take the last rollback back",
    ]


def _by_turn(rows: Sequence[PointRow], words: Mapping[str, str]) -> list[str]:
    """The rows, with the id of each turn above the first of it, and what the person said."""
    from safekept.actions.projects.turns.turn import turn_of
    from safekept.core.spelling import shown

    lines, above = [], ""
    for row in rows:
        turn = turn_of(row.point)
        if turn and turn != above:
            lines.append(f"  turn {turn}  {shown(words.get(turn, ''))[:_WORDS]}".rstrip())
        above = turn
        lines.append(f"  {_number(row):<3} {_row(row.point)}{_changed(row)}")
    return lines


def _number(row: PointRow) -> str:
    if row.number:
        return f"{row.number}."
    if row.damaged:
        return "!"
    return "" if row.point.kind == "home" else "·"


def _row(point: Checkpoint | HomePoint) -> str:
    from safekept.actions.projects.home_points.point import HomePoint

    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(point.time_ns / 1e9))
    what = point.reason
    if isinstance(point, HomePoint):
        names = ", ".join(point.paths[:_PATHS]) + (" …" if len(point.paths) > _PATHS else "")
        what = f"home: {point.reason or 'kept'} ({names})"
    return f"{point.short}  {when}  {what}"


def _changed(row: PointRow) -> str:
    if row.damaged:
        return "  (damaged: cannot be gone back to)"
    if row.changes is None:
        return ""
    files = _files(row.changes.files)
    if row.point.kind == "home":
        return f"  ({files})"
    if row.changes.hidden and not row.changes.files:
        return "  (hidden files)"
    hidden = ", and hidden files" if row.changes.hidden else ""
    return f"  ({files}, +{row.changes.added}/-{row.changes.removed}{hidden})"


def diff(conversation: Conversation, words: list[str]) -> Answer:
    from safekept.actions.projects.points import names_a_point

    if words and not names_a_point(words[0]):
        words = ["", *words]
    with _points(conversation) as points:
        target = points.resolve(words[0] if words else "")
        found = _with_files(tuple(words[1:]), lambda files: points.diff(target, files))
    if not found.files:
        kind = found.point.title.rpartition(" ")[0]
        return f"No changes since this {kind}.", found.as_dict(), True
    lines = [f"{_files(len(found.files))} changed since {found.point.title}:", "", *found.lines[:_DIFF_LINES]]
    if (more := len(found.lines) - _DIFF_LINES) > 0:
        lines.append(f"... ({more} more lines, showing first {_DIFF_LINES})")
    return "\n".join(lines), found.as_dict(), True


def go_back(conversation: Conversation, target: str, files: tuple[str, ...], flags: set[str]) -> Answer:
    mine, dry_run = "--overwrite-mine" in flags, "--dry-run" in flags
    with _points(conversation) as points:
        meant, go = points.resolve(target), points.plan if dry_run else points.apply
        git = "--git" in flags
        outcome = _with_files(files, lambda wanted: go(meant, wanted, overwrite_mine=mine, git=git))
    return _told(outcome)


def take_turn_back(conversation: Conversation, word: str, flags: set[str]) -> Answer:
    mine, dry_run = "--overwrite-mine" in flags, "--dry-run" in flags
    with _points(conversation) as points:
        go = points.plan if dry_run else points.apply
        return _told(go(points.turn(word), overwrite_mine=mine))


def undo(conversation: Conversation, operation: str, flags: set[str]) -> Answer:
    mine, dry_run = "--overwrite-mine" in flags, "--dry-run" in flags
    with _points(conversation) as points:
        meant = points.called(operation) if operation else None
        return _told(points.undo(meant, overwrite_mine=mine, dry_run=dry_run))


def _told(outcome: PointRollback) -> Answer:
    lines = _planned(outcome) if outcome.planned else _done(outcome)
    return "\n".join(lines), outcome.as_dict(), outcome.planned or outcome.complete


def _planned(outcome: PointRollback) -> list[str]:
    steps = [f"  {action}: {path}" for path, action in outcome.steps]
    more = [f"  … and {len(steps) - _ROWS} more"] if len(steps) > _ROWS else []
    return ["Dry run. Would do:", *steps[:_ROWS], *more, *_in_git(outcome)]


def _in_git(outcome: PointRollback) -> list[str]:
    """What moved in the project's repository: put back, or to be had with --git."""
    from safekept.actions.projects.rollback import RollbackOutcome

    if not isinstance(outcome, RollbackOutcome):
        return []
    if outcome.plan.git and outcome.rolled_back is not None:
        back = outcome.rolled_back.in_git
        return [f"Git: {'; '.join(back)}"] if back else []
    said = [one.words for one in outcome.plan.repositories if one.words]
    if not said:
        return []
    how = "would go back" if outcome.plan.git else "not touched; --git brings it back, too"
    return [f"Git: {'; '.join(said)} ({how})"]


def _done(outcome: PointRollback) -> list[str]:
    from safekept.actions.projects.rollback import RollbackOutcome

    point, stays = outcome.point, list(outcome.stays)
    if outcome.undoes and point.kind == "home":
        return ["✅ The last rollback was taken back."]
    plan = outcome.plan if isinstance(outcome, RollbackOutcome) else None
    what = ", ".join(plan.files) + " from" if plan is not None and plan.files else "to"
    if not outcome.changed:
        lines = ["Nothing differs: no file had to be changed."]
        if stays:
            differ = f"{len(stays)} path{'s' * (len(stays) != 1)} differ and stay."
            lines = [f"The rollback changed nothing: {differ}"]
    else:
        lines = [f"✅ Restored {what} {point.title}: {point.reason}"]
        if point.kind == "turn":
            lines = [f"✅ Took {point.title} back" + (f": {point.reason}" if point.reason else "")]
        if outcome.undoes:
            lines = ["✅ The last rollback was taken back."]
        lines += _by_name(outcome.steps)
        restart = " Restart the agent to use what came back." if point.kind == "home" else ""
        lines.append(f"What was there is kept: /rollback undo {outcome.operation} brings it back.{restart}")
    if isinstance(outcome, RollbackOutcome) and outcome.rolled_back is not None and outcome.rolled_back.kept:
        kept = [one.path for one in outcome.rolled_back.kept]
        why = "they were changed after the rollback" if outcome.undoes else "you changed them after the agent"
        lines.append(f"Kept because {why}: {_some(kept)} (--overwrite-mine takes them)")
        stays = [one for one in stays if one[0] not in kept]
    lines += [f"Left as it is: {path}: {why}" for path, why in stays[:_LEFT]]
    lines += [f"… and {len(stays) - _LEFT} more"] if len(stays) > _LEFT else []
    if plan is not None and plan.lost:
        lines.append(f"Not covered then, and gone now: {_some([one.path for one in plan.lost])}")
    return [*lines, *_in_git(outcome), *(f"Note: {note}" for note in outcome.notes[:_LEFT])]


def _by_name(steps: Sequence[tuple[str, str]]) -> list[str]:
    """The files that changed, counted and named. Directories whose time came back are not worth a word."""
    restored = [path for path, action in steps if action in ("restore", "recreate", "replace-directory")]
    removed = [path for path, action in steps if action in ("remove", "replace-by-directory")]
    modes = [path for path, action in steps if action == "metadata" and path != "."]
    lines = [f"{_files(len(restored))} restored: {_some(restored)}"] if restored else []
    lines += [f"{len(removed)} removed: {_some(removed)}"] if removed else []
    if not lines and modes:
        lines = [f"Mode or time put back: {_some(modes)}"]
    return lines


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_LEFT]) + (" …" if len(names) > _LEFT else "")


def _files(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"


def _points(conversation: Conversation) -> Points:
    from safekept.actions.projects.points import Points

    return Points(
        conversation.context,
        conversation.directory,
        settings=conversation.policy.take,
        session=conversation.session,
        listener=conversation.listener,
    )


def _with_files(files: tuple[str, ...], work: Callable[[tuple[str, ...]], Result]) -> Result:
    """Do it with the files as given; a name with spaces that was not quoted is tried as one."""
    from safekept.actions.projects.home_points.point import NotInHomePoint
    from safekept.checkpoints.points import FileNotInCheckpoint

    unknown = (FileNotInCheckpoint, NotInHomePoint)
    try:
        return work(files)
    except unknown:
        if len(files) < 2:
            raise
        try:
            return work((" ".join(files),))
        except unknown:
            pass
        raise
