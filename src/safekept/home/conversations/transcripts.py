"""Conversations that an agent keeps as files: one transcript each, in lines of JSON.

An agent of this kind is one file beside this: which files are transcripts, what a line of one says, what else
belongs to a conversation, and which list of the agent's own has to know it. Files are read line by line; a
line that is no JSON, or longer than any that an agent writes, is passed over.
"""

from __future__ import annotations

import datetime
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from safekept.core.errors import BAD_SHAPE
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from .reader import UNTOUCHED, Conversation, ConversationReader, Message, NoSuchSession, latest_first

#: A longer line is no message.
LONGEST_LINE = 32 << 20
#: So much of a first message is its conversation's title.
_TITLE = 80


class Files(Protocol):
    """A home as files: one snapshot of it, or the live one. Paths are relative to it."""

    def paths(self, below: str) -> Iterable[str]:
        """Every file below a directory of the home."""

    def chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of one file; none where it cannot be read."""


@dataclass(slots=True)
class Told:
    """What a transcript says of itself, filled while its messages are read."""

    id: str = ""
    title: str = ""
    named: str = ""  # the title that its user gave it
    source: str = ""
    parent: str = ""
    started: float = 0.0

    def heard(self, message: Message) -> Message:
        """The first words of the person are its title, where it has no better one."""
        if message.role == "user" and not self.title:
            self.title = next(iter(message.text.strip().splitlines()), "")[:_TITLE]
        if message.time and (not self.started or message.time < self.started):
            self.started = message.time
        return message


class AgentFiles(ABC):
    """How one agent keeps its conversations."""

    directory: str  # what people call the place, below the home
    below: tuple[str, ...]  # where transcripts are

    @abstractmethod
    def is_transcript(self, path: str) -> bool: ...

    @abstractmethod
    def messages(self, path: str, records: Iterator[Mapping[str, Any]], told: Told) -> Iterator[Message]:
        """What was said, and while that is read, what the transcript says of itself."""

    @abstractmethod
    def belongs(self, path: str, transcript: str, session: str) -> bool:
        """Whether another file goes with this conversation."""

    #: Where such files may be, beside the transcript's own directory.
    beside: tuple[str, ...] = ()

    def names(self, files: Files) -> Mapping[str, str]:
        """Titles that the agent keeps in a list of its own."""
        return {}

    def placed(self, path: str, stored: Files, live: Files) -> str:
        """Where a stored file belongs in the live home."""
        return path

    def listed(self, transcript: str, session: str, stored: Files, live: Files) -> Mapping[str, bytes]:
        """The agent's own lists that have to know the conversation, as they are to be then."""
        return {}


class Transcripts(ConversationReader):
    """The conversations of one home that is kept as files."""

    def __init__(self, files: Files, agent: AgentFiles) -> None:
        self.files, self.agent, self.name = files, agent, agent.directory
        self._known: dict[str, tuple[Conversation, str]] | None = None

    def conversations(self) -> list[Conversation]:
        return latest_first([one for one, _ in self._read().values()])

    def messages(self, session: str) -> list[Message]:
        return list(self._messages(self.path(session), Told()))

    def path(self, session: str) -> str:
        """The transcript of a conversation."""
        found = self._read().get(session)
        if found is None:
            raise NoSuchSession(
                f"There is no transcript of `{session}`",
                kept=UNTOUCHED,
                next_steps=(NextStep("sessions list", before="See those that there are:"),),
            )
        return found[1]

    def one(self, session: str) -> str:
        """The transcript of a conversation, by reading only those whose name has the start of its id."""
        for path in self._paths():
            if session[:8] in path.rpartition("/")[2]:
                told = Told()
                for _ in self._messages(path, told):
                    pass
                if told.id == session:
                    return path
        return ""

    def _paths(self) -> Iterator[str]:
        for below in self.agent.below:
            yield from (path for path in self.files.paths(below) if self.agent.is_transcript(path))

    def _messages(self, path: str, told: Told) -> Iterator[Message]:
        for message in self.agent.messages(path, records(self.files.chunks(path)), told):
            yield told.heard(message)

    def _read(self) -> dict[str, tuple[Conversation, str]]:
        """Every conversation by its id, with its transcript; where two have one id, the longer."""
        if self._known is not None:
            return self._known
        found: dict[str, tuple[Conversation, str]] = {}
        names = self.agent.names(self.files)
        for path in self._paths():
            told = Told()
            count = sum(1 for _ in self._messages(path, told))
            if not told.id or (told.id in found and found[told.id][0].messages >= count):
                continue
            title = names.get(told.id) or told.named or told.title
            one = Conversation(told.id, title, told.source, told.parent, told.started, count)
            found[told.id] = (one, path)
        self._known = found
        return found


def records(chunks: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    """The objects in lines of JSON."""
    for line in _lines(chunks):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest, skipping = b"", False
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if not skipping and line.strip():
                yield line
            skipping = False
        if len(rest) > LONGEST_LINE:
            rest, skipping = b"", True
    if not skipping and rest.strip():
        yield rest


def document(chunks: Iterable[bytes]) -> Mapping[str, Any]:
    """A file that is one JSON object; an empty one where it is not, or too long."""
    text = b""
    for chunk in chunks:
        text += chunk
        if len(text) > LONGEST_LINE:
            return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def when(value: object) -> float:
    """`2026-11-18T14:48:12.041Z` as seconds; 0 where it is no time."""
    try:
        return datetime.datetime.fromisoformat(str(value)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def text_of(content: object, *kinds: str) -> str:
    """The text in a content: a string, or a list of parts of which these kinds have some."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = (part for part in content if isinstance(part, dict))
    found = (str(part.get("text") or "") for part in parts if not kinds or part.get("type") in kinds)
    return "\n".join(text for text in found if text)


def field(record: object, *names: str) -> object:
    """A field inside of fields; None where the shape is another."""
    for name in names:
        try:
            record = record[name]  # type: ignore[index]
        except BAD_SHAPE:
            return None
    return record
