"""What taking a turn back did, or would do: the outcomes of its parts, and the whole as one rollback."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass

from .turn import Turn

if TYPE_CHECKING:
    from ..points import PointRollback


@dataclass(frozen=True, slots=True)
class TurnPart:
    """One place: what was done there, or why nothing was."""

    place: str
    outcome: PointRollback | None = None
    error: SafekeptError | None = None
    left: tuple[tuple[str, str], ...] = ()  # what stays, beside what the outcome says
    remarks: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return self.outcome is not None and self.outcome.changed

    @property
    def complete(self) -> bool:
        return self.error is None and not self.left and (self.outcome is None or self.outcome.complete)

    @property
    def stays(self) -> list[tuple[str, str]]:
        return [*self.left, *(self.outcome.stays if self.outcome is not None else ())]

    @property
    def notes(self) -> list[str]:
        # Of a place where nothing goes back, nothing needs to be said.
        return (
            [*self.remarks, *(self.outcome.notes if self.outcome is not None else ())] if self.changed else []
        )

    @property
    def worth_showing(self) -> bool:
        return self.changed or bool(self.stays) or self.error is not None

    def as_dict(self) -> dict[str, object]:
        return {
            "place": self.place or None,
            "rollback": self.outcome.as_dict() if self.outcome is not None else None,
            "left": [{"path": path, "reason": why} for path, why in self.left],
            "notes": list(self.remarks),
            "error": self.error.as_dict() if self.error is not None else None,
            "complete": self.complete,
        }


@dataclass(frozen=True, slots=True)
class TurnRollback:
    """A turn that went back, or would: one rollback in as many places as it has parts."""

    operation: str
    turn: Turn
    parts: tuple[TurnPart, ...]
    planned: bool = False
    undoes: bool = False
    seconds: float = 0.0

    @property
    def point(self) -> Turn:
        return self.turn

    @property
    def changed(self) -> bool:
        return any(part.changed for part in self.parts)

    @property
    def complete(self) -> bool:
        return all(part.complete for part in self.parts)

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Whole paths, and how each is changed."""
        return [
            (_below(part.place, path), action)
            for part in self.parts
            if part.outcome is not None
            for path, action in part.outcome.steps
        ]

    @property
    def stays(self) -> list[tuple[str, str]]:
        """What stays, and each place where nothing could be done."""
        found = [(_below(part.place, path), why) for part in self.parts for path, why in part.stays]
        return [
            *found,
            *((part.place or "an agent's home", part.error.what) for part in self.failed if part.error),
        ]

    @property
    def notes(self) -> list[str]:
        return [f"{part.place}: {note}" for part in self.parts for note in part.notes]

    @property
    def failed(self) -> list[TurnPart]:
        return [part for part in self.parts if part.error is not None]

    @property
    def plan_document(self) -> dict[str, object]:
        return self.as_dict()

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation or None,
            "turn": self.turn.as_dict(),
            "parts": [part.as_dict() for part in self.parts],
            "complete": self.complete,
            "seconds": round(self.seconds, 3),
        }


def same_steps(one: PointRollback, other: PointRollback) -> bool:
    """Whether two plans of one place come to the same."""
    return sorted(one.steps) == sorted(other.steps) and sorted(one.stays) == sorted(other.stays)


def places_of(parts: Iterable[TurnPart]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.place for part in parts if part.place))


def _below(place: str, path: str) -> str:
    return place if path == "." else os.path.join(place, path)
