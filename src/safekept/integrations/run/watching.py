"""The watch itself: news come in, checkpoints are taken, one at a time, until it is asked to end.

The agent may delete anything meanwhile: the project, our store, our settings. None of that ends the watch.
What could not be taken is noted; a project that comes back is watched again, and kept again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.records import dataclass

from .changes import CannotWatch, PollingWatch, Relevance, Source, Stop, best_source

if TYPE_CHECKING:
    from safekept.checkpoints.checkpoints import Checkpoints
    from safekept.checkpoints.take import Protection


# When a checkpoint is due while an agent works; nothing here looks at a clock. At a quiet moment after
# changes, and during changes that do not end at least once in a while. What a checkpoint costs bounds
# how often there is one: after each, so much time passes that all of them together take no more than a
# small share of one processor.

#: The share of one processor that checkpoints may take.
SHARE = 0.1
#: Seconds between two attempts at a checkpoint that does not succeed, at most.
LONGEST = 60.0
#: A change that goes on is kept every so many quiet times.
ENDLESS = 15.0


class PauseDetector:
    """All times are seconds of one clock, given by the caller."""

    def __init__(self, quiet: float, share: float = SHARE) -> None:
        self.quiet, self.endless, self._share = quiet, quiet * ENDLESS, share
        self._began: float | None = None  # of the burst that is not kept yet
        self._last = 0.0
        self._rest_until = 0.0
        self._failed = 0  # in a row

    @property
    def waiting(self) -> bool:
        """Whether something changed that no checkpoint holds."""
        return self._began is not None

    def changed(self, now: float) -> None:
        if self._began is None:
            self._began = now
        self._last = now

    def due_at(self) -> float | None:
        """When the next checkpoint is due, if nothing more happens; None where nothing changed."""
        if self._began is None:
            return None
        return max(min(self._last + self.quiet, self._began + self.endless), self._rest_until)

    def due(self, now: float) -> bool:
        at = self.due_at()
        return at is not None and now >= at

    def in_a_burst(self, now: float) -> bool:
        """Whether a checkpoint now would stand in the midst of changes."""
        return self._began is not None and now < self._last + self.quiet

    def taking(self) -> None:
        """A checkpoint begins: what changes from now on belongs to the next."""
        self._began = None

    def took(self, now: float, cost: float) -> None:
        """It ended, and took so many seconds of a processor."""
        self._failed = 0
        self._rest_until = now + cost * (1 - self._share) / self._share

    def failed(self, now: float, cost: float) -> None:
        """It did not succeed: what changed is still to be kept, after a while that grows."""
        failed = self._failed + 1
        self.took(now, cost)
        self.changed(now)
        self._failed = failed
        self._rest_until = max(self._rest_until, now + min(LONGEST, self.quiet * 2 ** min(failed, 20)))


#: Seconds after which the watch looks whether the project is still the directory that it watches.
_LOOK = 5.0
_MOST = 50  # notices and failures that are kept


@dataclass(slots=True)
class Account:
    """What a watch came to."""

    native: bool = True
    why: str = ""  # why the system's notifications are not used
    points: list[str] = field(default_factory=list)  # ids, the oldest first
    after: str = ""  # the mark at the end
    passes: int = 0
    notices: list[str] = field(default_factory=list)
    failures: list[dict[str, object]] = field(default_factory=list)
    gone: int = 0  # how often the project was found missing

    def note(self, protection: Protection) -> bool:
        """Take down what one call came to; whether the project as it is now is in a checkpoint."""
        for taken in protection.taken:
            if taken.checkpoint is not None and taken.checkpoint.kind == "before":
                self.points.append(taken.checkpoint.id)
            if taken.latest is not None and taken.latest.kind == "after":
                self.after = taken.latest.id
        for text in protection.notices:
            if text not in self.notices and len(self.notices) < _MOST:
                self.notices.append(text)
        for one in protection.failures:
            known = [
                other for other in self.failures if (other["code"], other["what"]) == (one.code, one.what)
            ]
            if known:
                known[0]["times"] = int(str(known[0]["times"])) + 1
            elif len(self.failures) < _MOST:
                self.failures.append({"code": one.code, "what": one.what, "times": 1, "time": time.time()})
        return bool(protection.taken) and all(
            taken.latest is not None and taken.latest.full for taken in protection.taken
        )


class Watch:
    """One run of one agent in one project."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        relevance: Relevance,
        *,
        session: str,
        agent: str,
        quiet: float,
        stop: Stop,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.account = Account()
        self._checkpoints, self._relevance, self._stop = checkpoints, relevance, stop
        self._session, self._agent, self._quiet, self._clock = session, agent, quiet, clock
        self._rhythm = PauseDetector(quiet)
        self._turn = 0
        self._source: Source | None = None
        self._watched: tuple[int, int] | None = None  # the directory that is watched
        self._tried = 0.0

    def begin(self) -> bool:
        """Watch, then keep the project as it is; whether that worked."""
        self._set_up()
        return self._keep(f"before {self._agent}")

    def follow(self) -> None:
        """Until the stop is set."""
        while not self._stop.is_set():
            due = self._rhythm.due_at()
            patience = _LOOK if due is None else min(_LOOK, max(0.0, due - self._clock()))
            paths = self._source.wait(patience) if self._source else self._pause(patience)
            if self._stop.is_set():
                break
            if paths and self._relevance.counts(paths):
                self._rhythm.changed(self._clock())
            self._stay()
            now = self._clock()
            if self._rhythm.due(now):
                midst = self._rhythm.in_a_burst(now)
                self._keep(f"{self._agent} at work" if midst else f"{self._agent} was quiet")

    def end(self) -> None:
        """The mark of what the agent left behind."""
        protection = self._checkpoints.after(
            self._session, str(self._turn), f"after {self._agent}", wait=True
        )
        self.account.note(protection)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None
        self._relevance.forget()

    def _keep(self, reason: str) -> bool:
        """A checkpoint, with watches first, so that nothing changes between the two unseen."""
        cost = _processor_seconds()
        if self._source is not None and self._source.stale:
            self._set_up()
        self._rhythm.taking()
        self._turn += 1
        self.account.passes += 1
        protection = self._checkpoints.before(  # noqa: S604 - a pass of everything, no shell
            [self._relevance.project],
            reason,
            self._session,
            str(self._turn),
            shell=True,
            directory=self._relevance.project,
        )
        kept = self.account.note(protection)
        # A project that is gone is looked for elsewhere; anything else that went wrong may pass.
        again = not kept and _identity(self._relevance.project) is not None
        tell = self._rhythm.failed if again else self._rhythm.took
        tell(self._clock(), _processor_seconds() - cost)
        return kept

    def _stay(self) -> None:
        """See that what is watched is the project: it may have gone, and another come in its place."""
        now = self._clock()
        if self._watched is not None and _identity(self._relevance.project) == self._watched:
            return
        if self._watched is not None:
            self.account.gone += 1
        elif now < self._tried + min(self._quiet, _LOOK):
            return
        self._set_up()
        if self._watched is not None:
            self._rhythm.changed(self._clock())

    def _set_up(self) -> None:
        self._tried = self._clock()
        self._watched = _identity(self._relevance.project)
        try:
            if self._source is None:
                self._source, why = best_source(self._relevance, self._stop, self._quiet / 2)
                self.account.why = self.account.why or why
            else:
                self._source.again()
        except CannotWatch as error:
            self.account.why = self.account.why or str(error)
            self._source = None
            self._look_instead()
        except OSError:
            self._watched = None
        self.account.native = self._source is None or self._source.native

    def _look_instead(self) -> None:
        try:
            self._source = PollingWatch(self._relevance, self._stop, self._quiet / 2)
        except OSError:
            self._watched = None

    def _pause(self, seconds: float) -> set[str]:
        self._stop.wait(min(seconds, self._quiet) or self._quiet)
        return set()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _processor_seconds() -> float:
    """Of this process and of those that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
