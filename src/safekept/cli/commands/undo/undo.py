"""`safekept undo [ID]`: take the last import, restore or rollback back, or an earlier operation."""

from __future__ import annotations

import click

from safekept.actions.undo.undo import UndoRequest, take_back
from safekept.settings.policies import policy_from

from ...options import common_options, start
from ...words.lists import directory_of
from ...words.rollback import show_undone, show_what_goes


@click.command("undo")
@click.argument("operation", metavar="[ID]", required=False, default="")
@click.option("--dir", "directory", metavar="DIR", default="", help="Only rollbacks of this project.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show what would be taken back, and what was changed since; change nothing.",
)
@common_options
def command(operation: str, directory: str, dry_run: bool, home: str, layout: str, as_json: bool) -> int:
    """Take the last import, restore or rollback back, or the operation with the given ID.

    The last one where you stand: in a project or a home, its own; anywhere else the last of all, but no
    project is changed that you neither stand in nor rolled back from there: then its own command is printed.
    It never asks, and says first what it takes back; every command that can be taken back prints its ID.
    What it replaced returns; what it created, and anything changed since in a home, is set aside and
    not deleted; what was changed since in a project stays. An undo can itself be undone by calling it
    again. With --home only changes of that home are meant, with --dir only rollbacks of that project.
    """
    if directory and (home or layout):
        raise click.UsageError("--dir means a project and --home a home; not both.")
    settings, context, console = start(as_json)
    request = UndoRequest(
        operation=operation,
        home=home,
        layout=layout,
        directory=directory_of(directory) if directory else "",
        dry_run=dry_run,
        deadline=settings.number("database.deadline"),
        keep_days=settings.number("import.keep_days"),
        settings=policy_from(settings, context, home, layout).take,
        agreed=lambda undone: show_what_goes(console, undone),
    )
    undone = take_back(context, request, console.listener())
    console.finish()
    return show_undone(console, undone, request)
