"""What a host is told back, and the words for the person who watches it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.errors import clause
from safekept.core.files import private_directory
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from .event import one_line

if TYPE_CHECKING:
    from ..calls import Call, Outcome, Problem, Uncovered


#: Of one sentence: a path of any length may be in it.
_SENTENCE = 400
#: In one answer; the rest is in `status`.
_SENTENCES = 3
#: A file that is yet to be made is not missing from a point; the others have a notice of their own.
_TOLD_OTHERWISE = frozenset({"gone", "too-much", "unmarked", "out-of-reach"})
#: Commands that change the files they name, as far as the reason of a point shows them.
_CHANGES = re.compile(r"(?<![\w./-])(?:rm|mv|cp|dd|tee|shred|truncate|unlink|sed -\w*i\w*)\s|>")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the hook program writes and how it ends. Never with 2, which stops a tool: with 0, and with 1
    where that is how a host is told nothing."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit: int = 0


SILENT = Answer()


def as_json(**fields: object) -> Answer:
    """One object on standard output, and nothing else there."""
    return Answer(json.dumps(fields, ensure_ascii=True).encode("ascii") + b"\n")


def with_context(answer: Answer, event: str, text: str) -> Answer:
    """The same with words for the model, as Claude Code takes them and those who followed it."""
    document = json.loads(answer.stdout or b"{}")
    document["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": text}
    return replace(answer, stdout=as_json(**document).stdout)


def to_stderr(words: str) -> Answer:
    return Answer(stderr=words.encode("utf-8", "replace") + b"\n" if words else b"")


def sentences(outcome: Outcome, call: Call) -> list[str]:
    """What the person has to know: what is not protected by this call, and why."""
    found = [_failed(one, outcome, call) for one in outcome.failures]
    found += [f"`{one.path}` is not kept: {_why(one)}" for one in outcome.skipped if _was_named(one, call)]
    found += outcome.notices
    return [one_line(f"safekept: {sentence}", _SENTENCE) for sentence in dict.fromkeys(found)]


def _failed(one: Problem, outcome: Outcome, call: Call) -> str:
    if not one.project and (outcome.checkpoints or outcome.home_point or call.kind != "before"):
        return one.what  # something is wrong, and the files are kept all the same
    when = f"before {call.tool} " if call.kind == "before" and call.tool else ""
    return f"{when}nothing could be kept{f' of `{one.project}`' if one.project else ''}: {clause(one.what)}"


def _was_named(one: Uncovered, call: Call) -> bool:
    """Whether the tool said that it would change this very file. What a full pass leaves is in `status`;
    of a command, only of one that writes or takes away: `cat .env` is no reason for words."""
    if one.reason in _TOLD_OTHERWISE or (call.shell and not _CHANGES.search(call.reason)):
        return False
    return any(
        path == one.path or os.path.normpath(os.path.join(call.directory, path)).endswith("/" + one.path)
        for path in call.paths[:100]
    )


def _why(one: Uncovered) -> str:
    from safekept.checkpoints.checkpoint import REASONS

    return REASONS.get(one.reason) or one.detail or one.reason


def spoken(lines: list[str]) -> str:
    """Sentences as one text; a long list is cut, with the command that shows the rest."""
    if not lines:
        return ""
    more = len(lines) - _SENTENCES
    tail = f"; {more} more" if more > 0 else ""
    return "; ".join(lines[:_SENTENCES]) + tail + f"; {NextStep('status', before='see')}"


# What a session was already told: hooks are a process per call, and a sentence should not come twice. What
# comes up on an event on which nothing can be said waits for the next one. Losing all of it costs a
# repeated sentence, so nothing here is synced and nothing raises.

#: A session that was told nothing for so long is over (seconds).
_OVER = 7 * 86400
#: Of what waits, in characters.
_WAITING = 20_000


class ShownMessages:
    """The memory of one session: the marks of what was said, and the sentences that wait."""

    def __init__(self, data_directory: str, host: str, session: str) -> None:
        self.directory = os.path.join(data_directory, "integrations", "said")
        self._marks = os.path.join(self.directory, f"{host}-{_mark(session)}")
        self._waiting = self._marks + ".later"

    def not_shown_yet(self, sentences: list[str]) -> list[str]:
        """What waited and what came up, without what this session has heard; it counts as said now."""
        waiting = _read(self._waiting).splitlines()
        if not sentences and not waiting:
            return []
        known = set(_read(self._marks).split())
        new = {mark: one for one in (*waiting, *sentences) if (mark := _mark(one)) not in known}
        if new:
            self._append(self._marks, new)
        if waiting:
            with contextlib.suppress(OSError):
                os.unlink(self._waiting)
        return list(new.values())

    def keep_for_later(self, sentences: list[str]) -> None:
        """For the next event on which something can be said."""
        if sentences and len(_read(self._waiting)) < _WAITING:
            self._append(self._waiting, sentences)

    def _append(self, path: str, lines: dict[str, str] | list[str]) -> None:
        with contextlib.suppress(OSError):
            private_directory(self.directory)
            _sweep(self.directory)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                file.write("".join(f"{line}\n" for line in lines))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def _sweep(directory: str) -> None:
    """Sessions end without saying so: a crash, a closed terminal."""
    now = time.time()
    with os.scandir(directory) as found:
        for entry in found:
            with contextlib.suppress(OSError):
                if now - entry.stat(follow_symlinks=False).st_mtime > _OVER:
                    os.unlink(entry.path)


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
