"""One hook, start to end: read, protect, answer.

Whatever comes in and whatever goes wrong, the host gets an answer that lets it go on.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from ..calls import Call
from ..entry import HOSTS
from .answers import SILENT, Answer, ShownMessages, sentences, spoken
from .event import LARGEST, Event, Unreadable, read_event

if TYPE_CHECKING:
    from ..places import Place
    from .host import Host


def handle(host: str, raw: bytes, place: Place, cwd: str) -> Answer:
    """Answer one event of a host, `raw` being its standard input. Never raises."""
    answering = find_host(host)
    if answering is None:
        return SILENT  # a name that no file of ours writes; the command says so at a terminal
    try:
        return _handled(answering, raw, place, cwd)
    except Exception as error:
        _keep_trouble(place, answering, f"{type(error).__name__}: {error}")
        with contextlib.suppress(Exception):
            return answering.answer("", "")
        return SILENT


def find_host(name: str) -> Host | None:
    if name not in HOSTS:
        return None
    host: Host = import_module(f"safekept.integrations.hosts.{name.replace('-', '_')}").HOST
    return host


def _handled(host: Host, raw: bytes, place: Place, cwd: str) -> Answer:
    from ..protect import protect

    try:
        event = read_event(raw)
    except Unreadable as error:
        _keep_trouble(place, host, str(error))
        if len(raw) >= LARGEST:
            # A tool that is given that much is about to write it somewhere.
            protect(_whole_project(host, cwd), place)
        return host.answer("", "")
    event.environment, event.user_home = place.environment, place.user_home
    host = _who_it_is(host, event)
    if not host.knows(event):
        _keep_trouble(place, host, _unknown(host, event))
        return host.answer("", "")
    call = _in_a_turn(_with_named(host.call(event, cwd), host, event), place)
    if call.kind == "nothing":
        return host.answer(event.name, "")
    outcome = protect(call, place)
    if call.kind == "end" and not call.turn:
        _start_turn(call, place)
    shown = ShownMessages(place.data_directory, host.name, call.session)
    found = sentences(outcome, call)
    if event.name in host.mute:
        shown.keep_for_later(found)
        answer = host.answer(event.name, "")
    else:
        answer = host.answer(event.name, spoken(shown.not_shown_yet(found)))
    if outcome.context and host.add_context is not None:
        return host.add_context(answer, event.name, outcome.context)
    return answer


def _who_it_is(host: Host, event: Event) -> Host:
    """Cursor also runs the hooks of Claude Code, with events, tools and a contract of its own."""
    if host.name != "claude-code" or not ("cursor_version" in event.fields or event.name[:1].islower()):
        return host
    cursor = find_host("cursor")
    return cursor if cursor and ("cursor_version" in event.fields or cursor.knows(event)) else host


def _with_named(call: Call, host: Host, event: Event) -> Call:
    """With the files that a command or an unknown tool names, which a full pass may leave."""
    if call.kind != "before":
        return call
    from .commands import at_home, named_by, named_in

    paths = [at_home(path, call.directory, event.user_home) for path in call.paths]
    if call.shell:
        given = host.arguments(event)
        if command := given.command() or event.command():
            paths += named_by(command, call.directory, event.user_home)
        else:
            paths += named_in(call.tool, given.fields.values(), call.directory, event.user_home)
    return replace(call, paths=tuple(dict.fromkeys(paths)))


def _in_a_turn(call: Call, place: Place) -> Call:
    """With a turn to belong to, where neither the host names one nor a prompt was seen."""
    if call.kind != "before" or call.turn or not call.session:
        return call
    from safekept.actions.hosts.sessions import read_session

    if not read_session(place.data_directory, call.session).turn:
        _start_turn(call, place)
    return call


def _start_turn(call: Call, place: Place) -> str:
    from safekept.actions.hosts.sessions import begin_turn

    return begin_turn(place.data_directory, call.session) if call.session else ""


def _whole_project(host: Host, cwd: str) -> Call:
    words = "before a call too large to read"
    return Call("before", host.name, shell=True, directory=cwd, reason=words)  # noqa: S604 - a field


def _unknown(host: Host, event: Event) -> str:
    if not event.name:
        return f"{host.name} sent an event without a name"
    return f"{host.name} sent `{event.name}`, an event that this version of safekept does not know"


def _keep_trouble(place: Place, host: Host, what: str) -> None:
    """For `status`: a hook that understands nothing protects nothing."""
    from safekept.actions.hosts.calls import record_host_call

    with contextlib.suppress(Exception):
        record_host_call(place.data_directory, host.name, kept=False, failure=what)
