"""A directory for the stores that a benchmark makes: closed between commands, and opened to be removed."""

from __future__ import annotations

import os
import sys
import tempfile
import time

from safekept.core.files.belt import change_named

_TRIES = 40


class Scratch(tempfile.TemporaryDirectory[str]):
    """A temporary directory that goes with everything in it."""

    def cleanup(self) -> None:
        """Work that was begun behind a command may still write: a run's figures are not lost for that."""
        for _ in range(_TRIES):
            open_below(self.name)
            try:
                super().cleanup()
                return
            except OSError:
                time.sleep(0.5)
        print(f"Not removed, since something still writes there: {self.name}", file=sys.stderr)


def open_below(place: str) -> None:
    """Every directory that a seat belt closed."""
    for parent, names, _ in os.walk(place):
        for name in names:
            change_named(os.path.join(parent, name), writable=True)
