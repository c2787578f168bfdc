"""What a person confirmed they mean to leave as it is: an agent that is not to be connected, no schedule, …

A declined finding is none any more. One small file, by the name that
the finding itself gives; a name that no finding has any more is ignored.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from safekept.core.events import silent
from safekept.core.files.small import read_document, write_document
from safekept.core.journal import new_id

from ..base.context import UserContext
from ..base.record import record

VERSION = 1


def declined(context: UserContext) -> dict[str, float]:
    """The names, and when each was declined."""
    return read_document(
        _file(context),
        lambda found: {str(name): float(when) for name, when in found["declined"].items()},
        {},
    )


def decline(context: UserContext, names: Iterable[str]) -> None:
    """From now on these do not count."""
    given = tuple(names)
    known = declined(context)
    _write(context, {**known, **{name: time.time() for name in given}})
    from ..base.operations.care import DeclineFacts

    record(context, DeclineFacts(declined=given).line(new_id(), "done"), silent)


def take_back(context: UserContext, names: Iterable[str]) -> None:
    """From now on these count again, where they were declined."""
    gone = set(names)
    known = declined(context)
    if gone & known.keys():
        _write(context, {name: when for name, when in known.items() if name not in gone})


def _write(context: UserContext, names: dict[str, float]) -> None:
    write_document(_file(context), {"version": VERSION, "declined": names})


def _file(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, "declined.json")
