"""`safekept sessions …`: one conversation out of a snapshot, without touching the others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from safekept.actions.snapshots.sessions.bringing_back import restore_session
from safekept.actions.snapshots.sessions.looking import (
    Compared,
    find_session,
    list_sessions,
    read_session,
    search_sessions,
)
from safekept.actions.snapshots.sessions.opening import StoredChats, stored_chats

from ...console import Console, count_text, path_text
from ...groups import LazyGroup
from ...options import common_options, source_options, start
from ...words.snapshots import age_text, named_home, session_options

if TYPE_CHECKING:
    from safekept.home.conversations import Conversation


@click.command("list")
@session_options
@source_options
@common_options
def list_command(word: str, profile: str, home: str, layout: str, as_json: bool) -> int:
    """See the conversations in a snapshot: id, start, messages there and here, title.

    Of Hermes, Claude Code, Codex, Gemini CLI and opencode; `--home` says whose. `here` counts the messages
    that the live home has of the same session; `–` means that it has none.
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
        console.heading(
            f"{count_text(len(found), 'session')} in {path_text(stored.database)} of snapshot {chosen.short}"
        )
        width = max((len(one.stored.id) for one in found), default=2)
        if found:
            console.line(f"  {'ID':<{width}}  {'STARTED':<16}  {'THERE':>6}  {'HERE':>6}  TITLE")
        for one in found:
            console.line(_line(one, width))
        gone = next((one for one in found if one.live_messages is None), None)
        if found:
            what, verb = ("Bring one back", "restore") if gone else ("Read one", "show")
            words = ("sessions", verb, (gone or found[0]).stored.id, "--from", chosen.short)
            options = (*(("--profile", profile) if profile else ()), *named_home(home, layout))
            console.line(f"{what}: `{console.command(*words, *options)}`")
    return 0


def _line(one: Compared, width: int) -> str:
    stored, live = one.stored, one.live_messages
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(stored.started)) if stored.started else "–"
    here = "–" if live is None else "?" if live < 0 else f"{live:,}"
    title = path_text(stored.title) or path_text(stored.source)
    return f"  {path_text(stored.id):<{width}}  {started:<16}  {stored.messages:>6,}  {here:>6}  {title}"


#: So many places of one conversation are shown, and so much before and after the words.
_SHOWN, _AROUND = 3, 40


@click.command("search")
@click.argument("words")
@session_options
@source_options
@common_options
def search_command(words: str, word: str, profile: str, home: str, layout: str, as_json: bool) -> int:
    """Find the conversations of a snapshot in which WORDS were said, in large or small letters."""
    _, context, console = start(as_json)
    place = context.locate(home, layout, existing=False)
    with stored_chats(context, place, word, profile, console.listener()) as stored:
        found = list(search_sessions(stored, words))
        console.finish()
        chosen = stored.opened.chosen
        console.document(
            {
                "snapshot": chosen.as_dict(),
                "database": stored.database,
                "sessions": [
                    {**one.as_dict(), "said": [message.as_dict() for message in said]} for one, said in found
                ],
            }
        )
        console.heading(f"{count_text(len(found), 'session')} of snapshot {chosen.short} with {words!r}")
        for one, said in found:
            started = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.started)) if one.started else "–"
            console.line(f"  {path_text(one.id)}  {started}  {path_text(one.title)}")
            for message in said[:_SHOWN]:
                console.line(f"    {path_text(message.role)}: {path_text(_around(message.text, words))}", 4)
            if len(said) > _SHOWN:
                console.line(f"    and {len(said) - _SHOWN:,} more", 4)
        if found:
            options = (*(("--profile", profile) if profile else ()), *named_home(home, layout))
            shown = console.command("sessions", "show", found[0][0].id, "--from", chosen.short, *options)
            console.line(f"Read one: `{shown}`")
    return 0


def _around(text: str, words: str) -> str:
    """The words with some of what stands around them, on one line."""
    at = max(0, text.casefold().find(words.casefold()))
    start, end = max(0, at - _AROUND), at + len(words) + _AROUND
    cut = " ".join(text[start:end].split())
    return ("…" if start else "") + cut + ("…" if end < len(text) else "")


