"""The children of this process, ended ones that nobody waited for included.

Servers that other tests share may be among them, so a test compares before and after.
"""

from __future__ import annotations

import contextlib
import os


def children() -> set[int]:
    found = set()
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            number = int(name)
            with open(f"/proc/{number}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                found.add(number)
    return found
