"""What is remembered between two runs: one small file, replaced whole, and never a condition for working.

A file that is missing, torn or of a later kind is an empty memory: everything is then due, which costs a
run and loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from safekept.core.small_files import read_document, write_document

from .tasks import Past

VERSION = 1


@dataclass(frozen=True, slots=True)
class StepNote:
    """How one piece of work of a run ended."""

    task: str
    state: str  # done, incomplete, failed, postponed, absent, out-of-time
    seconds: float = 0.0
    text: str = ""
    error: str = ""  # its code

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class RunNote:
    """How one run ended. A run that says `begun` and is not at work any more was cut off."""

    operation: str
    started: float
    state: str  # begun, done, incomplete, failed
    seconds: float = 0.0
    steps: tuple[StepNote, ...] = ()
    process: int = 0  # who works on it, while it is `begun`

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "steps": [step.as_dict() for step in self.steps]}


@dataclass(slots=True)
class State:
    """All of it."""

    tasks: dict[str, Past] = field(default_factory=dict)
    run: RunNote | None = None  # the last one that had anything to do
    looked: float = 0.0  # when it was last looked whether anything is due
    slept: float = 0.0  # seconds that this machine had slept since its start, at that moment

    def past(self, name: str) -> Past:
        return self.tasks.get(name) or Past()


def read_state(path: str) -> State:
    return read_document(path, _state, State())


def _state(document: Mapping[str, Any]) -> State:
    if document["version"] != VERSION:
        return State()
    tasks = {str(name): _past(fields) for name, fields in document["tasks"].items()}
    looked, slept = (float(document.get(name) or 0.0) for name in ("looked", "slept"))
    return State(tasks, _run(document.get("run")), looked, slept)


def write_state(path: str, state: State) -> None:
    """OSError where it cannot be written; the caller decides what that is worth."""
    document = {
        "version": VERSION,
        "looked": state.looked,
        "slept": state.slept,
        "run": asdict(state.run) if state.run else None,
        "tasks": {name: asdict(past) for name, past in sorted(state.tasks.items())},
    }
    write_document(path, document)


def _past(fields: Mapping[str, object]) -> Past:
    known = asdict(Past())
    values = {name: fields[name] for name in known if name in fields}
    return Past(**{name: type(known[name])(value) for name, value in values.items()})


def _run(fields: Mapping[str, object] | None) -> RunNote | None:
    if not fields:
        return None
    steps = fields.get("steps")
    return RunNote(
        str(fields["operation"]),
        float(str(fields["started"])),
        str(fields["state"]),
        float(str(fields["seconds"])),
        tuple(StepNote(**step) for step in steps) if isinstance(steps, list) else (),
        int(str(fields.get("process") or 0)),
    )
