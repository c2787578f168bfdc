"""One operation as the journal tells it: its lines put together, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from safekept.core.ages import iso_time
from safekept.core.journal import VERSION, Record
from safekept.core.platform.processes import started
from safekept.core.processes.process import process_alive
from safekept.core.records import dataclass

from ..base.operations.facts import AnyFacts, Facts, written_facts

#: Outcomes beside the states of the journal, of what was begun and never ended.
RUNNING, KILLED = "running", "killed"
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
    def facts(self) -> dict[str, object]:
        """What all its lines say, to be shown; the last word counts."""
        return written_facts(*self.records)

    @property
    def common(self) -> AnyFacts:
        """The same as far as every verb says it."""
        return AnyFacts.read(*self.records)

    @property
    def work(self) -> Facts:
        """The same by the class of its verb."""
        from ..base.operations.facts import read_operation

        return read_operation(*self.records)

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
        return self.common.seconds

    @property
    def files(self) -> int | None:
        return self.common.files

    @property
    def bytes(self) -> int | None:
        return self.common.size

    @property
    def place(self) -> str:
        """The home or project that it was about; else the vault or destination, or the agent connected."""
        return self.common.place

    @property
    def error(self) -> Mapping[str, object]:
        """What went wrong: code, what, kept, next; empty where nothing did."""
        return self.common.error or {}

    def as_dict(self) -> dict[str, object]:
        common = self.common
        return {
            "operation": self.id,
            "verb": self.verb,
            "outcome": self.outcome,
            "time": iso_time(self.time),
            "actor": self.actor,
            "home": common.home,
            "project": common.project,
            "seconds": common.seconds,
            "files": common.files,
            "bytes": common.size,
            "error": dict(common.error) if common.error else None,
            "newer": self.newer,
        }


def operation_of(records: Sequence[Record]) -> Operation:
    """Put lines of one operation together; they come oldest first."""
    last = records[-1]
    outcome = last.state
    if outcome == "begun":
        outcome = RUNNING if _still_runs(last) else KILLED
    actor = next((who for one in reversed(records) if (who := Facts.read(one).actor)), "person")
    return Operation(last.operation, last.verb, outcome, last.time, actor, tuple(records))


def _still_runs(record: Record) -> bool:
    """Whether the process that wrote the line is still at work, and not another one with its number."""
    process = Facts.read(record).process
    if process is None or process <= 0 or not process_alive(process):
        return False
    began = started(process)
    return began is None or began <= record.time + _SLACK
