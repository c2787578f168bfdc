"""What a seat belt closed, opened: for whoever damages a store or removes what a test made.

Root, whom modes do not bind, is kept out by the immutable attribute: nobody could remove such a directory.
"""

from __future__ import annotations

import os

from safekept.core.files.belt import change_named


def open_below(place: object) -> str:
    """Every closed directory below a place is open, and so is the place itself, which is returned."""
    top = os.fspath(place)  # type: ignore[call-overload]
    change_named(top, writable=True)
    for parent, names, _ in os.walk(top):
        for name in names:
            change_named(os.path.join(parent, name), writable=True)
    return top


def lose(path: object) -> None:
    """A file of a store goes, as a bad disk or another program would take it: whatever the seat belt."""
    name = os.fspath(path)  # type: ignore[call-overload]
    change_named(os.path.dirname(name), writable=True)
    os.unlink(name)
