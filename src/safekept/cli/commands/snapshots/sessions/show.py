"""`safekept sessions show SESSION`: read one conversation of a snapshot."""

from __future__ import annotations

import time

import click

from safekept.actions.snapshots.sessions import read_session, stored_chats

from ....console import count_text, path_text
from ....options import common_options, source_options, start
from ....words.snapshots import session_options


@click.command("show")
@click.argument("session")
@session_options
@source_options
@common_options
def command(session: str, word: str, profile: str, home: str, layout: str, as_json: bool) -> int:
    """Read one conversation of a snapshot. SESSION is its id, the start of one, or its title."""
    _, context, console = start(as_json)
    place = context.locate(home, layout, existing=False)
    with stored_chats(context, place, word, profile, console.listener()) as stored:
        found, messages = read_session(context, stored, session, console.listener())
        console.finish()
        console.document(
            {
                "snapshot": stored.opened.chosen.as_dict(),
                "database": stored.database,
                **found.as_dict(),
                "said": [message.as_dict() for message in messages],
            }
        )
        said = count_text(found.messages, "message")
        console.heading(f"{path_text(found.title or found.id)} ({path_text(found.id)}, {said})")
        for message in messages:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(message.time)) if message.time else ""
            tool = f" {path_text(message.tool)}" if message.tool else ""
            console.line(f"{path_text(message.role)}{tool}  {when}", bold=True)
            console.line("  " + message.text.replace("\n", "\n  "))
    return 0
