"""What every reader of conversations has in common, whatever the agent keeps them in.

A reader knows one state of one home: that of a snapshot, or the live one. It says which conversations there
are and what was said; finding one by a word, and searching what was said, are the same for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

UNTOUCHED = "Nothing was changed"


class NoConversations(SafekeptError):
    code = "no-conversations"


class NoSuchSession(SafekeptError):
    code = "no-such-session"


@dataclass(frozen=True, slots=True)
class Conversation:
    """One session."""

    id: str
    title: str
    source: str  # what it was begun by, or where it was held
    parent: str
    started: float
    messages: int

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "title": self.title,
            "source": self.source,
            "parent": self.parent,
            "started": self.started,
            "messages": self.messages,
        }


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a session."""

    role: str
    text: str
    time: float
    tool: str

    def as_dict(self) -> dict[str, object]:
        return {"role": self.role, "text": self.text, "time": self.time, "tool": self.tool}


class ConversationReader(ABC):
    """Conversations in one place, open for reading."""

    name: str  # what people call the place: a database or a directory, below the home

    @abstractmethod
    def conversations(self) -> list[Conversation]:
        """Every one, the latest first."""

    @abstractmethod
    def messages(self, session: str) -> list[Message]:
        """What was said, in order."""

    def find(self, word: str) -> Conversation:
        """By its id, the start of one, or its title."""
        every = self.conversations()
        exact = [one for one in every if one.id == word] or [one for one in every if one.title == word]
        matches = exact or [one for one in every if word and one.id.startswith(word)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise NoSuchSession(
                f"{len(matches):,} sessions of `{self.name}` are called or start with `{word}`",
                kept=UNTOUCHED,
                next_steps=("Name one by its whole id: " + ", ".join(f"`{one.id}`" for one in matches[:4]),),
                sessions=[one.id for one in matches],
            )
        raise NoSuchSession(
            f"There is no session `{word}` in `{self.name}` of that snapshot",
            kept=UNTOUCHED,
            next_steps=(NextStep("sessions list", before="See those that there are:"),),
            word=word,
        )

    def search(self, words: str) -> Iterator[tuple[Conversation, list[Message]]]:
        """Conversations in which this was said, in large or small letters, with where they said it."""
        wanted = words.casefold()
        for one in self.conversations():
            found = [said for said in self.messages(one.id) if wanted in said.text.casefold()]
            if found or wanted in one.title.casefold():
                yield one, found


def whole_file_instead() -> NextStep:
    return NextStep("snapshot restore", ("ID", "PATH"), before="Restore the file as a whole instead:")


def latest_first(found: list[Conversation]) -> list[Conversation]:
    return sorted(found, key=lambda one: (one.started, one.id), reverse=True)


def number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return 0.0
