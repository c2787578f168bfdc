"""A conversation that an agent keeps as files, brought back by the one landing.

Its transcript, what lies beside it under its id, and the agent's own list where that has to know it. Nothing
is replaced but such a list; what the landing keeps of it, and what it made, `undo` takes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from safekept.core.entries import BytesContent, Content, Entry, Kind, Remark
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener
from safekept.core.records import dataclass
from safekept.home.conversations import (
    BRING_BESIDE,
    LOOK_AT_OLDER,
    Conversation,
    LiveFiles,
    Returned,
    SessionDiffers,
    Transcripts,
)
from safekept.home.landing import Targets, plan_landing

from ...base.context import HomeRef, UserContext
from ...base.operations.homes import RestoreFacts
from ...restoring.prepared import PreparedLanding
from ...undo.safety_snapshot import take_undo_point
from .bringing_back import SessionRestored
from .opening import StoredChats, StoredFiles

_UNTOUCHED = "Nothing was changed"
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class BadSessionId(SafekeptError):
    code, exit_code = "bad-session-id", 2


class SessionFiles:
    """One stored conversation on its way into the live home."""

    def __init__(
        self,
        context: UserContext,
        place: HomeRef,
        stored: StoredChats,
        found: Conversation,
        new_id: str,
        deadline: float,
        keep_days: int,
    ) -> None:
        assert isinstance(stored.chats, Transcripts) and isinstance(stored.chats.files, StoredFiles)
        self.context, self.place, self.stored, self.found = context, place, stored, found
        self.chats, self.agent, self.old = stored.chats, stored.chats.agent, stored.chats.files
        self.live = LiveFiles(place.home)
        self.id = new_id or found.id
        self.request = _Request(deadline, keep_days)
        if new_id and not _ID.fullmatch(new_id):
            raise BadSessionId(
                f"`{new_id}` cannot be the id of a conversation of {place.layout.title}: its ids look like "
                f"`{found.id}`",
                kept=_UNTOUCHED,
                next_steps=("Give it one of the same form, for example by `uuidgen`",),
            )

    def bring_back(self, listener: Listener) -> SessionRestored:
        """Put it in place, or find that it is there. Raises SessionDiffers where another state of it is."""
        transcript = self.chats.path(self.found.id)
        returned = Returned(self.id, self.found.title)
        target = self._target(transcript)
        there = Transcripts(self.live, self.agent).one(self.id)
        if there or self.live.has(target):
            self._compare(transcript, there or target, returned)
            return SessionRestored("", returned, self.stored.live)
        entries = self._entries(transcript)
        plan = plan_landing(
            Gathered(entries), Targets(self.place.home), self.place.layout, only=[one.path for one in entries]
        )
        lists = {path for path in plan.replace if path in self._lists(transcript)}
        if taken := sorted({*plan.replace, *plan.compared} - lists):
            raise self._taken(taken[0])
        prepared = _Prepared(self.context, self.request, Gathered(entries), self.place, plan)
        work = RestoreFacts(snapshot=self.stored.opened.chosen.id, conversation=self.id)
        done = prepared.bring_back(work, f"before session {self.id}", listener)
        returned.messages = self.found.messages
        returned.notes += [f"{path} knows it again" for path in sorted(lists)]
        return SessionRestored(done.operation, returned, self.stored.live, done.undo_point)

    def _entries(self, transcript: str) -> list[Entry]:
        """What comes and is not there yet: the directories above each file first."""
        found: dict[str, Entry] = {}
        every = self.old.entries
        for path, entry in every.items():
            if path != transcript and not self.agent.belongs(path, transcript, self.found.id):
                continue
            target = self._target(path)
            if entry.kind is not Kind.FILE or self.live.has(target):
                continue
            found[target] = self._entry(entry, target)
        for path, data in self._lists(transcript).items():
            found[path] = _made(path, data, every.get(path))
        above = {
            "/".join(path.split("/")[:depth]) for path in found for depth in range(1, path.count("/") + 1)
        }
        made = [self._directory(path, found) for path in sorted(above) if not self.live.has(path)]
        return made + list(found.values())

    def _directory(self, path: str, found: dict[str, Entry]) -> Entry:
        """One that the live home has not: as the snapshot has it, else as private as what comes."""
        stored = self.old.entries.get(path)
        if stored is not None and stored.kind is Kind.DIRECTORY:
            return stored
        times = [one.mtime_ns for target, one in found.items() if target.startswith(path + "/")]
        return Entry(path, Kind.DIRECTORY, 0o700, max(times))

    def _lists(self, transcript: str) -> dict[str, bytes]:
        """The agent's own lists as they are to be."""
        lists = self.agent.listed(transcript, self.found.id, self.old, self.live)
        old, new = self.found.id.encode(), self.id.encode()
        return {path: data.replace(old, new) for path, data in lists.items()}

    def _target(self, path: str) -> str:
        """Where a stored file comes, under the new id; some names have only its start."""
        path = self.agent.placed(path, self.old, self.live)
        if self.id == self.found.id:
            return path
        above, slash, name = path.replace(self.found.id, self.id).rpartition("/")
        return above + slash + name.replace(self.found.id[:8], self.id[:8])

    def _entry(self, entry: Entry, target: str) -> Entry:
        if self.id == self.found.id:
            return replace(entry, path=target)
        old, new, opened = self.found.id.encode(), self.id.encode(), entry.open
        return Entry(
            target,
            entry.kind,
            entry.mode,
            entry.mtime_ns,
            entry.size,
            open=lambda: Renamed(opened(), old, new),
        )

    def _compare(self, transcript: str, there: str, returned: Returned) -> None:
        """It is there: the same, the same and more, or another conversation."""
        same, more = _begins_with(self.live.chunks(there), self.old.chunks(transcript))
        if same and self.id == self.found.id:
            returned.already = True
            returned.messages = self.found.messages
            if more:
                returned.notes.append("the live one has all of it, and more")
            return
        raise SessionDiffers(
            f"`{self.place.home}/{there}` is another state of session `{self.id}` than the snapshot has",
            kept=_UNTOUCHED,
            next_steps=(LOOK_AT_OLDER, BRING_BESIDE),
            session=self.id,
        )

    def _taken(self, path: str) -> SessionDiffers:
        return SessionDiffers(
            f"`{self.place.home}/{path}` is there, and is not what the snapshot has",
            kept=_UNTOUCHED,
            next_steps=(LOOK_AT_OLDER,),
            session=self.id,
        )


