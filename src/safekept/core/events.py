"""What work says about itself while it runs.

The library never prints. It calls a listener with small events; a face draws them as a progress
bar, a log line or nothing at all. A listener must not raise and must be quick: it runs on the
path of the work, possibly from several threads at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .next_step import Step


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


def silent(event: Event) -> None:
    """The listener for callers who do not care."""
