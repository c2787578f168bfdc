"""`safekept guard -- COMMAND`: run something risky between a snapshot and a health check."""

from __future__ import annotations

import click

from safekept.actions.guard.guard import guard
from safekept.actions.guard.guard_types import GuardRequest
from safekept.home.scan import Selection

from ..options import home_options, report_option, start
from ..report_file import refuse_unwritable
from ..words.guard import GuardWords, write_guard_report

# Commands of the group `guard`; what they do is in `actions/guard`.


@click.command("guard", context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] --")
@click.argument("command", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--kind",
    type=click.Choice(("pre-update", "pre-migration")),
    help="What the snapshot is for; default: pre-update, pre-migration before `hermes claw migrate`.",
)
@click.option("-l", "--label", metavar="TEXT", default="", help="A few words to know the snapshot by.")
@click.option(
    "--backup/--no-backup",
    "backup",
    default=None,
    help="Also write a zip into the home, or take no snapshot, so that nothing is checked either.",
)
@click.option("--anyway", is_flag=True, help="Run the command even where no snapshot could be taken.")
@click.option(
    "--auto-restore",
    is_flag=True,
    help="Bring back at once what is lost beyond doubt: databases that do not open any more, "
    "emptied cron jobs.",
)
@report_option
@home_options
def command(
    command: tuple[str, ...],
    kind: str | None,
    label: str,
    backup: bool | None,
    anyway: bool,
    auto_restore: bool,
    report: str,
    layout: str,
    home: str,
) -> int:
    """Run COMMAND between a snapshot of the home and a check that nothing was lost.

    The command has the terminal, the signals and the exit status to itself; what guard says goes to
    stderr. Each loss is named with the command that brings it back. Exit code: the command's own; where
    that is 0, 3 if something was lost; 1 if the command was not run because no snapshot could be taken.
    """
    settings, context, console = start(False)
    if report:
        report = refuse_unwritable(report, "the command was not run")
    request = GuardRequest(
        context.locate(home, layout, existing=False),
        command,
        kind or "",
        label,
        backup,
        anyway,
        auto_restore,
        Selection(include=settings.texts("backup.include"), exclude=settings.texts("backup.exclude")),
        settings.text("updates.pre_update_backup"),
        settings.whole("updates.backup_keep"),
        settings.number("database.deadline"),
        settings.whole("import.keep_days"),
    )
    words = GuardWords(console, context, request)
    try:
        guarded = guard(context, request, words.listen, protected=words.protected, ended=words.ended)
    except Exception as error:
        if report:
            write_guard_report(console, report, words.refused(error))
        raise
    console.finish()
    words.checked(guarded)
    if report:
        write_guard_report(console, report, words.document(guarded))
    return guarded.exit_code
