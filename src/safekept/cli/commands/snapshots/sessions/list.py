"""`safekept sessions list`: the conversations of a snapshot, and how much of each the live database has."""

from __future__ import annotations

import time

import click

from safekept.actions.snapshots.sessions import Compared, list_sessions, stored_chats

from ....console import path_text
from ....options import common_options, source_options, start
from ....words.snapshots import named_home, session_options


@click.command("list")
@session_options
@source_options
@common_options
def command(word: str, profile: str, home: str, layout: str, as_json: bool) -> int:
    """See the conversations in a snapshot's state.db: id, start, messages there and here, title.

    `here` counts the messages that the live database has of the same session; `–` means that it has none.
    """
    _, context, console = start(as_json)
    place = context.locate(home, layout, existing=False)
    with stored_chats(context, place, word, profile, console.listener()) as stored:
        found = list_sessions(stored)
        console.finish()
        chosen = stored.opened.chosen
        console.document(
            {
                "snapshot": chosen.as_dict(),
                "database": stored.database,
                "sessions": [one.as_dict() for one in found],
            }
        )
        console.heading(f"{len(found):,} sessions in {path_text(stored.database)} of snapshot {chosen.short}")
        width = max((len(one.stored.id) for one in found), default=2)
        if found:
            console.line(f"  {'ID':<{width}}  {'STARTED':<16}  {'THERE':>6}  {'HERE':>6}  TITLE")
        for one in found:
            console.line(_line(one, width))
        gone = next((one for one in found if one.live_messages is None), None)
        if gone is not None:
            words = ("sessions", "restore", gone.stored.id, "--from", chosen.short)
            options = (*(("--profile", profile) if profile else ()), *named_home(home, layout))
            console.line(f"Bring one back: `{console.command(*words, *options)}`")
    return 0


def _line(one: Compared, width: int) -> str:
    stored, live = one.stored, one.live_messages
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(stored.started)) if stored.started else "–"
    here = "–" if live is None else "?" if live < 0 else f"{live:,}"
    title = path_text(stored.title) or path_text(stored.source)
    return f"  {path_text(stored.id):<{width}}  {started:<16}  {stored.messages:>6,}  {here:>6}  {title}"
