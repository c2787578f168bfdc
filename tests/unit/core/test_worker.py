"""A thread that still works is never taken for ended, not even after Ctrl-C."""

import subprocess
import sys

from safekept.core.worker import Worker
from support.commands.waiting import PATIENT

INTERRUPTED = """
import os, signal, sys, threading, time
from safekept.core.worker import Worker
finished = []
def waits():
    frame, names = sys._current_frames()[threading.main_thread().ident], set()
    while frame:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return "wait_through_signals" in names
def work():
    while not waits():
        time.sleep(0.01)
    # Reaches the main thread in the middle of its wait, or (right before it falls asleep) at the wait's end.
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.5)
    finished.append(True)
worker = Worker(work, "worker")
try:
    worker.wait_through_signals()
except KeyboardInterrupt:
    print("interrupted", finished, worker.running)
"""


def test_ctrl_c_does_not_end_the_wait_before_the_thread_ends():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert done.stdout == "interrupted [True] False\n", done.stdout + done.stderr


def test_what_went_wrong_in_the_thread_is_kept():
    worker = Worker(lambda: 1 / 0, "worker")  # type: ignore[arg-type, return-value]
    assert worker.wait(PATIENT)
    assert isinstance(worker.error, ZeroDivisionError)


def test_a_wait_that_was_too_short_says_so():
    import threading

    gate = threading.Event()
    worker = Worker(lambda: gate.wait() and None, "worker")
    assert worker.wait(0.05) is False and worker.running
    gate.set()
    assert worker.wait(PATIENT) is True and not worker.running
