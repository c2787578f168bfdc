"""How long something took, less the time in which it only waited for its turn on a busy processor.

A deadline in a test asks for two things: that nothing waits for ever, and that nothing calculates for ever.
Neither is answered by a clock on the wall while other work has the processor. The kernel counts how long each
thread was ready and not let (`/proc/PID/task/TID/schedstat`); that is taken off. Time asleep, on a lock, a
pipe or a disk, counts in full.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time

#: Seconds between two looks.
_LOOK = 0.25


def kept_waiting(process: int) -> float:
    """Seconds in which threads of a process were ready and did not get a processor; 0 where unknown."""
    total = 0
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except OSError:
        return 0.0
    for thread in threads:
        try:
            with open(f"/proc/{process}/task/{thread}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile: the stricter answer
    return total / 1e9


def session(leader: int) -> list[int]:
    """Every process of a session that is there now."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    after_the_name = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(after_the_name[3]) == leader:
                found.append(int(name))
    return found


def communicate(process: subprocess.Popen[bytes], data: bytes, seconds: float) -> tuple[bytes, bytes]:
    """`process.communicate` with a fair deadline. The process must lead a session of its own.

    It is looked at again and again: what a process waited is forgotten by the kernel when it ends.
    """
    began = time.monotonic()
    _feed(process, data)
    left = seconds
    waited: dict[int, float] = {}
    while True:
        try:
            return process.communicate(timeout=min(left, _LOOK))
        except subprocess.TimeoutExpired:
            for one in session(process.pid):
                waited[one] = max(waited.get(one, 0.0), kept_waiting(one))
            left = seconds - (time.monotonic() - began - sum(waited.values()))
            if left < 0.05:
                raise


def _feed(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Write its input beside: `communicate` forgets what is left of it when its time is over."""
    stdin, process.stdin = process.stdin, None
    assert stdin is not None

    def write() -> None:
        with contextlib.suppress(OSError):  # it ended, and reads no more
            stdin.write(data)
        with contextlib.suppress(OSError):
            stdin.close()

    threading.Thread(target=write, daemon=True).start()
