"""Progress at a terminal: a bar for each phase, what was done of how much, and about how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from safekept.core.ages import size_text
from safekept.core.events import Event
from safekept.core.next_step import step_text

from .console import path_text
from .lines import prose, width_beside

#: Phases whose speed people want to see.
_OVER_A_NETWORK = frozenset({"push", "pull", "send"})
#: What is being done, in words that stand before a bar. A test holds them against the phases that there are.
DOING = {
    "adopt": "adopting",
    "archive": "packing",
    "check": "checking",
    "compare": "comparing",
    "connect": "connecting",
    "copy": "copying",
    "delete": "deleting",
    "fleet": "looking",
    "fsck": "checking",
    "index": "reading index",
    "key": "making key",
    "look": "looking",
    "mark": "marking",
    "marks": "marking",
    "open": "opening",
    "plan": "planning",
    "prove": "proving",
    "pull": "fetching",
    "fetch": "fetching",
    "push": "sending",
    "read": "reading",
    "rebuild": "rebuilding",
    "repack": "repacking",
    "repair": "repairing",
    "rollback": "going back",
    "scan": "finding files",
    "schedule": "working",
    "send": "sending",
    "stage": "preparing",
    "store": "storing",
    "swap": "placing files",
    "test": "trying place",
    "verify": "verifying",
}


class Progress:
    """A bar per phase at a terminal. Rich is imported only here."""

    def __init__(self, program: str) -> None:
        import threading

        self._program = program
        self._since: dict[str, float] = {}
        self._one_at_a_time = threading.Lock()  # events come from the threads at work, too
        self._drawn = self._closed = self.held = False  # held: a question is asked
        self._make()

    def _make(self) -> None:
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._bars = RichProgress(
            TextColumn("{task.description:<13}"),
            BarColumn(bar_width=23),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            console=RichConsole(stderr=True),
            transient=True,
        )
        self._tasks: dict[str, object] = {}
        self._update: Callable[..., None] = self._bars.update

    def start(self) -> None:
        self._drawn = True
        self._bars.start()

    def pause(self) -> None:
        """Off the screen, while others write; the next event draws it again below that."""
        with self._one_at_a_time:
            if self._drawn:
                self._drawn = False
                self._bars.stop()

    def _go_on(self) -> None:
        with self._one_at_a_time:
            if not (self._drawn or self._closed or self.held):
                self._make()
                self.start()

    def listen(self, event: Event) -> None:
        if event.text:
            text = prose(step_text(event.text, self._program), None, width_beside())
            self._bars.console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)
            return
        if not self._drawn:
            self._go_on()
        if event.phase not in self._tasks:
            words = DOING.get(event.phase, event.phase)
            self._tasks[event.phase] = self._bars.add_task(words, total=None, amount="")
            self._since.setdefault(event.phase, time.monotonic())
        amount = size_text(event.done) if event.unit == "bytes" else f"{event.done:,} {event.unit}"
        if not event.done and not event.total:  # nothing is counted in it
            amount = path_text(event.path)
        if event.total:
            of = size_text(event.total) if event.unit == "bytes" else f"{event.total:,}"
            amount = f"{amount} of {of}"
        seconds = time.monotonic() - self._since[event.phase]
        if event.phase in _OVER_A_NETWORK and event.done and seconds > 1:
            amount += f", {size_text(event.done / seconds)}/s"
        amount += left_text(event.done, event.total, seconds)
        task = self._tasks[event.phase]
        if not event.total:
            self._forget_total(task)
        self._update(task, completed=event.done, total=event.total or None, amount=amount)

    def _forget_total(self, task: object) -> None:
        """More came than was expected: the bar moves on and the clock runs, as where no total was known."""
        for one in self._bars.tasks:
            if one.id == task and one.total is not None:
                one.total = one.finished_time = None

    def close(self) -> None:
        """Off the screen for good: an event that comes late draws nothing."""
        self._closed = True
        self.pause()


#: Seconds after which the pace says something; less than this is not worth a word.
_PACE_KNOWN, _WORTH_SAYING = 2.0, 3.0


def left_text(done: int, total: int, seconds: float) -> str:
    """`, about 2 min left`: by the pace so far; nothing where that says nothing yet."""
    if not 0 < done < total or seconds < _PACE_KNOWN:
        return ""
    left = seconds * (total - done) / done
    if left < _WORTH_SAYING or left > 100 * 3600:
        return ""
    if left < 60:
        return f", about {max(5, round(left / 5) * 5)} s left"
    return f", about {round(left / 60)} min left" if left < 5400 else f", about {round(left / 3600)} h left"
