"""`safekept rollback` of files in an agent's home: go back to a home point, see it first, take it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..console import Console

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext


def undo_home(console: Console, context: UserContext, operation: str, dry_run: bool) -> int:
    from safekept.actions.undo.undo import UndoRequest, take_back

    from .undone import show_undone

    request = UndoRequest(operation=operation, dry_run=dry_run)
    undone = take_back(context, request, console.listener())
    console.finish()
    return show_undone(console, undone, request)


def go_back_home(
    console: Console,
    context: UserContext,
    point: str,
    place: str,
    files: tuple[str, ...],
    dry_run: bool,
    session: str,
    keep_days: float,
) -> int:
    from safekept.actions.projects.home_points.rollback import HomeRollbackRequest, roll_back_home

    from .home_points import show_home_outcome

    request = HomeRollbackRequest(point, files, place, dry_run, session, keep_days=keep_days)
    outcome = roll_back_home(context, request, console.listener())
    console.finish()
    return show_home_outcome(console, outcome)


def difference_home(
    console: Console, context: UserContext, point: str, place: str, files: tuple[str, ...]
) -> int:
    from safekept.actions.projects.home_points.difference import home_difference
    from safekept.actions.projects.home_points.rollback import HomeRollbackRequest

    from .home_points import show_home_difference

    found = home_difference(context, HomeRollbackRequest(point, files, place), console.listener())
    console.finish()
    return show_home_difference(console, found)
