"""A destination that came into the settings, or went out of them: a line in the journal.

The settings themselves are written by a face. What lies in the place is not touched by either.
"""

from __future__ import annotations

from safekept.core.events import Listener, silent
from safekept.core.journal import new_id

from ..base.context import UserContext
from ..base.operations.stores import DestinationAddFacts, DestinationRemoveFacts
from ..base.record import record
from .destination import DestinationSetting


def note_added(
    context: UserContext, setting: DestinationSetting, listener: Listener = silent
) -> DestinationAddFacts:
    """It stands in the settings now."""
    work = DestinationAddFacts(destination=setting.name, place=setting.url)
    record(context, work.line(new_id(), "done"), listener)
    return work


def note_removed(
    context: UserContext, setting: DestinationSetting, listener: Listener = silent
) -> DestinationRemoveFacts:
    """It stands there no more."""
    work = DestinationRemoveFacts(destination=setting.name, place=setting.url)
    record(context, work.line(new_id(), "done"), listener)
    return work
