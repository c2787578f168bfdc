"""`safekept drill`: restore into an isolated place, check everything, and keep a receipt."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import click

from safekept.actions.drill.drill_report import called
from safekept.actions.drill.receipts import ARCHIVE, CHECKPOINTS, DESTINATION, Receipt
from safekept.core.ages import seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep, Step, next_document, reworded

from ..console import Console, count_text, path_text, size_text, time_text
from ..options import at_source, common_options, place_or_file, start
from ..sealing import passphrase_options
from ..words.landing_plan import show_rows

# Commands of the group `drill`; what they do is in `actions/drill`.


@click.command("drill")
@click.argument("word", metavar="[latest|N|ID|FILE]", required=False, default="latest")
@click.option(
    "--destination",
    metavar="NAME",
    default="",
    help="Drill the copy of the vault at this destination, a name or a URL; with the name of an "
    "archive, that archive.",
)
@click.option(
    "--vault",
    metavar="PATH|URL",
    default="",
    help="Drill a snapshot of this vault, or of the copy at this address.",
)
@click.option(
    "--identity", metavar="FILE", multiple=True, help="A file that opens a sealed archive; may be repeated."
)
@passphrase_options
@click.option("--checkpoints", is_flag=True, help="Drill the checkpoints of projects instead of a home.")
@click.option("--small", is_flag=True, help="The state files and a sample of the rest: quicker.")
@click.option(
    "--scratch",
    metavar="DIR",
    default="",
    help="Restore into this directory and no other; it must exist, have the room, and lie in no home.",
)
@common_options
def command(
    word: str,
    destination: str,
    vault: str,
    identity: tuple[str, ...],
    checkpoints: bool,
    small: bool,
    scratch: str,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Restore into an isolated place, check everything that came back, and keep a receipt.

    Without an argument: the newest snapshot of the whole home. With a FILE: that archive. With
    --checkpoints, a word names one project by its directory. Nothing of the live home is read or
    changed, and what was restored is removed again. Exit code 0: proven; 1: a check failed, or the
    drill could not run; 3: proven, but it says itself that it never held everything.
    """
    if checkpoints and (destination or vault or identity or small):
        raise click.UsageError("--checkpoints goes with --scratch and a directory only.")
    if destination and vault:
        raise click.UsageError("Give --vault or --destination, not both.")
    if vault:
        destination = place_or_file(vault, ())
    _, context, console = start(as_json)
    if checkpoints:
        from safekept.actions.drill.checkpoints import drill_checkpoints

        project = "" if word == "latest" else os.path.abspath(os.path.expanduser(word))
        drilled = drill_checkpoints(context, project, scratch, console.listener())
    else:
        from safekept.actions.drill.drill import DrillRequest, drill

        request = DrillRequest(word, home, layout, destination, identity, small, scratch)
        try:
            drilled = drill(context, request, console.listener())
        except SafekeptError as error:
            error.next_steps = _as_typed(error.next_steps, word, destination)
            raise
    console.finish()
    receipt = drilled.receipt
    following = next_document(drilled.next_steps)
    console.document({**receipt.as_dict(), "receipt": drilled.path, **following})
    _show(console, receipt, drilled.path, drilled.next_steps)
    if drilled.swept and not as_json:
        console.say(f"Note: removed what {count_text(len(drilled.swept), 'killed drill')} had left behind")
    if not receipt.ok:
        return 1
    return 0 if receipt.complete else 3


def _as_typed(steps: tuple[Step, ...], word: str, destination: str) -> tuple[Step, ...]:
    """The library does not know what was typed; a printed command must."""
    named = ["--vault" if "/" in destination or ":" in destination else "--destination", destination]
    place = named if destination else []
    file = word if destination else os.path.abspath(os.path.expanduser(word))

    def words(step: NextStep) -> NextStep:
        if step.verb == "import" and step.arguments[:2] == ("FILE", "--identity"):
            return replace(step, verb="drill", arguments=(file, *place, *step.arguments[1:]))
        if step.verb == "import" and "FILE" not in step.arguments:  # another archive that may be meant
            return replace(step, verb="drill")
        return at_source(place)(step)

    return reworded(steps, words)


def _show(console: Console, receipt: Receipt, path: str, steps: tuple[Step, ...]) -> None:
    console.heading(_verdict(receipt), receipt.ok)
    show_rows(console, receipt.rows)
    if receipt.subject != CHECKPOINTS:
        console.fact("Restored", f"{count_text(receipt.files, 'file')}, {size_text(receipt.bytes)}")
    console.fact("Time", time_text(receipt.seconds))
    if path:
        console.fact("Receipt", path_text(path))
    console.next(steps)


def _verdict(receipt: Receipt) -> str:
    what = _subject(receipt)
    if not receipt.ok:
        return f"NOT proven: {count_text(len(receipt.failed), 'check')} failed for {what}"
    some = " (a small drill: the state files and a sample)" if receipt.small else ""
    if not receipt.complete:
        return f"Proven restorable, as far as it goes: {what}{some}"
    return f"Proven restorable: {what}{some}"


def _subject(receipt: Receipt) -> str:
    if receipt.subject == CHECKPOINTS:
        return f"the checkpoints in {path_text(receipt.name)}"
    if receipt.subject == ARCHIVE:
        return path_text(receipt.name)
    text = called(receipt)
    if receipt.subject == DESTINATION:
        text += f" at {path_text(receipt.store)}"
    if receipt.taken:
        text += f", taken {seconds_text(max(0.0, time.time() - receipt.taken))} ago"
    return f"{text}, of {path_text(receipt.home)}" if receipt.home else text
