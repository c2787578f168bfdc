"""Work that the page began: one after the other, in a thread that no browser can end.

One at a time, because two captures of one database in one process would drop each other's locks; a plan that
looks at the live home waits its turn, too. A person who closes the browser finds the work on coming back.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import field

from safekept.core.ages import size_text
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep, Step
from safekept.core.records import dataclass
from safekept.core.worker import Worker

#: Pieces of work that are remembered.
_REMEMBERED = 50
#: Seconds that a plan waits for its turn.
PATIENCE = 20.0
WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
#: Words for what work says of itself.
PHASES = {
    "scan": "Looking at the files",
    "read": "Opening the vault",
    "store": "Storing",
    "stage": "Bringing it here",
    "prove": "Checking it",
    "swap": "Putting it in its place",
    "verify": "Reading it back",
    "send": "Sending",
    "look": "Looking",
}


class PageBusy(SafekeptError):
    code, retry = "page-busy", True


@dataclass(slots=True)
class WorkResult:
    """What came of it, in sentences."""

    title: str
    lines: list[str] = field(default_factory=list)
    good: bool = True
    operation: str = ""  # what `undo` takes back; nothing where there is nothing to take back
    steps: tuple[Step, ...] = ()


@dataclass(slots=True)
class PageWork:
    """One piece of work."""

    id: str
    title: str
    began: float
    state: str = WAITING
    phase: str = ""
    done: int = 0
    total: int = 0
    unit: str = ""
    note: str = ""
    result: WorkResult | None = None
    error: SafekeptError | None = None
    ended: float = 0.0

    @property
    def over(self) -> bool:
        return self.state in (DONE, FAILED)

    @property
    def progress(self) -> str:
        """In words."""
        if self.state == WAITING:
            return "Waits for its turn"
        words = PHASES.get(self.phase, self.phase.capitalize() or "Begins")
        if not self.done:
            return self.note or words
        if self.unit == "bytes":
            of = f" of {size_text(self.total)}" if self.total else ""
            return f"{words}: {size_text(self.done)}{of}"
        of = f" of {self.total:,}" if self.total else ""
        return f"{words}: {self.done:,}{of} {self.unit}"

    def listen(self, event: Event) -> None:
        self.phase, self.done, self.total, self.unit = event.phase, event.done, event.total, event.unit
        self.note = str(event.text) if event.text else ""


class WorkBoard:
    """Everything that was begun, and the turn that each piece waits for."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._all: dict[str, PageWork] = {}
        self._threads: list[Worker] = []

    def begin(self, title: str, work: Callable[[Listener], WorkResult]) -> PageWork:
        """Begin it in a thread of its own."""
        piece = PageWork(new_id(), title, time.time())
        with self._lock:
            self._all[piece.id] = piece
            while len(self._all) > _REMEMBERED:
                self._all.pop(next(iter(self._all)))
            self._threads = [one for one in self._threads if one.running]
            self._threads.append(Worker(lambda: self._do(piece, work), "page-work"))
        return piece

    def _do(self, piece: PageWork, work: Callable[[Listener], WorkResult]) -> None:
        with self._turn:
            piece.state = RUNNING
            try:
                piece.result = work(piece.listen)
                state = DONE
            except SafekeptError as error:
                piece.error, state = error, FAILED
            except Exception as error:
                piece.error, state = _unexpected(error), FAILED
            piece.ended, piece.state = time.time(), state

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """For a look at the live home; PageBusy where work goes on for longer than a request may wait."""
        if not self._turn.acquire(timeout=PATIENCE):
            current = next((one.title for one in self.all if one.state == RUNNING), "something else")
            raise PageBusy(
                f"Another piece of work is not finished yet: {current}",
                kept="Nothing was changed",
                next_steps=("Load this page again when it is done",),
            )
        try:
            yield
        finally:
            self._turn.release()

    def find(self, name: str) -> PageWork | None:
        with self._lock:
            return self._all.get(name)

    @property
    def all(self) -> list[PageWork]:
        """The newest first."""
        with self._lock:
            return list(reversed(self._all.values()))

    @property
    def busy(self) -> bool:
        return any(not one.over for one in self.all)

    def wait(self) -> None:
        """Until everything that was begun is finished: half a restore is worse than a late end."""
        for one in list(self._threads):
            one.wait_through_signals()


class WorkBroke(SafekeptError):
    code = "page-work-broke"


def _unexpected(error: Exception) -> WorkBroke:
    return WorkBroke(
        f"safekept did not expect this: {type(error).__name__}: {error}",
        kept="What was not finished is finished or taken back by the next command",
        next_steps=(NextStep("status", before="See how everything is:"),),
    )
