"""The project's side of `/rollback`: its points listed, compared and gone back to.

Each returns what to say, the same as data, and whether it was done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from .chat import Conversation

Result = TypeVar("Result")
Said = tuple[str, dict[str, object], bool]
_ROWS = 20


def list_(conversation: Conversation, every: bool) -> Said:
    from safekept.actions.projects.rollback import list_timeline

    found = list_timeline(
        conversation.context,
        conversation.directory,
        settings=conversation.policy.take,
        every=every,
        listener=conversation.listener,
    )
    data = found.as_dict()
    if found.home is not None:
        from .home import list_home

        return "\n".join(list_home(found.home)), data, True
    if found.project is None:
        near = [f"  {project}" for project in found.near.all[:_ROWS]]
        text = f"No checkpoints found for {found.directory}"
        lines = [text, *(["There are some in:", *near] if near else [])]
        if found.home_points:
            from .home import list_beside

            lines += ["", *list_beside(found.home_points)]
        return "\n".join(lines), data, True
    points = found.in_order
    if not points:
        return f"Nothing changed in {found.project} that could be undone.", data, True
    from safekept.actions.projects.home_points.point import HomePoint

    from .home import row_text

    lines = [f"📸 Checkpoints for {found.project}:", ""]
    for row in points[:_ROWS]:
        if isinstance(row, HomePoint):
            lines.append(f"  {'':<3} {row_text(row)}")
            continue
        point = row.checkpoint
        number = f"{row.number}." if row.number else "!" if row.damaged else "·"
        changed = "  (damaged: cannot be gone back to)" if row.damaged else ""
        if row.changes is not None:
            more = row.changes
            changed = f"  ({more.files} file{'s' * (more.files != 1)}, +{more.added}/-{more.removed})"
        lines.append(f"  {number:<3} {point.id}  {_when(point.time_ns)}  {point.reason}{changed}")
    if len(points) > _ROWS:
        lines.append(f"  … and {len(points) - _ROWS} older ones")
    lines += [
        "",
        "  /rollback <N>             undo everything since checkpoint N",
        "  /rollback diff <N>        see what that would undo",
        "  /rollback <N> <file>      bring one file back",
        "  /rollback undo            take the last rollback back",
    ]
    return "\n".join(lines), data, True


def diff(conversation: Conversation, words: list[str]) -> Said:
    from safekept.actions.projects.rollback import show_difference
    from safekept.checkpoints.checkpoint import SHORTEST_PREFIX, is_checkpoint_id

    from . import home as chat_home

    if (
        words
        and not (words[0].isascii() and words[0].isdigit())
        and not is_checkpoint_id(words[0].lower(), SHORTEST_PREFIX)
    ):
        words = ["1", *words]
    if at_home := chat_home.named(conversation, words[0] if words else "1"):
        return chat_home.diff(conversation, at_home, tuple(words[1:]))
    found = _with_files(
        tuple(words[1:]),
        lambda files: show_difference(
            conversation.context,
            conversation.directory,
            words[0] if words else "1",
            files,
            settings=conversation.policy.take,
            listener=conversation.listener,
        ),
    )
    if not found.pairs:
        return "No changes since this checkpoint.", found.as_dict(), True
    count = len(found.pairs)
    lines = [f"{count} file{'s' * (count != 1)} changed since checkpoint {found.checkpoint.id}:", ""]
    return "\n".join([*lines, *chat_home.first_lines(found.lines)]), found.as_dict(), True


def go_back(
    conversation: Conversation, target: str, files: tuple[str, ...], flags: set[str], undo: bool = False
) -> Said:
    from safekept.actions.projects.rollback import RollbackRequest, rollback

    from . import home as chat_home

    dry_run = "--dry-run" in flags
    if undo and (taken := chat_home.undo(conversation, dry_run)) is not None:
        return taken
    if not undo and (at_home := chat_home.named(conversation, target)):
        return chat_home.go_back(conversation, at_home, files, dry_run)
    outcome = _with_files(
        files,
        lambda wanted: rollback(
            conversation.context,
            RollbackRequest(
                directory=conversation.directory,
                target=target,
                files=wanted,
                overwrite_mine="--overwrite-mine" in flags,
                undo=undo,
                dry_run=dry_run,
                session=conversation.session,
                settings=conversation.policy.take,
            ),
            conversation.listener,
        ),
    )
    plan, done = outcome.plan, outcome.rolled_back
    if done is None:
        steps = [f"  {step.action}: {step.path}" for step in plan.steps[:_ROWS]]
        more = [f"  … and {len(plan.steps) - _ROWS} more"] if len(plan.steps) > _ROWS else []
        return "\n".join(["Would do, and has not:", *steps, *more]), outcome.as_dict(), True
    point = plan.target
    what = ", ".join(plan.files) + " from" if plan.files else "to"
    lines = [f"✅ Restored {what} checkpoint {point.id}: {point.reason}"]
    if undo:
        lines = ["✅ The last rollback was taken back."]
    if not done.done:
        stays = len(done.left)
        lines = ["Nothing differs: no file had to be changed."]
        if stays:
            lines = [f"The rollback changed nothing: {stays} path{'s' * (stays != 1)} differ and stay."]
    counts = [f"{len(done.restored)} restored", f"{len(done.removed)} removed"]
    if done.done:
        lines.append(f"{', '.join(counts)}. What was there is kept: /rollback undo brings it back.")
    if done.kept:
        names = ", ".join(left.path for left in done.kept[:5]) + (" …" if len(done.kept) > 5 else "")
        why = "they were changed after the rollback" if undo else "you changed them after the agent"
        lines.append(f"Kept because {why}: {names} (--overwrite-mine takes them)")
    others = [left for left in done.left if left not in done.kept]
    lines += [f"Left as it is: {left}" for left in others[:5]]
    lines += [f"… and {len(others) - 5} more"] if len(others) > 5 else []
    if plan.gone:
        names = ", ".join(one.path for one in plan.gone[:5]) + (" …" if len(plan.gone) > 5 else "")
        lines.append(f"Not covered then, and gone now: {names}")
    return "\n".join(lines), outcome.as_dict(), done.complete


def _with_files(files: tuple[str, ...], work: Callable[[tuple[str, ...]], Result]) -> Result:
    """Do it with the files as given; a name with spaces that was not quoted is tried as one."""
    from safekept.checkpoints.points import FileNotInCheckpoint

    try:
        return work(files)
    except FileNotInCheckpoint:
        if len(files) < 2:
            raise
        try:
            return work((" ".join(files),))
        except FileNotInCheckpoint:
            pass
        raise


def _when(time_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(time_ns / 1e9))
