"""The home's side of `/rollback`: points of an agent's own files, listed, compared and gone back to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.actions.projects.home_points.point import HomePoint
from safekept.actions.projects.home_points.rollback import (
    HomeRollbackRequest,
    last_home_rollback,
    roll_back_home,
)
from safekept.actions.projects.home_points.timeline import HomeTimeline, named_point

if TYPE_CHECKING:
    from .chat import Conversation

Answer = tuple[str, dict[str, object], bool]
_ROWS = 20
_DIFF_LINES = 80
_PATHS = 3


def named(conversation: Conversation, word: str) -> str:
    """The id of the home point that a word means, if it means one."""
    return named_point(conversation.context, conversation.directory, word)


def row_text(point: HomePoint) -> str:
    """One line of a list without its number."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(point.time_ns / 1e9))
    names = ", ".join(point.paths[:_PATHS]) + (" …" if len(point.paths) > _PATHS else "")
    return f"{point.short}  {when}  home: {point.reason or 'kept'} ({names})"


def list_home(found: HomeTimeline) -> list[str]:
    """The list of one home."""
    if not found.rows:
        return [f"Nothing changed in {found.home} that could be undone."]
    lines = [f"📸 Home points of {found.home}:", ""]
    for row in found.rows[:_ROWS]:
        number = f"{row.number}." if row.number else "·"
        lines.append(f"  {number:<3} {row_text(row.point)}")
    if len(found.rows) > _ROWS:
        lines.append(f"  … and {len(found.rows) - _ROWS} older ones")
    lines += ["", "  /rollback <N>             bring those files back"]
    return [*lines, "  /rollback diff <N>        see what that would undo"]


def list_beside(points: Sequence[HomePoint]) -> list[str]:
    """Points of homes where there is no project that they could stand beside."""
    lines = ["📸 Files of agents' homes:", "", *(f"  {row_text(point)}" for point in points[:_ROWS])]
    return [*lines, "", "  /rollback <id>            bring those files back"]


def diff(conversation: Conversation, point: str, files: tuple[str, ...]) -> Answer:
    """What changed since a home point."""
    from safekept.actions.projects.home_points.difference import home_difference

    request = HomeRollbackRequest(point, files, conversation.directory)
    found = home_difference(conversation.context, request, conversation.listener)
    if not found.paths:
        return "No changes since this home point.", found.as_dict(), True
    count = len(found.paths)
    lines = [f"{count} file{'s' * (count != 1)} changed since home point {found.point.short}:", ""]
    return "\n".join([*lines, *first_lines(found.lines)]), found.as_dict(), True


def first_lines(lines: Sequence[str]) -> list[str]:
    """Of a difference as much as a chat can show."""
    more = len(lines) - _DIFF_LINES
    told = f"... ({more} more lines, showing first {_DIFF_LINES})"
    return [*lines[:_DIFF_LINES], *([told] if more > 0 else [])]


def go_back(conversation: Conversation, point: str, files: tuple[str, ...], dry_run: bool) -> Answer:
    """Bring the files of a home point back."""
    request = HomeRollbackRequest(point, files, conversation.directory, dry_run, conversation.session)
    done = roll_back_home(conversation.context, request, conversation.listener)
    steps = [f"  restore: {path}" for path in (*done.create, *done.replace)]
    steps += [f"  remove: {path}" for path in done.remove]
    if dry_run:
        more = [f"  … and {len(steps) - _ROWS} more"] if len(steps) > _ROWS else []
        return "\n".join(["Would do, and has not:", *steps[:_ROWS], *more]), done.as_dict(), True
    lines = ["Nothing differs: no file had to be changed."]
    if done.landed is not None:
        restored = len(done.create) + len(done.replace)
        lines = [
            f"✅ Restored home point {done.point.short}: {done.point.reason}",
            f"{restored} restored, {len(done.remove)} removed. What was there is kept: "
            "/rollback undo brings it back. Restart the agent to use what came back.",
        ]
    lines += [f"Left as it is: {path}: {reason}" for path, reason in done.left[:5]]
    return "\n".join(lines), done.as_dict(), done.complete


def undo(conversation: Conversation, dry_run: bool) -> Answer | None:
    """Take the last rollback of a home point back; None where the last rollback was one of a project."""
    operation = last_home_rollback(conversation.context, conversation.directory)
    if not operation:
        return None
    from safekept.actions.undo.undo import UndoRequest, take_back

    request = UndoRequest(operation=operation, dry_run=dry_run)
    undone = take_back(conversation.context, request, conversation.listener)
    text = "✅ The last rollback was taken back."
    if dry_run:
        text = "Would take the last rollback of the home back, and has not."
    return text, undone.as_dict(), undone.complete
