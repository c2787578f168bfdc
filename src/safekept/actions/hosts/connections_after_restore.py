"""What came of the agents' connections when a home was put back to an earlier state."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.files.small import read_start

from ..base.context import UserContext


@contextlib.contextmanager
def staying_connected(context: UserContext, home: str) -> Iterator[list[str]]:
    """Around a landing: connections of this home are there afterwards as before; the list says what was done.

    The face that calls knows how to connect. Where it does not, what was lost is reported.
    """
    from .connections import connections

    notes: list[str] = []
    inside = [one for one in connections(context) if _within(one.place, home)]
    hold = context.caller.keep_connected
    again = None
    if inside and hold is not None:
        with contextlib.suppress(SafekeptError, OSError):
            again = hold(context, home)
    standing = [one for one in inside if _has_ours(one.place)]
    yield notes
    with contextlib.suppress(SafekeptError, OSError):
        notes += again() if again is not None else ()
    if hold is None:
        lost = [one.host for one in standing if not _has_ours(one.place)]
        notes += [f"{name} is not connected any more: connect it again" for name in lost]


def _within(path: str, home: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(home) + os.sep)


def _has_ours(path: str) -> bool:
    try:
        return b"safekept" in read_start(path, 1 << 20)
    except OSError:
        return False
