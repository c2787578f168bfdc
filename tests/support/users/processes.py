"""Processes that a user of a test started and nobody waits for: marks, the hidden half, transfers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from support.commands.waiting import PATIENT


def wait_until_none_has(setting: str, ours: Callable[[str], bool] = lambda process: True) -> None:
    """Wait until no process has this in its environment; `ours` tells by `/proc/N` whose it is."""
    deadline = time.monotonic() + PATIENT
    quiet = 0
    while quiet < 2:  # a program that is just being started has no environment to be known by
        quiet = 0 if _one_has(setting.encode(), ours) else quiet + 1
        assert time.monotonic() < deadline, "a process that safekept started does not end"
        time.sleep(0.02)


def _one_has(setting: bytes, ours: Callable[[str], bool]) -> bool:
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and setting in _environment(name) and ours(f"/proc/{name}"):
                return True
        except OSError:  # it has ended
            continue
    return False


def _environment(process: str) -> list[bytes]:
    with open(f"/proc/{process}/environ", "rb") as file:
        return file.read().split(b"\0")
