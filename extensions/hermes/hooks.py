"""What Hermes tells while it works, and what the helper learns of it.

`pre_tool_call` waits for the helper: the tool runs when the state before it is kept. Everything else is a
message whose work is done elsewhere. In a batch of parallel calls Hermes asks all of these hooks before it
runs any of the tools, so each of them is saved as it was before all.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from . import places
from .elsewhere import named_projects
from .link import IMPATIENT, Link, client
from .messages import UserMessages, one_shot
from .record import remember_failure
from .sessions import Sessions
from .tools import Touch, goes_back, reason, touched

_log = logging.getLogger(__name__)
#: Where the copies of this plugin in one process agree which of them acts: for each home the last one. They
#: are modules of different names, and a logger is one in the whole process.
_ACTIVE = logging.getLogger("safekept.in_hermes")
_PENDING = 500
#: Seconds for a message whose result is not waited for.
_BRIEF = 5.0
#: Letters of what the person said that are handed on; the first line of it becomes the name of the turn.
_LOOKED_AT = 4_000

Callback = Callable[..., Any]


def guarded(function: Callback) -> Callback:
    """Nothing raises into Hermes, and a copy of this plugin that is not the last one is silent."""

    @functools.wraps(function)
    def wrapped(self: Hooks, **given: Any) -> Any:
        try:
            if _active().get(self.key) is self:
                return function(self, **given)
        except Exception as error:
            _log.warning("safekept: %s failed: %s", function.__name__, error, exc_info=True)
            self.voice.say(f"not protecting: {type(error).__name__}: {error}", _text(given, "session_id"))
        return None

    return wrapped


def _active() -> dict[str, object]:
    """By home, since Hermes from 0.21 on has a set of plugins for each profile that a process serves."""
    found = vars(_ACTIVE).get("homes")
    return found if isinstance(found, dict) else {}


class Hooks:
    """The callbacks, and what they know of each other."""

    def __init__(self, link: Link, voice: UserMessages) -> None:
        self.link, self.voice = link, voice
        self.sessions = Sessions()
        self.key = ""  # the home that it was registered for
        self.missed = 0  # files that a tool opened and that were not foreseen
        self._sent: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def take_over(self) -> None:
        """From now on this copy acts for its home, and no other."""
        self.key = os.path.realpath(self.link.home)
        vars(_ACTIVE)["homes"] = {**_active(), self.key: self}

    def callbacks(self) -> Iterator[tuple[str, Callback]]:
        yield "pre_tool_call", self.before_tool
        yield "post_tool_call", self.after_tool
        yield "pre_llm_call", self.turn_began
        yield "on_session_start", self.session_began
        yield "on_session_end", self.turn_ended
        yield "on_session_finalize", self.session_ended
        yield "subagent_start", self.subagent_began
        yield "subagent_stop", self.subagent_ended

    # ── tools ──────────────────────────────────────────────────────────────────────────────────

    @guarded
    def before_tool(self, **given: Any) -> None:
        tool, task, session = _text(given, "tool_name"), _text(given, "task_id"), _text(given, "session_id")
        touch = touched(tool, given.get("args"))
        if touch.nothing:
            return
        worker = self.sessions.worker(session, _text(given, "turn_id"), task)
        away = "" if touch.on_host else places.back_end(task)
        here = self.link.home
        paths, directory = self._reached(touch, task, here) if not away else (list(touch.named), "")
        call = {
            "kind": "before",
            "tool": tool,
            "paths": paths,
            "shell": touch.shell,
            "directory": directory,
            "session": worker.session,
            "turn": worker.turn,
            "agent": worker.agent,
            "reason": reason(tool, touch),
            "home": here,
            "out_of_reach": away,
        }
        if directory and not away:
            of_home = touch.in_home or places.is_within(directory, here)
            self.sessions.works_in(worker.session, directory, unless_known=of_home)
        self._remember(_key(given, tool), paths)
        self._tell(self.link.call(call, worker.session), worker.session)
        self._note_trouble(tool)

    def _reached(self, touch: Touch, task: str, here: str) -> tuple[list[str], str]:
        """The files, and the directory that the change is in."""
        if touch.skill:
            return places.skill(touch.skill, touch.category, here), here
        if touch.of_home:
            return [os.path.join(here, name) for name in touch.of_home], here
        if touch.shell:
            directories = places.command_directories(task, touch.workdir)
            paths = [*directories[1:], *named_projects(touch.command_text, directories[0])]
            if not places.is_within(directories[0], here) and places.mentions_home(
                touch.command_text, here, directories[0]
            ):
                paths.append(here)
            return paths, directories[0]
        found = [path for name in touch.named for path in places.opened(name, task, touch.text)]
        found = list(dict.fromkeys(found))
        return found, os.path.dirname(found[0]) if found else places.directory(task)

    @guarded
    def after_tool(self, **given: Any) -> None:
        tool, session = _text(given, "tool_name"), _text(given, "session_id")
        touch = touched(tool, given.get("args"))
        if touch.nothing:
            return
        task = _text(given, "task_id")
        worker = self.sessions.worker(session, _text(given, "turn_id"), task)
        foreseen = self._sent.pop(_key(given, tool), None)
        away = "" if touch.on_host else places.back_end(task)
        if foreseen is not None and touch.named and not away and _text(given, "status") == "ok":
            self._compare(tool, foreseen, given.get("result"), worker.session)
        if touch.shell and not away and not touch.background and _text(given, "status") != "blocked":
            directory = places.command_directories(task, touch.workdir)[0]
            own = goes_back(tool, touch.command_text)
            self._message("after", worker.session, worker.turn, directory, worker.agent, tool, own)

    def _compare(self, tool: str, foreseen: tuple[str, ...], result: object, session: str) -> None:
        """Whether the tool opened what was saved before it. Hermes says in its answer what it opened."""
        opened = _opened(result)
        known = {os.path.realpath(path) for path in foreseen}
        for path in opened:
            if os.path.realpath(path) in known:
                continue
            self.missed += 1
            what = f"`{tool}` wrote `{path}`, which was not foreseen and was not kept before"
            self.voice.say(f"not protecting: {what}", session)
            times = f" ({self.missed} times so far)" if self.missed > 1 else ""
            self._write_down(what + times)

    # ── turns and sessions ─────────────────────────────────────────────────────────────────────

    @guarded
    def turn_began(self, **given: Any) -> dict[str, str] | None:
        session, platform = _text(given, "session_id"), _text(given, "platform")
        if self.sessions.worker(session, "").agent:
            return None  # a subagent was told something, not the agent by the user
        self.voice.heard_on(session, platform)
        task = _text(given, "task_id")
        if self.sessions.begins(session):
            self._message("session-start", session, "", places.directory(task))
            self._say_out_of_reach(task, session)
        said = _text(given, "user_message")[:_LOOKED_AT]
        outcome = self._message("turn", session, _text(given, "turn_id"), places.directory(task), words=said)
        # What the agent itself has to know: the only words of ours that reach the model.
        context = outcome.get("context")
        return {"context": context} if isinstance(context, str) and context else None

    def _say_out_of_reach(self, task: str, session: str) -> None:
        away = places.back_end(task)
        if away:
            what = f"the tools of Hermes work in {away}, which cannot be reached: nothing there is kept"
            self.voice.say(f"not protecting: {what}", session)
            self._write_down(what)

    @guarded
    def session_began(self, **given: Any) -> None:
        self.voice.heard_on(_text(given, "session_id"), _text(given, "platform"))

    @guarded
    def turn_ended(self, **given: Any) -> None:
        session = _text(given, "session_id")
        worker = self.sessions.worker(session, _text(given, "turn_id"))
        if worker.agent:
            return  # its work is part of a turn that goes on
        directory = self.sessions.place_of(session) or places.directory(_text(given, "task_id"))
        self._message("end", worker.session, worker.turn, directory)
        if one_shot():
            # Nothing is told when `hermes -z` ends, and it ends without its exit handlers.
            self._message("session-end", worker.session, worker.turn, directory)

    @guarded
    def session_ended(self, **given: Any) -> None:
        session = _text(given, "session_id") or _text(given, "old_session_id")
        directory = self.sessions.place_of(session) or places.directory("")
        self._message("session-end", session, "", directory)
        self.sessions.ended(session)

    @guarded
    def subagent_began(self, **given: Any) -> None:
        name = _text(given, "child_subagent_id") or _text(given, "child_role") or "subagent"
        child = _text(given, "child_session_id")
        if child:
            self.sessions.subagent_began(
                _text(given, "parent_session_id"), _text(given, "parent_turn_id"), child, name
            )

    @guarded
    def subagent_ended(self, **given: Any) -> None:
        self.sessions.subagent_ended(_text(given, "child_session_id"))

    # ── telling ────────────────────────────────────────────────────────────────────────────────

    def _message(
        self,
        kind: str,
        session: str,
        turn: str,
        directory: str,
        agent: str = "",
        tool: str = "",
        goes_back: bool = False,
        words: str = "",
    ) -> dict[str, Any]:
        call = {
            "kind": kind,
            "tool": tool,
            "shell": kind == "after",
            "directory": directory,
            "session": session,
            "turn": turn,
            "agent": agent,
            "reason": f"after {tool}" if tool else "",
            "home": self.link.home,
            "goes_back": goes_back,
            "words": words,
        }
        deadline = 0.0 if kind == "session-start" else IMPATIENT if self.link.trouble else _BRIEF
        outcome = self.link.call(call, session, deadline)
        self._tell(outcome, session)
        return outcome

    def _tell(self, outcome: dict[str, Any], session: str) -> None:
        """What the user should hear of what came of a call."""
        for one in outcome.get("failures") or ():
            if isinstance(one, dict) and one.get("what"):
                self.voice.say(f"not protecting: {one['what']}", session)
        for text in outcome.get("notices") or ():
            if isinstance(text, str):
                self.voice.say(text, session)

    def _note_trouble(self, tool: str) -> None:
        if self.link.trouble:
            self._write_down(f"nothing was kept before `{tool}`: {self.link.trouble}")

    def _write_down(self, what: str) -> None:
        """For `safekept status`; where there is no safekept, it is not written."""
        if self.link.command:
            remember_failure(client.data_directory(self.link.environment()), what)

    def _remember(self, key: str, paths: list[str]) -> None:
        self._sent[key] = tuple(paths)
        while len(self._sent) > _PENDING:
            self._sent.popitem(last=False)


def _opened(result: object) -> list[str]:
    try:
        document = json.loads(result) if isinstance(result, str) else result
    except ValueError:
        return []
    if not isinstance(document, dict) or document.get("error"):
        return []
    found = document.get("files_modified")
    names = [*found] if isinstance(found, list) else []
    names.append(document.get("resolved_path"))
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def _key(given: dict[str, Any], tool: str) -> str:
    """What the two hooks of one call have in common. A tool that code calls has no id, and one thread."""
    return _text(given, "tool_call_id") or f"{threading.get_ident()} {tool}"


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""
