"""Something risky between a snapshot and a check, as a `with` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from .apart import in_its_own_process
from .user import PathLike, current_user, one_of, text
from .values import Guarded

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.guard.guard_types import Guarded as ActionGuarded
    from safekept.actions.restoring.restore import RestoreRequest


class LossFound(SafekeptError):
    """Raised at the end of a `with safekept.guard()` block where the check found a loss."""

    code, exit_code = "loss-found", 3


@contextmanager
def guard(
    *,
    home: PathLike | None = None,
    kind: str = "pre-update",
    label: str = "",
    backup: bool | None = None,
    anyway: bool = False,
    auto_restore: bool = False,
    raises: bool = True,
    layout: str = "",
) -> Iterator[Guarded]:
    """Do something risky to a home between a snapshot and a check that nothing was lost.

    The block is not entered where no snapshot could be taken (`not-protected` is raised), unless `anyway`.
    When it ended, what was lost is in `findings` and `restore_command`, and raised as `LossFound`, whose next
    step is that command; with `raises=False` it is only told. `auto_restore` brings back at once what is lost
    beyond doubt. An exception of the block itself passes through unchanged, after the check.

    >>> with safekept.guard(label="before the migration") as guarded:
    ...     _ = (home / "SOUL.md").write_text("A new persona.")
    >>> guarded.checked
    True
    >>> with safekept.guard(raises=False) as guarded:
    ...     (home / "state.db").unlink()
    >>> guarded.findings
    ('state.db, a database, is gone',)
    >>> guarded.restore_command
    'safekept snapshot restore ... state.db'
    """
    from safekept.actions.guard.guard import guarding
    from safekept.actions.guard.guard_types import GuardRequest
    from safekept.actions.guard.pre_update import KINDS
    from safekept.home.scan import Selection

    one_of("kind", kind, KINDS)
    user = current_user()
    settings = user.settings
    request = GuardRequest(
        user.context.locate(text(home), layout, existing=False),
        ("guarded code",),
        kind,
        label,
        backup,
        anyway,
        auto_restore,
        Selection(include=settings.texts("backup.include"), exclude=settings.texts("backup.exclude")),
        settings.text("updates.pre_update_backup"),
        settings.whole("updates.backup_keep"),
        user.deadline,
        settings.whole("import.keep_days"),
        isolated=True,
        bring_back=_bring_back,
    )
    outcome = Guarded(request.place.home)
    work: ActionGuarded | None = None
    try:
        with guarding(user.context, request, check_raised=True) as work:
            outcome.snapshot = work.snapshot.id if work.snapshot is not None else ""
            yield outcome
    finally:
        if work is not None:
            _fill(user.context, outcome, work)
    if raises and work is not None and [one for one in work.findings if one not in work.restored]:
        raise _loss(outcome)


@in_its_own_process
def _bring_back(request: RestoreRequest) -> tuple[str, set[str]]:
    """Restore what was lost beyond doubt."""
    from safekept.actions.guard.check import not_brought_back
    from safekept.actions.restoring.restore import prepare_restore

    with prepare_restore(current_user().context, request) as prepared:
        done = prepared.carry_out()
    return done.operation, not_brought_back(done)


def _fill(context: UserContext, outcome: Guarded, work: ActionGuarded) -> None:
    """What the check found, in the value that the block holds."""
    from safekept.actions.alarms.ways_back import restore_command
    from safekept.actions.guard.check import restore_paths

    outcome.checked = work.health is not None
    outcome.unchecked = work.unchecked
    outcome.findings = tuple(one.text for one in work.findings)
    outcome.restored = tuple(one.path for one in work.restored)
    left = [one for one in work.findings if one not in work.restored]
    paths, whole = restore_paths(left), any(one.whole for one in left)
    if outcome.snapshot and (paths or whole):
        named = () if whole else paths
        outcome.restore_command = restore_command(context, outcome.home, outcome.snapshot, named)


def _loss(outcome: Guarded) -> LossFound:
    named = "; ".join(outcome.findings[:3])
    more = f" and {len(outcome.findings) - 3:,} more" if len(outcome.findings) > 3 else ""
    steps = (f"Bring it back: `{outcome.restore_command}`",) if outcome.restore_command else ()
    return LossFound(
        f"After the guarded code: {named}{more}",
        kept=f"Snapshot {outcome.snapshot[:8]} of before still has it, and is pinned for 30 days",
        next_steps=steps or (NextStep("status", before="See what is known about it:"),),
        findings=outcome.findings,
        snapshot=outcome.snapshot,
        home=outcome.home,
    )
