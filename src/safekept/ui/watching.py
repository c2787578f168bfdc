"""The look at everything, behind the page: begun when somebody asks, and never waited for for long.

A vault on a server that hangs, or a place that does not answer, must not keep the page away. Whoever asks
waits a moment; then they get what the journal knows, which takes milliseconds, and the page says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import field

from safekept.actions.base.context import UserContext
from safekept.actions.page.copies import CopyPlace, copies_of
from safekept.actions.page.days import Day, last_days
from safekept.actions.status.status import Status, look
from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass
from safekept.core.worker import Worker
from safekept.integrations.connecting.overview import host_statuses
from safekept.settings import Settings

#: Seconds that a page waits for the look, and then for what the journal alone says.
PATIENCE, OUTSIDE_PATIENCE = 2.5, 1.5


@dataclass(frozen=True, slots=True)
class Sight:
    """What was found. `late`: the vault has not answered yet; what is here is what the journal knows."""

    status: Status | None = None
    days: Mapping[str, tuple[Day, ...]] = field(default_factory=dict)
    copies: tuple[CopyPlace, ...] = ()
    error: SafekeptError | None = None
    late: bool = False


class PageWatch:
    """One look at a time; whoever comes while one is under way waits for that one."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._running: tuple[Worker, list[Sight]] | None = None

    def look(self, settings: Settings, context: UserContext) -> Sight:
        """Everything, or what is known without the vault."""
        with self._lock:
            if self._running is None or not self._running[0].running:
                self._running = _begin(lambda: _sight(settings, context))
            worker, found = self._running
        if worker.wait(self._patience):
            with self._lock:
                if self._running is not None and self._running[0] is worker:
                    self._running = None
            return _taken(worker, found)
        outside, known = _begin(lambda: _sight(settings, context, open_vault=False))
        if not outside.wait(OUTSIDE_PATIENCE):
            return Sight(late=True)
        sight = _taken(outside, known)
        return Sight(sight.status, sight.days, sight.copies, sight.error, late=True)


def _begin(work: Callable[[], Sight]) -> tuple[Worker, list[Sight]]:
    found: list[Sight] = []
    return Worker(lambda: found.append(work()), "look"), found


def _taken(worker: Worker, found: list[Sight]) -> Sight:
    if worker.error is not None:
        raise worker.error
    return found[0]


def _sight(settings: Settings, context: UserContext, *, open_vault: bool = True) -> Sight:
    try:
        status = look(
            context,
            stale_hours=settings.number("status.stale_hours"),
            hosts=host_statuses(context),
            open_vault=open_vault,
            isolated=True,  # other threads of this process may be at the same databases
        )
    except SafekeptError as error:
        return Sight(error=error)
    return Sight(status, last_days(context, status), copies_of(context, status))
