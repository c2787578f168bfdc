"""One taker per project."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from safekept.core.locks import AlreadyRunning, process_lock

LOCK = "take.lock"

#: Takers of this process hand a project over to each other at once; only other processes are looked for.
_inside: dict[str, threading.Lock] = {}


@contextlib.contextmanager
def project_lock(directory: str, doing: str, wait: float) -> Iterator[None]:
    """One taker per project. The lock dies with its holder, and is held shortly: a waiter looks often."""
    deadline, pause = time.monotonic() + wait, 0.002
    inside = _inside.setdefault(directory, threading.Lock())
    got = inside.acquire(timeout=max(0.0, wait))
    try:
        # Whoever did not get it is told below who has it.
        while True:
            with contextlib.ExitStack() as stack:
                try:
                    stack.enter_context(process_lock(os.path.join(directory, LOCK), doing))
                except AlreadyRunning:
                    if time.monotonic() >= deadline:
                        raise
                else:
                    yield
                    return
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
    finally:
        if got:
            inside.release()
