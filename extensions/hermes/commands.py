"""The verbs a person can say: in the chat, in a gateway, and as `hermes safekept …`.

Hermes keeps `/rollback`, `/snapshot` and `/snap` for itself and refuses them to plugins. In gateways they
are turned into ours before Hermes sees them; at its terminal, where that cannot be, ours have other names.
All of them speak one grammar, safekept's own.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from . import places
from .hooks import Hooks
from .link import Link

_log = logging.getLogger(__name__)
#: The conversation of a gateway whose message is being dealt with.
_SPEAKER: contextvars.ContextVar[str] = contextvars.ContextVar("safekept_speaker", default="")
#: Seconds for what a person asked for: a restore may take a while.
_PATIENT = 300.0
_OURS = {"rollback": "/rewind", "snapshot": "/safekept snapshot", "snap": "/safekept snapshot"}
_VERBS = ("rollback", "rewind", "snapshot", "snap", "restore", "checkpoint")
_HELP = """/rewind [N|ID [FILE …]]     the checkpoints of the project; go back to one, wholly or some files
/rewind diff [N|ID] [FILE]  what changed since
/rewind undo [ID]           take the last rollback back, or the one with that id
/checkpoint [WORDS]         keep the project as it is now
/restore [ID|N [PATH]]      the snapshots of the home; bring one path of one back
/restore ID yes             bring all of it back; without `yes`, see what that would do
/safekept snapshot …        list, create [LABEL], restore ID|N [PATH], prune [N]
/safekept [status|on|off]   whether checkpoints are taken in this session
In gateways also /rollback, /snapshot and /snap."""

Handler = Callable[[str], str | Coroutine[Any, Any, str]]


def _in_our_words(text: str) -> str:
    """At Hermes's own terminal the verbs have other names."""
    for theirs, ours in ((r"snapshot restore", "/restore"), ("snapshot", "/safekept snapshot")):
        text = re.sub(rf"(?<![\w./-])/{theirs}\b(?!/)", ours, text)
    return re.sub(r"(?<![\w./-])/rollback\b(?!/)", "/rewind", text)


