"""`safekept notify`: who hears of it when something is wrong."""

from __future__ import annotations

import socket

import click

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ...groups import LazyGroup
from ...options import start


class NobodyToNotify(SafekeptError):
    code, exit_code = "nobody-to-notify", 2


@click.command("test")
@click.option("--dry-run", is_flag=True, help="Say who would be told; send nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def test_command(dry_run: bool, as_json: bool) -> int:
    """Send a test message to everybody who is set up, and say how it went with each.

    Exit code 0: all were reached; 3: some were not; 1: none was. The whole URL of a target is never shown.
    """
    from safekept.actions.alarms.notify import Notice, deliver

    _, context, console = start(as_json)
    targets = context.choices.notify
    if targets is None:
        raise NobodyToNotify(
            "No way to notify you is set up",
            kept="Nothing was sent",
            next_steps=(
                NextStep("settings", ("notify.email", "ADDRESS"), before="Say who is to hear of it:"),
                "Or set `notify.ntfy`, `notify.webhook` or `notify.command`",
            ),
        )
    if dry_run:
        console.document({"dry_run": True, "targets": list(targets.names())})
        console.heading("Would tell")
        for name in targets.names():
            console.item(name)
        console.line("Nothing was sent")
        return 0
    host = socket.gethostname()
    text = "If you can read this, safekept can reach you. Nothing is wrong."
    deliveries = deliver(context, Notice("test", f"safekept: a test from {host}", text))
    reached = [one for one in deliveries if one.ok]
    console.document({"dry_run": False, "targets": [one.as_dict() for one in deliveries]})
    console.heading(f"Reached {len(reached)} of {len(deliveries)}", len(reached) == len(deliveries))
    for one in deliveries:
        console.item(f"{one.target}: {'reached' if one.ok else one.reason}")
    return 0 if len(reached) == len(deliveries) else 3 if reached else 1


COMMANDS = {
    "test": (
        "safekept.cli.commands.status.notify:test_command",
        "Send a message to everybody who is set up.",
    ),
}


@click.group("notify", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Who hears of it when something is wrong: the settings `notify.*`."""
