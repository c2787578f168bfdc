"""Runs one command and says what it cost: seconds, and the peak memory of its whole process tree.

The memory is the largest sum of resident sets seen over the tree, sampled every few milliseconds,
and at least the highest mark (`VmHWM`) of any one process of it. What `wait4` reports is of no use: a child
is charged with the memory of whoever started it, here the benchmark's own. Pages that parent and child
share are counted twice, which can only make a program with helpers look worse, never better.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

SAMPLE_SECONDS = 0.01


@dataclass(frozen=True)
class Run:
    """One timed command."""

    seconds: float
    processor_seconds: float
    peak_bytes: int
    exit_code: int
    output: str

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class CommandFailed(Exception):
    """A peer or ours ended badly: there is nothing to compare."""


def resident_of_tree(root: int) -> int:
    """The sum of resident sets of a process and its descendants now, or the highest mark of one of them."""
    total, highest, waiting = 0, 0, [root]
    while waiting:
        pid = waiting.pop()
        try:
            marks = _marks(pid)
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    waiting += [int(child) for child in file.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += marks.get("VmRSS", 0)  # one that has just ended has none
        highest = max(highest, marks.get("VmHWM", 0))
    return max(total, highest)


def _marks(pid: int) -> dict[str, int]:
    """`VmRSS` and `VmHWM` of one process, in bytes."""
    with open(f"/proc/{pid}/status") as file:
        lines = [line.split() for line in file if line.startswith(("VmRSS:", "VmHWM:"))]
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines}


def measured(command: Sequence[str], environment: Mapping[str, str], allowed: tuple[int, ...] = (0,)) -> Run:
    """Run a command to its end. What was written before is flushed first, so nobody pays for another."""
    os.sync()
    peak = 0
    done = threading.Event()
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:

        def watch() -> None:
            nonlocal peak
            while not done.wait(SAMPLE_SECONDS):
                peak = max(peak, resident_of_tree(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert process.stdout is not None
        output = process.stdout.read().decode(errors="replace")
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        done.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in allowed:
        raise CommandFailed(f"{' '.join(command)} ended with {process.returncode}:\n{output[-3000:]}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, peak, process.returncode, output[-2000:])
