"""Waiting for what another process or thread does: for the event itself, with patience for a busy machine.

That a file exists is no event: its writer makes it first and fills it later. `text_of` waits for its line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

#: Long enough for the slowest machine; nothing is decided by it.
PATIENT = 300.0


def wait_until(true: Callable[[], object], named: str = "it", seconds: float = PATIENT) -> None:
    """Wait for something that another process does; a failure where it never comes."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{named} never came"
        time.sleep(0.01)


def text_of(path: str | os.PathLike[str]) -> str:
    """What a line-writing process wrote into a file, once its line is whole."""

    def read() -> str:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    wait_until(lambda: read().endswith("\n"), f"a line in {path}")
    return read()
