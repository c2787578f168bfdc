"""A thread whose end can be trusted.

`Thread.join` interrupted by Ctrl-C takes the thread for ended while it runs on (CPython up to 3.12).
Whoever then closes descriptors or removes directories does so under the feet of a thread that still
writes, so every thread of ours is waited for by an event that it sets itself as its last act.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Worker:
    """Runs one function in a thread of its own, started at once."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self.error: BaseException | None = None
        self._work = work
        self._ended = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; False if `timeout` seconds were not enough."""
        return self._ended.wait(timeout)

    def wait_whatever_comes(self) -> None:
        """Wait for its end, through any number of signals; what the last one raised is raised afterwards.

        Ctrl-C, being told to end, a time that is over: only a signal can raise here.
        """
        interrupt: BaseException | None = None
        while self.running:
            try:
                self._ended.wait()
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error
        finally:
            self._ended.set()
