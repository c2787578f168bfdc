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
    return sum(waited for _, waited in threads_of(process).values())


def threads_of(process: int) -> dict[str, tuple[float, float]]:
    """Seconds that each of its threads calculated, and that it was ready to and not let."""
    found = {}
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except OSError:
        return {}
    for thread in threads:
        try:
            with open(f"/proc/{process}/task/{thread}/schedstat", encoding="ascii") as file:
                worked, waited, *_ = file.read().split()
            found[thread] = int(worked) / 1e9, int(waited) / 1e9
        except (OSError, ValueError):
            continue  # it ended meanwhile: the stricter answer
    return found


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

    It is looked at again and again: what a process waited is forgotten by the kernel when it ends. Several
    that wait at once wait for the same seconds, so what one of them waited is given back, and what they
    calculated in that time, shared among them, is not: else many would have time for ever.
    """
    last = time.monotonic()
    _feed(process, data)
    left = seconds
    before: dict[str, tuple[float, float]] = {}
    while True:
        try:
            return process.communicate(timeout=min(left, _LOOK))
        except subprocess.TimeoutExpired:
            found: dict[str, tuple[float, float]] = {}
            for one in session(process.pid):
                found |= threads_of(one)
            now = time.monotonic()
            left -= _counted(now - last, before, found)
            last, before = now, found
            if left < 0.05:
                raise


def _counted(
    passed: float, before: dict[str, tuple[float, float]], found: dict[str, tuple[float, float]]
) -> float:
    """What of the time between two looks is held against all of them together."""
    since = []
    for thread, (worked, waited) in found.items():
        old_worked, old_waited = before.get(thread, (0.0, 0.0))
        if worked > old_worked or waited > old_waited:
            since.append((worked - old_worked, waited - old_waited))
    if not since:
        return passed
    longest = max(waited for _, waited in since)
    return min(passed, max(passed - longest, sum(worked for worked, _ in since) / len(since)))


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