@dataclass(frozen=True, slots=True)
class _Request:
    """How it is brought back, in the words of a landing."""

    deadline: float
    keep_days: int
    into: str = ""
    allow_damaged: bool = False
    without_search: bool = False


@dataclass(slots=True)
class _Prepared(PreparedLanding):
    """The landing of one conversation."""

    noun: ClassVar[str] = "snapshot"
    point: ClassVar[str] = "pre-restore"

    @property
    def losses(self) -> list[tuple[str, str]]:
        return []

    def _undo_point(self, label: str, check: bool, listener: Listener) -> str:
        """Of what may be replaced, an agent's own list, which a quick snapshot has."""
        if not self.plan.replace:
            return ""
        return take_undo_point(
            self.context,
            self.place,
            self.point,
            label,
            quick=True,
            check=False,
            deadline=self.request.deadline,
            listener=listener,
        )


class Gathered:
    """These entries, and no others."""

    ordered = False

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        self.remarks: list[Remark] = []

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)


class Renamed(Content):
    """The bytes of another content with one id in place of another of the same length."""

    def __init__(self, content: Content, old: bytes, new: bytes) -> None:
        super().__init__()
        self._content, self._old, self._new = content, old, new
        self.size, self.mtime_ns = content.size, content.mtime_ns

    def chunks(self) -> Iterator[bytes]:
        held = b""
        for chunk in self._content.chunks():
            held = (held + chunk).replace(self._old, self._new)
            ready = max(
                0, len(held) - len(self._old) + 1
            )  # the id may begin in this chunk and end in the next
            yield held[:ready]
            held = held[ready:]
        yield held

    def close(self) -> None:
        self._content.close()


def _made(path: str, data: bytes, like: Entry | None) -> Entry:
    """A file that is written again, with the mode that it had."""
    mode, time = (like.mode, like.mtime_ns) if like is not None else (0o600, 0)
    return Entry(path, Kind.FILE, mode, time, len(data), open=lambda: BytesContent(data, time))


def _begins_with(longer: Iterator[bytes], shorter: Iterator[bytes]) -> tuple[bool, bool]:
    """Whether one begins with all of the other, and whether it has more."""
    rest = b""
    for chunk in shorter:
        while len(rest) < len(chunk):
            more = next(longer, b"")
            if not more:
                return False, False
            rest += more
        if not rest.startswith(chunk):
            return False, False
        rest = rest[len(chunk) :]
    return True, bool(rest or next(longer, b""))
