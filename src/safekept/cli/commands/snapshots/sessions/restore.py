"""`safekept sessions restore SESSION`: bring one conversation back into the live database."""

from __future__ import annotations

import click

from safekept.actions.snapshots.sessions import restore_session, stored_chats

from ....console import count_text, path_text
from ....options import common_options, source_options, start
from ....words.snapshots import named_home, session_options


@click.command("restore")
@click.argument("session")
@click.option("--as", "new_id", metavar="NEWID", default="", help="Bring it back under another id.")
@session_options
@source_options
@common_options
def command(session: str, new_id: str, word: str, profile: str, home: str, layout: str, as_json: bool) -> int:
    """Bring one conversation of a snapshot back into the live state.db, while the agent runs.

    It comes with its messages and with the parent sessions that are missing, and can be searched as
    before. Nothing that is there is overwritten: a session with the same id and other messages is
    refused, and messages whose ids are taken get new ones.
    """
    settings, context, console = start(as_json)
    place = context.locate(home, layout)
    with stored_chats(context, place, word, profile, console.listener()) as stored:
        done = restore_session(
            context,
            place,
            stored,
            session,
            new_name=new_id,
            deadline=settings.number("database.deadline"),
            listener=console.listener(),
        )
        chosen = stored.opened.chosen
    console.finish()
    returned = done.returned
    undo = ""
    if done.undo_point.id and not returned.already:
        words = ("snapshot", "restore", done.undo_point.id[:8], stored.database)
        undo = console.command(*words, *named_home(home, layout))
    console.document(
        {
            "operation": done.operation,
            "snapshot": chosen.as_dict(),
            "database": done.database,
            **returned.as_dict(),
            "undo_point": done.undo_point.id,
            "undo": undo,
        }
    )
    if returned.already:
        console.heading(f"Session {path_text(returned.session)} is there already; nothing was changed")
    else:
        console.heading(f"Session {path_text(returned.session)} is back in {path_text(done.database)}")
        console.fact("Messages", f"{returned.messages:,}")
    if returned.title:
        console.fact("Title", path_text(returned.title))
    if returned.parents:
        names = ", ".join(map(path_text, returned.parents))
        console.fact("Parents", f"{count_text(len(returned.parents), 'session')} came with it: {names}")
    for note in returned.notes:
        console.fact("Note", path_text(note))
    if undo:
        console.fact("Before", f"kept as snapshot {done.undo_point.id[:8]}")
        console.line(f"To have the whole database as it was before, later messages lost: `{undo}`")
    return 0
