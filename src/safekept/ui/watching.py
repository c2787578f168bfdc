"""The look at everything, behind the page: begun when it is asked for, and never waited for for long.

A vault on a server that hangs, or a place that does not answer, must not keep the page away. A request
waits a moment; then it gets what the journal knows, which takes milliseconds, and the page says so.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from safekept.actions.base.context import UserContext
from safekept.actions.page.copies import CopyPlace, copies_of
from safekept.actions.page.days import Day, last_days
from safekept.actions.page.sizes import SizeClass, SnapshotSizes
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
    sizes: Mapping[str, tuple[SizeClass, ...]] = field(default_factory=dict)  # of each home's last snapshot
    error: SafekeptError | None = None
    late: bool = False


class PageWatch:
    """One look at a time; a request that comes while one is under way waits for that one."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._running: tuple[Worker, list[Sight]] | None = None
        self.sizes = SnapshotSizes()

    def look(self, settings: Settings, context: UserContext) -> Sight:
        """Everything, or what is known without the vault."""
        with self._lock:
            if self._running is None or not self._running[0].running:
                self._running = _begin(lambda: _sight(settings, context, self.sizes))
            worker, found = self._running
        if worker.wait(self._patience):
            with self._lock:
                if self._running is not None and self._running[0] is worker:
                    self._running = None
            return _taken(worker, found)
        outside, known = _begin(lambda: _sight(settings, context, None))
        if not outside.wait(OUTSIDE_PATIENCE):
            return Sight(late=True)
        sight = _taken(outside, known)
        return replace(sight, late=True)


def _begin(work: Callable[[], Sight]) -> tuple[Worker, list[Sight]]:
    found: list[Sight] = []
    return Worker(lambda: found.append(work()), "look"), found


def _taken(worker: Worker, found: list[Sight]) -> Sight:
    if worker.error is not None:
        raise worker.error
    return found[0]


def _sight(settings: Settings, context: UserContext, sizes: SnapshotSizes | None) -> Sight:
    """Without `sizes` the vault is not opened."""
    try:
        status = look(
            context,
            stale_hours=settings.number("status.stale_hours"),
            hosts=host_statuses(context),
            open_vault=sizes is not None,
            isolated=True,  # other threads of this process may be at the same databases
        )
    except SafekeptError as error:
        return Sight(error=error)
    found = Sight(status, last_days(context, status), copies_of(context, status))
    return found if sizes is None else replace(found, sizes=_sizes(context, status, sizes))


def _sizes(context: UserContext, status: Status, sizes: SnapshotSizes) -> dict[str, tuple[SizeClass, ...]]:
    found = {}
    for home in status.homes:
        newest = home.whole or home.last
        if newest is not None and not newest.from_journal:
            with contextlib.suppress(SafekeptError, OSError):  # the status says what is wrong with the vault
                found[home.home] = sizes.of(context, home.home, newest.id, newest.files)
    return found