@click.command("show")
@click.argument("session")
@session_options
@source_options
@common_options
def show_command(session: str, word: str, profile: str, home: str, layout: str, as_json: bool) -> int:
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
        count = count_text(found.messages, "message")
        console.heading(f"{path_text(found.title or found.id)} ({path_text(found.id)}, {count})")
        for message in messages:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(message.time)) if message.time else ""
            tool = f" {path_text(message.tool)}" if message.tool else ""
            console.line(f"{path_text(message.role)}{tool}  {when}", bold=True)
            console.line("  " + message.text.replace("\n", "\n  "), 2)
    return 0


@click.command("restore")
@click.argument("session")
@click.option(
    "--as", "new_id", metavar="NEWID", default="", help="Bring it back under another id, beside the live one."
)
@click.option("-f", "--yes", "--force", "yes", is_flag=True, help="Do not ask at a terminal; bring it back.")
@session_options
@source_options
@common_options
def restore_command(
    session: str, new_id: str, yes: bool, word: str, profile: str, home: str, layout: str, as_json: bool
) -> int:
    """Bring one conversation of a snapshot back into the live home, while the agent runs.

    It comes with its messages and with what belongs to it, and the agent's own list to resume from has it
    again. Nothing that is there is overwritten: a session with the same id and other messages is refused,
    and in Hermes's state.db messages whose ids are taken get new ones. At a terminal you are asked first;
    the printed `undo ID` takes it out again.
    """
    settings, context, console = start(as_json)
    place = context.locate(home, layout)
    with stored_chats(context, place, word, profile, console.listener()) as stored:
        found = find_session(context, stored, session, "restore", console.listener())
        console.finish()
        if console.can_ask() and not yes and not _is_here(stored, found):
            _show_plan(console, stored, found, new_id)
            if not console.ask("Continue?"):
                raise click.Abort
        done = restore_session(
            context,
            place,
            stored,
            found.id,
            new_name=new_id,
            deadline=settings.number("database.deadline"),
            keep_days=settings.whole("import.keep_days"),
            listener=console.listener(),
        )
        chosen = stored.opened.chosen
    console.finish()
    returned = done.returned
    undo = ""
    if not returned.already:
        undo = console.command("undo", done.operation, *(("--home", place.home) if home else ()))
    console.document(
        {
            "operation": done.operation,
            "snapshot": chosen.as_dict(),
            "database": done.database,
            **done.as_dict(),
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
    if done.undo_point and not returned.already:
        console.fact("Before", f"kept as snapshot {done.undo_point[:8]}")
    if undo:
        console.line(f"Take it back with: `{undo}`")
    return 0


def _is_here(stored: StoredChats, found: Conversation) -> bool:
    """Whether the live database has as much of it already: then nothing is done or asked."""
    live = next((one.live_messages for one in list_sessions(stored) if one.stored.id == found.id), None)
    return live == found.messages


def _show_plan(console: Console, stored: StoredChats, found: Conversation, new_id: str) -> None:
    console.heading(f"Bring session {path_text(found.id)} back into {path_text(stored.live)}")
    chosen = stored.opened.chosen
    console.fact("Snapshot", f"{chosen.short} ({chosen.kind}, {age_text(chosen, word='old')})")
    if found.title:
        console.fact("Title", path_text(found.title))
    if new_id:
        console.fact("Called", path_text(new_id))
    console.fact("Messages", f"{found.messages:,} come; nothing that is there is changed")


#: name -> (module, one line for --help); each is loaded only when called.
TABLE = {
    "list": (
        "safekept.cli.commands.snapshots.sessions:list_command",
        "See the conversations that a snapshot holds.",
    ),
    "search": (
        "safekept.cli.commands.snapshots.sessions:search_command",
        "Find those in which something was said.",
    ),
    "show": ("safekept.cli.commands.snapshots.sessions:show_command", "Read one of them."),
    "restore": (
        "safekept.cli.commands.snapshots.sessions:restore_command",
        "Bring one back into the live home.",
    ),
}


@click.group("sessions", cls=LazyGroup, table=TABLE, default="list")
def command() -> None:
    """Bring one conversation back out of a snapshot, and leave every other as it is."""
