"""Two lanes into one file: small entries on the caller's thread, large ones beside it.

Twenty thousand small files cost interpreter time, one large database costs compression; done side by
side they keep two cores busy. Finished batches of small entries wait, bounded, while a large one holds
the output, so memory stays flat.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from safekept.core.entries import Content, Entry
from safekept.core.worker import Worker

#: Finished bytes of small entries that may wait while a large one is being written.
WAITING_LIMIT = 24 << 20
#: Batches that may still be in the hands of a compressor while the caller goes on.
_BEING_PACKED = 3


#: An entry, and its content where it was opened already.
Job = tuple[Entry, Content | None]


class Batch(Protocol):
    """A run of small entries, packed."""

    @property
    def weight(self) -> int:
        """About how much memory it holds while it waits."""

    @property
    def ready(self) -> bool:
        """Whether placing it would not have to wait for a compressor."""

    def place(self) -> None:
        """Write it; only one thread at a time does."""


class Sink:
    """Decides who may write: batches whenever no large entry is under way."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._waiting: deque[Batch] = deque()
        self._weight = 0
        self._busy = False
        self.failed = threading.Event()

    def offer(self, batch: Batch) -> None:
        """Write a batch now, or keep it until the large entry under way is done."""
        with self._condition:
            self._waiting.append(batch)
            self._weight += batch.weight
            while self._busy and self._weight > WAITING_LIMIT and not self.failed.is_set():
                self._condition.wait(0.5)
            if not self._busy:
                self._drain(_BEING_PACKED)

    def flush(self) -> None:
        """Write every batch there is; nothing large may be under way."""
        with self._condition:
            self._drain(0)

    def begin(self) -> None:
        """Take the output for one large entry."""
        with self._condition:
            self._drain(_BEING_PACKED)
            self._busy = True

    def end(self) -> None:
        """Give it back."""
        with self._condition:
            self._busy = False
            try:
                self._drain(_BEING_PACKED)
            finally:
                self._condition.notify_all()

    def _drain(self, leave: int) -> None:
        while self._waiting and not self.failed.is_set():
            if len(self._waiting) <= leave and not self._waiting[0].ready:
                return
            batch = self._waiting.popleft()
            self._weight -= batch.weight
            batch.place()


class LargeLane:
    """One thread that works through large entries, in the order given."""

    def __init__(self, sink: Sink, work: Callable[[Job], None]) -> None:
        self._sink, self._work = sink, work
        self._jobs: deque[Job] = deque()
        self._ready = threading.Condition()
        self._closing = False
        self._worker: Worker | None = None

    def add(self, job: Job) -> None:
        """Take a job over, its open content included, whatever happens."""
        try:
            self.check()
        except BaseException:
            _close(job)
            raise
        with self._ready:
            self._jobs.append(job)
            self._ready.notify()
        if self._worker is None:
            self._worker = Worker(self._run, "safekept-large")

    def check(self) -> None:
        """Raise here what went wrong there."""
        if self._worker is not None and self._worker.error is not None:
            raise self._worker.error

    def finish(self) -> None:
        """Wait for every job; raises the first error."""
        self._close()
        if self._worker is not None:
            self._worker.wait()
        self.check()

    def abandon(self) -> None:
        """Stop at the next chunk. A read that hangs is left behind: it can no longer write anything."""
        self._sink.failed.set()
        self._close()
        if self._worker is not None:
            self._worker.wait(timeout=5.0)
        while self._jobs:
            _close(self._jobs.popleft())

    def _close(self) -> None:
        with self._ready:
            self._closing = True
            self._ready.notify()

    def _run(self) -> None:
        try:
            while True:
                with self._ready:
                    while not self._jobs and not self._closing:
                        self._ready.wait()
                    if not self._jobs or self._sink.failed.is_set():
                        return
                    job = self._jobs.popleft()
                self._work(job)
        except BaseException:
            self._sink.failed.set()
            raise


def _close(job: Job) -> None:
    if job[1] is not None:
        job[1].close()
