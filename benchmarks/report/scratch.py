"""A directory for the stores that a benchmark makes: closed between commands, and opened to be removed."""

from __future__ import annotations

import os
import tempfile

from safekept.core.files.belt import change_named


class Scratch(tempfile.TemporaryDirectory[str]):
    """A temporary directory that goes with everything in it."""

    def cleanup(self) -> None:
        open_below(self.name)
        super().cleanup()


def open_below(place: str) -> None:
    """Every directory that a seat belt closed."""
    for parent, names, _ in os.walk(place):
        for name in names:
            change_named(os.path.join(parent, name), writable=True)
