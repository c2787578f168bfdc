"""What is written down of the rollback of a turn: which parts it has, and how far it came.

One private file for each, replaced whole before and after each part, so that one that was killed is gone on
with, and one `undo` takes back what was done, whatever became of the journal. Names and ids; no word of the
person's.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict, field

from safekept.core.files.small import read_fields, write_document
from safekept.core.records import dataclass

from ...base.context import UserContext
from . import records_directory

PLANNED, BEGUN, DONE, FAILED, UNCHANGED = "planned", "begun", "done", "failed", "unchanged"
GO, UNDO = "rollback-turn", "rollback-turn-undo"
#: So many are kept; the points that they go back to live no longer.
_KEPT = 200


@dataclass(slots=True)
class RecordedPart:
    """One place, and how far it came there."""

    kind: str  # CHECKPOINT or HOME, as of the part
    place: str
    point: str  # what it goes back to; of an undo: what `undo` was of the part that is taken back
    until: str = ""
    files: tuple[str, ...] = ()
    state: str = PLANNED
    undo: str = ""  # what takes it back: the point before a rollback, or the landing in a home
    why: str = ""  # where it failed


@dataclass(slots=True)
class TurnRecord:
    """One rollback of a turn, or one that was taken back."""

    operation: str
    verb: str  # GO or UNDO
    session: str
    turn: str
    began: float
    ended: float = 0.0
    undoes: str = ""
    overwrite_mine: bool = False
    parts: list[RecordedPart] = field(default_factory=list)

    @property
    def done(self) -> list[RecordedPart]:
        return [part for part in self.parts if part.state == DONE]

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.place for part in self.parts))


def write_record(context: UserContext, record: TurnRecord) -> None:
    """Durable when this returns. OSError where it cannot be written: then nothing is begun."""
    directory = records_directory(context)
    document = {**asdict(record), "version": 1}
    new = not os.path.exists(path := os.path.join(directory, f"{record.operation}.json"))
    write_document(path, document)
    if new:
        _forget(directory)


def read_records(context: UserContext) -> list[TurnRecord]:
    """All that are known, oldest first; what cannot be read is as good as none."""
    directory, found = records_directory(context), []
    for name in _names(directory):
        record = _read(read_fields(os.path.join(directory, name)))
        if record is not None and f"{record.operation}.json" == name:
            found.append(record)
    return sorted(found, key=lambda one: (one.began, one.operation))


def lock_path(context: UserContext) -> str:
    """Held from the plan of a turn's rollback to its end."""
    return os.path.join(context.places.data_directory, "turns", "rollback.lock")


def _names(directory: str) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(name for name in os.listdir(directory) if name.endswith(".json"))
    return []


def _forget(directory: str) -> None:
    for name in _names(directory)[:-_KEPT]:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(directory, name))


def _read(document: Mapping[str, object]) -> TurnRecord | None:
    parts = document.get("parts")
    texts = {name: document.get(name) for name in ("operation", "verb", "session", "turn", "undoes")}
    if not isinstance(parts, list) or not all(isinstance(one, str) for one in texts.values()):
        return None
    began, ended = document.get("began"), document.get("ended")
    return TurnRecord(
        **{name: str(value) for name, value in texts.items()},
        began=float(began) if isinstance(began, int | float) else 0.0,
        ended=float(ended) if isinstance(ended, int | float) else 0.0,
        overwrite_mine=document.get("overwrite_mine") is True,
        parts=[_read_part(one) for one in parts if isinstance(one, dict)],
    )


def _read_part(document: Mapping[str, object]) -> RecordedPart:
    def text(name: str) -> str:
        value = document.get(name)
        return value if isinstance(value, str) else ""

    files = document.get("files")
    names = tuple(str(one) for one in files) if isinstance(files, list) else ()
    return RecordedPart(
        text("kind"),
        text("place"),
        text("point"),
        text("until"),
        names,
        text("state"),
        text("undo"),
        text("why"),
    )
