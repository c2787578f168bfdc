"""The clock of the deadlines: what waits or calculates is counted, what only waits for its turn is not."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from support.commands.fair_time import communicate, kept_waiting


def started(code):
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def test_what_sleeps_or_calculates_is_late():
    for code in ("import time; time.sleep(60)", "while True: pass"):
        process = started(code)
        began = time.monotonic()
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                communicate(process, b"", 0.3)
            assert time.monotonic() - began < 30
        finally:
            process.kill()
            process.communicate()


def test_many_that_calculate_for_ever_are_late_too():
    """On one processor four of them wait for three seconds in each: no more than that one is given back."""
    one = min(os.sched_getaffinity(0))
    process = started(f"import os; os.sched_setaffinity(0, [{one}]); os.fork(); os.fork()\nwhile True: pass")
    killed = threading.Timer(100, os.killpg, (process.pid, signal.SIGKILL))
    killed.start()
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            communicate(process, b"", 0.5)
    finally:
        killed.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_what_was_not_let_is_given_the_time_back():
    """Two that calculate on one processor: each has half of it, and the other half is not held against it."""
    one = min(os.sched_getaffinity(0))
    work = f"import os, time; os.sched_setaffinity(0, [{one}])\nwhile time.process_time() < {{}}: pass"
    rival, process = started(work.format(60)), started(work.format(0.6))
    try:
        communicate(process, b"", 0.9)
        assert process.returncode == 0
        assert kept_waiting(rival.pid) > 0.1
    finally:
        for each in (rival, process):
            each.kill()
            each.communicate()


def test_what_a_child_that_has_ended_was_not_let_is_given_back_too():
    """A command is a handful of programs, one after the other; each of them waits for its turn."""
    one = min(os.sched_getaffinity(0))
    work = f"import os, time; os.sched_setaffinity(0, [{one}])\nwhile time.process_time() < {{}}: pass"
    child = [sys.executable, "-I", "-S", "-c", work.format(0.3)]
    rivals = [started(work.format(60)) for _ in range(3)]
    process = started(f"import subprocess\nfor _ in range(3): subprocess.run({child!r})")
    try:
        communicate(process, b"", 2.4)
        assert process.returncode == 0
    finally:
        for each in (*rivals, process):
            each.kill()
            each.communicate()


def test_a_slow_reader_gets_all_of_a_large_input():
    """More than a pipe holds, to a program that begins to read after more than one look at it."""
    process = started("import sys, time; time.sleep(0.7); print(len(sys.stdin.buffer.read()))")
    try:
        out, _ = communicate(process, b"x" * 3_000_000, 60)
        assert out == b"3000000\n"
    finally:
        process.kill()
        process.communicate()
