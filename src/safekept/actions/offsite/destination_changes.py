"""A destination that came into the settings, or went out of them: a line in the journal.

The settings themselves are written by a face. What lies in the place is not touched by either.
"""

from __future__ import annotations

import contextlib

from safekept.core.events import Listener, silent
from safekept.core.journal import new_id

from ..base.context import UserContext
from ..base.operations.stores import DestinationAddFacts, DestinationRemoveFacts
from ..base.record import record
from .destination import DestinationSetting


def note_change(
    context: UserContext, setting: DestinationSetting, listener: Listener = silent, *, removed: bool = False
) -> None:
    """It stands in the settings now; `removed`: it stands there no more."""
    kind = DestinationRemoveFacts if removed else DestinationAddFacts
    record(context, kind(destination=setting.name, place=setting.url).line(new_id(), "done"), listener)


def removed_places(context: UserContext) -> set[str]:
    """The addresses that were destinations here and were taken out, by the journal."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in context.journal.read():
            place = (DestinationAddFacts.read(entry).place or "").rstrip("/")
            if entry.verb == DestinationRemoveFacts.verb:
                found.add(place)
            elif entry.verb == DestinationAddFacts.verb:
                found.discard(place)
    return found
