"""What the helper does for each request. An answer is keys and bytes; whatever goes wrong is one of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from ..calls import Call
from ..places import Place, PlaceCache

Answer = tuple[dict[str, str], bytes]


def answer(header: Mapping[str, str], body: bytes, places: PlaceCache) -> Answer:
    """Do what was asked for. Never raises: an `error` makes the client do the work itself."""
    work = _WORK.get(header.get("do", ""))
    if work is None:
        return {"error": f"there is nothing called `{header.get('do', '')[:40]}`"}, b""
    sent = {key[4:]: value for key, value in header.items() if key.startswith("env.")}
    try:
        return work(header, body, places.get(sent))
    except Exception as error:  # the helper outlives whatever one request does to it
        return {"error": f"{type(error).__name__}: {error}"[:1000]}, b""


def _hook(header: Mapping[str, str], body: bytes, place: Place) -> Answer:
    from ..hosts import handle

    found = handle(header.get("host", ""), body, place, _directory(header))
    return {
        "exit": str(found.exit),
        "stderr": found.stderr.decode("utf-8", "surrogateescape"),
    }, found.stdout


def _call(header: Mapping[str, str], body: bytes, place: Place) -> Answer:
    from ..protect import protect

    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError("a call is an object")
    outcome = protect(Call.from_dict(document), place)
    return {"exit": "0"}, json.dumps(outcome.as_dict()).encode()


def _chat(header: Mapping[str, str], body: bytes, place: Place) -> Answer:
    from ..chat.chat import Conversation, dispatch

    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError("a line of a chat is an object")
    words = {name: value for name, value in document.items() if isinstance(value, str)}
    session = words.get("session", "")
    conversation = Conversation(
        place.context.changed(actor="person"),  # an agent has tools; a line of a chat was typed
        words.get("directory") or _worked_in(place, session) or words.get("otherwise") or _directory(header),
        place.policy,
        session=session,
        home=words.get("home", ""),
    )
    reply = dispatch(conversation, words.get("line", ""))
    document = {"text": reply.text, "ok": reply.ok, "data": dict(reply.data)}
    return {"exit": "0" if reply.ok else "1"}, json.dumps(document, default=str).encode()


def _short(header: Mapping[str, str], body: bytes, place: Place) -> Answer:
    from ..in_process import short_line

    if place.troubles:
        raise place.troubles[0]
    return {"exit": "0"}, short_line(place).encode("utf-8", "surrogateescape")


def _worked_in(place: Place, session: str) -> str:
    """Where a session last changed something, for a front end that was started again since."""
    from safekept.actions.hosts.sessions import read_session

    return read_session(place.data_directory, session).directory if session else ""


def _directory(header: Mapping[str, str]) -> str:
    return header.get("cwd") or os.sep


_WORK: dict[str, Callable[[Mapping[str, str], bytes, Place], Answer]] = {
    "hook": _hook,
    "call": _call,
    "chat": _chat,
    "short": _short,
}
