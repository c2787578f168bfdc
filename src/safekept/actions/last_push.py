"""What the journal remembers of pushes to a destination: the last one, and the last that ended well."""

from __future__ import annotations

from dataclasses import dataclass

from safekept.actions.surroundings import Surroundings
from safekept.core.journal import Record


@dataclass(frozen=True, slots=True)
class LastPush:
    """The last push to a destination, and the last that ended well."""

    time: float  # of the last try; when it ended
    state: str  # done, incomplete, failed, interrupted, absent
    done: float  # when one last ended well; 0: never
    snapshots: int
    bytes: int
    archive: str
    error: str


def last_push(surroundings: Surroundings, destination: str) -> LastPush | None:
    """What the journal knows of pushes to a destination; None where there never was one."""
    last: Record | None = None
    good: Record | None = None
    for entry in surroundings.journal.read():
        if entry.verb != "push" or entry.state == "begun" or entry.facts.get("destination") != destination:
            continue
        last = entry
        good = entry if entry.state == "done" else good
    if last is None:
        return None
    facts, error = last.facts, last.facts.get("error")
    return LastPush(
        last.time,
        "absent" if facts.get("absent") else last.state,
        good.time if good is not None else 0.0,
        _whole(facts.get("snapshots")),
        _whole(facts.get("bytes")),
        str(facts.get("archive") or ""),
        str(error.get("what", "")) if isinstance(error, dict) else "",
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
