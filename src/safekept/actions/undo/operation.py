"""One operation as the journal tells it: its lines put together, and what became of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from safekept.core.ages import moment
from safekept.core.journal import VERSION, Record
from safekept.core.process import process_alive

#: Outcomes beside the states of the journal, of what was begun and never ended.
RUNNING, KILLED = "running", "killed"
_SIZES = ("bytes", "bytes_freed", "freed_bytes", "bytes_read", "stored_bytes")
#: Seconds by which clocks and ticks may differ.
_SLACK = 3.0


@dataclass(frozen=True, slots=True)
class Operation:
    """Who did what, when, how long it took, and how it ended."""

    id: str
    verb: str
    outcome: str  # a state of the journal, RUNNING or KILLED
    time: float  # when it ended, or was last heard of
    actor: str
    records: tuple[Record, ...]  # its lines, oldest first; at least one

    @property
    def facts(self) -> Mapping[str, object]:
        """What all its lines say; the last word counts."""
        return {name: value for record in self.records for name, value in record.facts.items()}

    @property
    def short(self) -> str:
        """The last letters of its id, which tell it from others and are quickly typed."""
        return self.id.rpartition("-")[2] or self.id

    @property
    def newer(self) -> bool:
        """Whether a later safekept wrote of it, so that there may be more to it."""
        return any(record.version > VERSION for record in self.records)

    @property
    def seconds(self) -> float | None:
        value = self.facts.get("seconds")
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    @property
    def files(self) -> int | None:
        return _whole(self.facts.get("files"))

    @property
    def bytes(self) -> int | None:
        facts = self.facts
        return next((size for name in _SIZES if (size := _whole(facts.get(name))) is not None), None)

    @property
    def place(self) -> str:
        """The home or project that it was about; else the vault or destination, or the agent connected."""
        facts = self.facts
        names = ("home", "project", "destination", "vault", "agent")
        return next((str(facts[name]) for name in names if facts.get(name)), "")

    @property
    def error(self) -> Mapping[str, object]:
        """What went wrong: code, what, kept, next; empty where nothing did."""
        found = self.facts.get("error")
        return found if isinstance(found, dict) else {}

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.id,
            "verb": self.verb,
            "outcome": self.outcome,
            "time": moment(self.time),
            "actor": self.actor,
            "home": self.facts.get("home"),
            "project": self.facts.get("project"),
            "seconds": self.seconds,
            "files": self.files,
            "bytes": self.bytes,
            "error": dict(self.error) or None,
            "newer": self.newer,
        }


def operation_of(records: Sequence[Record]) -> Operation:
    """Put lines of one operation together; they come oldest first."""
    last = records[-1]
    outcome = last.state
    if outcome == "begun":
        outcome = RUNNING if _still_runs(last) else KILLED
    actor = next((str(one.facts["actor"]) for one in reversed(records) if one.facts.get("actor")), "person")
    return Operation(last.operation, last.verb, outcome, last.time, actor, tuple(records))


def _still_runs(record: Record) -> bool:
    """Whether the process that wrote the line is still at work, and not another one with its number."""
    process = _whole(record.facts.get("process"))
    if process is None or process <= 0 or not process_alive(process):
        return False
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        since_boot = ticks / os.sysconf("SC_CLK_TCK")
        began = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot
    except (OSError, ValueError, IndexError, AttributeError):
        return True
    return began <= record.time + _SLACK


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
