"""`safekept run -- AGENT`: keep a project while an agent without hooks works in it."""

from __future__ import annotations

import contextlib
import os

import click

from safekept.settings.policies import policy_from

from ...options import Amount, home_options, report_option, start
from ...report_file import BesideConsole, refuse_unwritable
from ...words.lists import directory_of


@click.command("run", context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] --")
@click.argument("command", metavar="AGENT...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    default="",
    help="The project; default: where you are. The agent starts where you are all the same.",
)
@click.option(
    "--quiet",
    metavar="SECONDS",
    type=Amount(min=0.1, max=3600),
    default=2.0,
    show_default=True,
    help="A checkpoint is taken when nothing changed for so long.",
)
@click.option(
    "--snapshot/--no-snapshot", default=False, help="A quick snapshot of the home first; default: none."
)
@click.option("--anyway", is_flag=True, help="Start the agent even where the project cannot be kept.")
@report_option
@home_options
def command(
    command: tuple[str, ...],
    directory: str,
    quiet: float,
    snapshot: bool,
    anyway: bool,
    report: str,
    layout: str,
    home: str,
) -> int:
    """Run AGENT, and keep the project around DIR while it works: for agents without hooks.

    A checkpoint is taken before it starts, whenever its changes pause, and in the midst of changes that
    do not. It has the terminal, the signals and the exit status to itself. When it ended you see what
    changed, and may go back. Exit code: the agent's own; 1 if it was not started; 127 if there is none.
    """
    from safekept.actions.projects.checkpoint import project_around
    from safekept.core.errors import SafekeptError
    from safekept.integrations.run.running import RunRequest, run_agent

    from ...words.run import NOT_ASKED, Offer, RunWords, write_run_report

    settings, context, plain = start(False)
    console = BesideConsole(as_json=False, program=plain.program)
    if report:
        report = refuse_unwritable(report, "the agent was not started")
    place = directory_of(directory)
    refusal: SafekeptError | None = None
    try:
        project = project_around(context, place)
    except SafekeptError as error:
        refusal, project = error, os.path.realpath(place)
    request = RunRequest(
        command,
        project,
        policy_from(settings, context, home, layout),
        quiet,
        context.locate(home, layout, existing=False) if snapshot else None,
        anyway,
        os.path.join(settings.config_directory, "config.toml"),
        home,
        layout,
        refusal,
    )
    words = RunWords(console, request)
    try:
        ran = run_agent(context, request, words.listen, protected=words.protected, ended=words.ended)
    except Exception as error:
        if report:
            write_run_report(console, report, words.refused(error))
        raise
    assert ran.ended is not None
    choice, rolled_back = NOT_ASKED, None
    try:
        # The terminal may be gone with the agent; its exit status is told all the same.
        with contextlib.suppress(OSError):
            words.show_result(ran)
            ways = words.next_commands(ran)
            if ways and ran.account is not None and console.can_ask() and _in_front():
                offer = Offer(console, context, ran, words.where)
                choice = offer.ask()
                rolled_back = offer.outcome.as_dict() if offer.outcome else None
            else:
                for text, line in ways:
                    console.line(f"{text}: `{line}`")
    finally:  # also where the window is closed while it asks
        if report:
            write_run_report(console, report, words.document(ran, choice, rolled_back))
    return ran.ended.status


def _in_front() -> bool:
    """Whether an answer could be read: a job in the background would be stopped for trying."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
