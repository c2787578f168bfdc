"""`safekept setup`: everything that protects this machine, in one go and with at most four questions."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from safekept.actions.base.unfinished import Unfinished, finished, read_unfinished, refuse_while_rebuilding
from safekept.core.errors import ConsentNeeded, SafekeptError
from safekept.core.next_step import NextStep

from ...console import Console
from ...interrupted import Interrupted, together
from ...options import start
from ..vault.options import new_passphrase, passphrase_options

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.vault.repo import Secret

    from .answers import Needs


@click.command("setup")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: what the options say, else the defaults.")
@passphrase_options
@click.option(
    "--destination",
    metavar="PLACE",
    default="",
    help="Where the second copy goes: a directory, sftp://, s3://, rest: or rclone:; default: nowhere yet.",
)
@click.option("--same-disk", is_flag=True, help="Yes, that directory lies on the same disk; I mean it.")
@click.option("--elsewhere", is_flag=True, help="It looks like this machine, and is another: a tunnel.")
@click.option(
    "--connect/--no-connect",
    default=None,
    help="Connect the agents and profiles that are here, or leave them alone; default: connect.",
)
@click.option("--at", metavar="TIME", default="", help="When it runs every night; `no` for never.")
@click.option("--kit", metavar="PATH", default="", help="Where the kit goes; default: your home directory.")
@click.option(
    "--home", "homes", metavar="PATH", multiple=True, help="Only this home; may be repeated; default: all."
)
@click.option("--dry-run", is_flag=True, help="Show what is here and what would be done; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    yes: bool,
    passphrase_fd: int | None,
    passphrase_file: str,
    passphrase_command: str,
    destination: str,
    same_disk: bool,
    elsewhere: bool,
    connect: bool | None,
    at: str,
    kit: str,
    homes: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Protect this machine: find every agent's home, ask at most four things, and do the rest.

    A recovery passphrase, a place for the second copy, the agents to connect, and a time. Then: a vault,
    the connections, a snapshot of each home, the second copy, a restore that proves it, every night from
    now on, and last the kit, a page that opens the vault on a bare machine. It ends with the verdict of
    `safekept status`. Run it again at any time: what is there stays, and only what is missing is
    offered. `safekept uninstall` is its mirror. Exit code 3: a step did not work, and is listed.
    """
    from safekept.actions.setup.survey import remembering
    from safekept.actions.vault.opening import refuse_half_made
    from safekept.integrations.connecting.program import PASSING

    from ...words.setup import host_words, show_found
    from .answers import Questions, from_options, needs_of, take_defaults
    from .dry_run import show_dry_run
    from .protecting import Protecting, looked

    settings, context, console = start(as_json)
    refuse_while_rebuilding(context)
    refuse_half_made(context)
    found, machine = looked(settings, context, homes)
    context = remembering(context, found.remember)
    needs = needs_of(found, can_schedule=machine.can_schedule, updates=bool(machine.updates))
    earlier = read_unfinished(context)
    given = bool(passphrase_file or passphrase_command or passphrase_fd is not None)
    if earlier is not None and earlier.is_left("passphrase"):
        needs = replace(needs, passphrase=True)  # one may be there that was never shown
    elif earlier is not None and earlier.made and (given or (console.can_ask() and not yes)):
        needs = replace(needs, passphrase=True)  # one was shown, and may be lost
    at_now = settings.text("schedule.at")
    show_found(console, settings.user_home, found, at_now, None if needs.passphrase else earlier)
    if machine.program.passing:
        console.say(f"Note: {PASSING}")
    secret: Secret | None = None
    if needs.passphrase and given and not dry_run:
        secret = new_passphrase(
            console, passphrase_command, passphrase_file, passphrase_fd, "Recovery passphrase"
        )
    answers, left = from_options(
        console,
        context,
        needs,
        secret,
        destination,
        flags={"same_disk": same_disk, "elsewhere": elsewhere},
        connect=connect,
        at=at,
        dry_run=dry_run,
        asks=console.can_ask() and not yes and not dry_run,
    )
    if dry_run and given:  # it is not even read
        left = replace(left, passphrase=False)
    if at and answers.at and machine.no_host is not None:
        raise machine.no_host
    if yes and left.passphrase:
        from safekept.actions.vault.keys.passphrase import NoPassphrase

        raise NoPassphrase.given(yes=True)
    begun = Unfinished("setup", tuple(word for path in homes for word in ("--home", os.path.abspath(path))))
    before = list(earlier.done) if earlier is not None else []
    begun.done, begun.saved = list(before), list(earlier.saved) if earlier is not None else []
    work = Protecting(console, settings, context, found, machine, begun)
    if dry_run:
        show_dry_run(console, work, needs, left, answers, kit, asks=not yes)
        return 0
    if left.count and not yes:
        _require_person(console, left)
        Questions(console, context, left, answers, earlier).ask(
            found, settings.text("schedule.at"), updates=machine.updates, host=host_words(machine)
        )
    elif left.count:
        take_defaults(answers, left, settings.text("schedule.at"))
    if earlier is not None and earlier.made:
        begun.made, begun.since = earlier.made, earlier.since
        answers.replaces = earlier.made if answers.passphrase is not None else ""
    try:
        with together():
            work.save(answers, needs)
        ended = work.carry_out(answers, kit)
    except (KeyboardInterrupt, click.Abort) as error:
        raise Interrupted.when(begun.stands, begun.again) from error
    except SafekeptError:
        if set(begun.done) <= set(before):
            _as_before(context, earlier)
        raise
    console.document({"dry_run": False, **ended.document})
    return ended.code


def _as_before(context: UserContext, earlier: Unfinished | None) -> None:
    """Nothing was done: what is remembered is what was begun before."""
    if earlier is None:
        finished(context)
    else:
        earlier.write(context)


def _require_person(console: Console, left: Needs) -> None:
    if console.can_ask():
        return
    many = "a question" if left.count == 1 else f"{left.count} questions"
    raise ConsentNeeded(
        f"setup has {many} to ask, and there is no terminal to ask at",
        kept="Nothing was changed",
        next_steps=(
            NextStep("setup", ("--dry-run",), before="See what it would do:"),
            NextStep(
                "setup",
                ("--yes", "--passphrase-file", "FILE", "--destination", "PLACE"),
                before="Answer by options:",
            ),
        ),
    )
