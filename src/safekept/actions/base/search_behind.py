"""Search indexes that are filled behind a restore, by a process of its own.

The restore is over when rows, files and settings are there, proven. What only searches need follows, in
short transactions beside the agent. Killed half way, it goes on with the next command that looks at the
home; a snapshot that stores every byte of a database waits for it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.locks import AlreadyRunning
from safekept.home.landing import existing_areas

if TYPE_CHECKING:
    from safekept.home.landing import SearchNote, Unfilled

#: Seconds of work under the lock of the home, and between two of them: a landing comes in there.
_BURST, _BETWEEN = 1.0, 0.15
#: Seconds to wait for a landing that is at work.
_PATIENCE = 600.0
#: So many bursts that fill nothing are enough: another program keeps the database locked.
_IN_VAIN = 20
#: Seconds between two looks at what another process is doing.
_LOOK = 0.5


def not_filled(home: str) -> list[SearchNote]:
    """What is left to be filled. Most homes never saw a landing, and pay for a look only."""
    if not existing_areas(home):
        return []
    from safekept.home.landing import unfilled

    return unfilled(home)


def begin(home: str) -> float:
    """Start the process that fills them unless one runs; about how many seconds it takes, 0: none."""
    notes = not_filled(home)
    if not notes:
        return 0.0
    from safekept.core.processes.process import run_detached
    from safekept.home.landing import is_filling

    if not is_filling(home):
        with contextlib.suppress(OSError):
            run_detached(__name__, home)
    return sum(one.seconds for note in notes for one in note.databases)


def finish(home: str, listener: Listener) -> None:
    """Wait until every index is whole, or until nothing more can be done about it now."""
    until = time.monotonic() + _PATIENCE
    while not_filled(home) and time.monotonic() < until:
        try:
            fill_all(home, lambda left: listener(Event("rebuild", path=home)))
            return
        except AlreadyRunning:
            listener(Event("rebuild", path=home))
            time.sleep(_LOOK)


def main() -> None:
    """The process: `python -c … ROOT HOME`."""
    os.umask(0o077)
    try:
        fill_all(sys.argv[2])
    except (SafekeptError, OSError):
        sys.exit(1)  # the next command goes on


def fill_all(home: str, tell: Callable[[float], None] = lambda left: None) -> None:
    """Fill until nothing is left that can be filled. Raises AlreadyRunning where another process does."""
    from safekept.home.landing import no_landing, only_filler

    tries: dict[tuple[str, str], _Try] = {}
    with only_filler(home) as areas:
        while True:
            with no_landing(areas, _PATIENCE) as whole:
                work = _next(home, tries) if whole else None
                if work is None:
                    return
                note, one = work
                rest = tries[note.directory.operation, one.path].burst(os.path.join(home, one.path), one)
                kept = tuple(rest if other is one else other for other in note.databases)
                left = replace(note, databases=tuple(other for other in kept if other is not None))
                if left.databases:
                    left.write()
                else:
                    left.remove()
            tell(rest.seconds if rest is not None else 0.0)
            time.sleep(_BETWEEN)


def _next(home: str, tries: dict[tuple[str, str], _Try]) -> tuple[SearchNote, Unfilled] | None:
    """The first database with which this process has not given up."""
    for note in not_filled(home):
        for one in note.databases:
            if not tries.setdefault((note.directory.operation, one.path), _Try()).over:
                return note, one
    return None


class _Try:
    """The work of this process on one database."""

    def __init__(self) -> None:
        from safekept.core.sqlite.lean import Filling

        self.state = Filling()
        self.over = False
        self._in_vain = 0

    def burst(self, place: str, one: Unfilled) -> Unfilled | None:
        """Work for a moment; what is left then, None where that is nothing."""
        import sqlite3

        from safekept.core.sqlite.lean import fill

        before = self.state.done
        try:
            # Nothing is written through a link, and what is gone needs no index.
            if not stat.S_ISREG(os.lstat(place).st_mode) or fill(place, one.recipes, self.state, _BURST):
                return None
        except FileNotFoundError:
            return None
        except (sqlite3.Error, OSError) as error:
            self.over = True
            return replace(one, wrong=str(error))
        self._in_vain = self._in_vain + 1 if self.state.done <= before else 0
        self.over = self._in_vain >= _IN_VAIN
        wrong = "another program keeps it locked" if self.over else ""
        return replace(one, seconds=self.state.left or one.seconds, wrong=wrong)
