"""What work says about itself while it runs.

The library never prints. It calls a listener with small events; a face draws them as a progress
bar, a log line or nothing at all. A listener must not raise and must be quick: it runs on the
path of the work, possibly from several threads at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .next_step import Step
from .records import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One thing worth showing: a phase that began, progress within it, or a remark."""

    phase: str  # "scan", "store", "verify", "stage", "prove", "swap", …
    done: int = 0
    total: int = 0  # 0 when not known
    unit: str = "bytes"  # or "files"
    path: str = ""
    text: Step = ""  # a sentence, for remarks such as "waiting for state.db, locked by pid 412"


Listener = Callable[[Event], None]


def expecting(listener: Listener, phase: str, total: int) -> Listener:
    """The same listener, told of a total that is only expected, where a phase does not know its own.

    What comes out larger than expected goes on without a total: no promise is better than a wrong one.
    """
    if total <= 0:
        return listener

    def listen(event: Event) -> None:
        unknown = event.phase == phase and not event.total and not event.text and event.unit == "bytes"
        listener(replace(event, total=total) if unknown and event.done <= total else event)

    return listen


def silent(event: Event) -> None:
    """The listener for callers who do not care."""
