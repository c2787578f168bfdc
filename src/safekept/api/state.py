"""How everything is, and taking the last change back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .apart import in_its_own_process
from .user import PathLike, current_user, text
from .values import Undone

if TYPE_CHECKING:
    from safekept.actions.status.status import Status
    from safekept.actions.undo.undo import Undone as ActionUndone


def status(home: PathLike | None = None, *, layout: str = "") -> Status:
    """Am I protected? The verdict, and what it rests on. Nothing is changed; a home gets a quick look.

    `verdict.level` is a rung of the ladder: `not-protected`, `partly`, `this-machine` or `machine-lost`;
    `verdict.alarm` says whether something is lost or broken, `verdict.reasons` why, `verdict.next` what to
    do. `as_dict()` is what `safekept status --json` prints, without the agents and their settings.

    >>> safekept.status().verdict.level
    'not-protected'
    >>> _ = safekept.snapshot()
    >>> [reason.code for reason in safekept.status().verdict.reasons]
    ['key-only-here', 'not-proven', 'no-schedule', 'no-copy-elsewhere']
    """
    from safekept.actions.status.status import look

    user = current_user()
    hours = user.settings.number("status.stale_hours")
    return look(user.context, text(home), layout, stale_hours=hours, isolated=True)


@in_its_own_process
def undo(
    operation: str = "",
    *,
    home: PathLike | None = None,
    directory: PathLike | None = None,
    dry_run: bool = False,
    layout: str = "",
) -> Undone:
    """Take the last restore, import or rollback back, or the `operation` with this id.

    The last one where the program stands: in a project or a home, its own; anywhere else, the last of all,
    as with `safekept undo`; the rollback of a project elsewhere has to be named. `newer_elsewhere` is the id
    of the last one of all, where that was left alone. `home` narrows it to changes of that home, `directory`
    to rollbacks of that project. With `dry_run` the answer says what would be taken back. Calling it again
    undoes the undo.

    >>> _ = safekept.snapshot()
    >>> _ = (home / "SOUL.md").write_text("You are another.")
    >>> restored = safekept.restore(paths=["SOUL.md"], yes=True)
    >>> safekept.undo(restored.operation).returns
    ('SOUL.md',)
    >>> (home / "SOUL.md").read_text()
    'You are another.'
    """
    from safekept.actions.undo.undo import UndoRequest, take_back

    user = current_user()
    request = UndoRequest(
        operation=operation,
        home=text(home),
        layout=layout,
        directory=text(directory),
        dry_run=dry_run,
        deadline=user.deadline,
        keep_days=user.settings.number("import.keep_days"),
        settings=user.policy.take,
    )
    return _undone(take_back(user.context, request), dry_run)


def _undone(found: ActionUndone, dry_run: bool) -> Undone:
    returns: tuple[str, ...] = ()
    goes: tuple[str, ...] = ()
    if found.plan is not None:
        returns, goes = tuple(found.plan.returns), tuple(found.plan.goes)
    if found.rollback is not None:
        steps = found.rollback.plan.steps
        returns = tuple(step.path for step in steps if step.places)
        goes = tuple(step.path for step in steps if step.action == "remove")
    if found.turn is not None:
        from safekept.checkpoints.points import REMOVING

        returns = tuple(path for path, action in found.turn.steps if action not in REMOVING)
        goes = tuple(path for path, action in found.turn.steps if action in REMOVING)
    if found.brought_back is not None:
        returns = found.brought_back.back
    change = found.change
    return Undone(
        undoes=change.operation,
        verb=change.verb,
        place=change.place,
        done=not dry_run,
        operation=found.operation,
        complete=found.complete,
        returns=returns,
        goes=goes,
        notes=found.notes,
        newer_elsewhere=found.newer_elsewhere.operation if found.newer_elsewhere else "",
    )