class Commands:
    """What is registered with Hermes besides the hooks."""

    def __init__(self, link: Link, hooks: Hooks) -> None:
        self.link, self.hooks = link, hooks

    def chat(self) -> Iterator[tuple[str, Handler, str, str]]:
        """Name, handler, description and hint of every slash command."""
        request = {
            "rewind": ("Undo what the agent did to the project (safekept)", "[N|ID [FILE]|diff|undo]"),
            "restore": ("Bring a snapshot of the home back (safekept)", "[ID|N [PATH]]"),
            "checkpoint": ("Keep the project as it is now (safekept)", "[words]"),
            "safekept": ("Whether this session is protected", "[status|on|off|snapshot …]"),
        }
        for name, (description, hint) in request.items():
            yield name, self._handler(name), description, hint

    def _handler(self, name: str) -> Handler:
        def handle(raw_args: str) -> str | Coroutine[Any, Any, str]:
            asked = f"/{name} {(raw_args or '').strip()}".strip()
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return self.answer(asked)
            # A gateway deals with every chat in one loop: it must not stand still meanwhile.
            return asyncio.to_thread(self.answer, asked)

        return handle

    def answer(self, line: str) -> str:
        """The answer to one line such as `/rewind 2`; it never raises."""
        try:
            return self._answer(line)
        except Exception as error:
            _log.warning("safekept: `%s` failed: %s", line, error, exc_info=True)
            return f"❌ {type(error).__name__}: {error}"

    def _answer(self, line: str) -> str:
        verb, _, rest = line.strip().removeprefix("/").partition(" ")
        first, _, more = rest.strip().partition(" ")
        if verb == "safekept" and first.lower() in _VERBS:
            verb, rest = first.lower(), more
        if verb == "safekept" and first.lower() == "help":
            return _HELP
        if verb == "restore" and not rest.strip():
            verb = "snapshot"
        session, directory = self._where()
        question = {
            "line": f"/{verb} {rest}".strip(),
            "directory": directory,  # empty: where safekept knows that this session worked
            "otherwise": places.directory(session),
            "session": session,
            "home": self.link.home,
        }
        reply = self.link.ask("chat", question, session, _PATIENT)
        text = str(reply.get("text") or self._unanswered())
        if verb == "safekept" and first.lower() in ("", "status"):
            text = "\n".join([text, *self._remarks()])
        return text if _SPEAKER.get() else _in_our_words(text)

    def _remarks(self) -> Iterator[str]:
        """What only this process of Hermes knows."""
        if away := places.back_end(""):
            yield f"The tools work in {away}, which safekept cannot reach: nothing there is kept."
        if missed := self.hooks.missed:
            yield f"{missed} files were written that had not been foreseen; see `safekept status`."
        yield "/safekept help shows what you can say."

    def _unanswered(self) -> str:
        return f"❌ safekept is not protecting: {self.link.trouble or 'no answer'}"

    def _where(self) -> tuple[str, str]:
        """The conversation that speaks, and the directory that it means: where it last changed something.

        A gateway that was started again does not know it; at the terminal it is then where Hermes stands.
        """
        speaker = _SPEAKER.get()
        if speaker:
            session = speaker.removeprefix("?")
            return session, self.hooks.sessions.place_of(session)
        session, place = self.hooks.sessions.latest()
        return session, place or places.directory(session)

    # ── gateways ───────────────────────────────────────────────────────────────────────────────

    def rewritten(self, **given: Any) -> dict[str, str] | None:
        """`/rollback 2` of a chat becomes ours. Who may say it is Hermes's to decide, before and after."""
        try:
            return self._rewritten(given.get("event"), given.get("gateway"), given.get("session_store"))
        except Exception as error:
            _log.warning("safekept: a message was left as it is: %s", error, exc_info=True)
            return None

    def _rewritten(self, event: Any, gateway: Any, store: Any) -> dict[str, str] | None:
        text = getattr(event, "text", "")
        if not isinstance(text, str) or not text.startswith("/"):
            return None
        first, _, rest = text.partition(" ") if " " in text else text.partition("\n")
        name = first[1:].partition("@")[0].lower()
        source = getattr(event, "source", None)
        key = gateway._session_key_for_source(source) if hasattr(gateway, "_session_key_for_source") else ""
        if hasattr(store, "_ensure_loaded"):
            store._ensure_loaded()  # after a start Hermes has not read yet which conversation this is
        entry = getattr(store, "_entries", {}).get(key)
        _SPEAKER.set(str(getattr(entry, "session_id", "") or "?"))
        if name not in _OURS or not self.link.command:
            return None
        if key in getattr(gateway, "_running_agents", {}):
            return None  # Hermes answers that its agent is busy; our names it would take for a message
        denied = getattr(gateway, "_check_slash_access", None)
        meant = "rollback" if name == "rollback" else "snapshot"
        if denied is not None and denied(source, meant) is not None:
            return None  # Hermes says so itself
        return {"action": "rewrite", "text": f"{_OURS[name]} {rest.strip()}".strip()}

    # ── hermes safekept … ──────────────────────────────────────────────────────────────────────

    def prepare(self, parser: Any) -> None:
        """Everything after `hermes safekept` is the program's, options included."""
        parser.prefix_chars = "\0"
        parser.add_argument("words", nargs="...", metavar="…", help="as for `safekept`")

    def run(self, given: Any) -> int:
        """Run the program in the foreground; its exit code is ours."""
        command = self.link.command
        if not command:
            sys.stderr.write("safekept is not installed here\n")
            raise SystemExit(1)
        done = subprocess.run([*command, *getattr(given, "words", [])], env=self.link.environment())
        raise SystemExit(done.returncode)
