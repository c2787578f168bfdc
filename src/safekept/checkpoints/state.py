"""What `status` shows of a project: the last success, the last failure, and what is not protected.

A failure to protect must never stop an agent and must never be silent; this is where it is reported. Small,
replaced whole, and worth nothing but its news: a file that cannot be read is as good as none.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, field

from safekept.core.files import quick_write
from safekept.core.files.small import read_document
from safekept.core.records import dataclass

NAME = "state.json"
#: Turns of other sessions that are remembered; those that never ended must not pile up.
_TURNS = 20


@dataclass(slots=True)
class State:
    """The state of one project."""

    project: str = ""
    last_success: dict[str, object] = field(
        default_factory=dict
    )  # time_ns, checkpoint, kind, changed, seconds
    last_failure: dict[str, object] = field(default_factory=dict)  # time_ns, code, what
    turns: list[list[str]] = field(
        default_factory=list
    )  # sessions and turns that touched it and are not marked yet
    passed: list[str] = field(default_factory=list)  # session and turn of the last full pass
    limited: dict[str, object] = field(default_factory=dict)  # since when only named files are taken, and why
    unprotected: dict[str, object] = field(default_factory=dict)  # what no point protects here, and since
    notices: list[str] = field(default_factory=list)
    marker: str = ""  # what made a project of it when it was last worked in; see `Root`

    def touched(self, turn: list[str]) -> None:
        """A turn is at work here; of each session the newest."""
        others = [other for other in self.turns if other[:1] != turn[:1]]
        self.turns = [*others[-_TURNS:], turn]

    def marked(self, turn: list[str]) -> None:
        self.turns = [other for other in self.turns if other != turn]

    def succeeded(self, checkpoint: str, kind: str, changed: bool, seconds: float) -> None:
        self.last_success = {
            "time_ns": time.time_ns(),
            "checkpoint": checkpoint,
            "kind": kind,
            "changed": changed,
            "seconds": round(seconds, 4),
        }

    def failed(self, code: str, what: str) -> None:
        self.last_failure = {"time_ns": time.time_ns(), "code": code, "what": what}


def read_state(directory: str) -> State:
    """The state as last written; an empty one where there is none."""
    return read_document(
        os.path.join(directory, NAME),
        lambda fields: State(**{name: fields[name] for name in State.__slots__ if name in fields}),
        State(),
    )


def write_state(directory: str, state: State) -> None:
    """Replace it; atomic, not synced."""
    quick_write(os.path.join(directory, NAME), json.dumps(asdict(state)).encode())
