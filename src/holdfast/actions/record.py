"""Writing the journal without letting it decide the outcome.

The journal is the memory of what was done, not a condition for it: a full or read-only data
directory must not turn a whole archive or a finished import into a failure. It is said instead.
"""

from __future__ import annotations

from holdfast.actions.surroundings import Surroundings
from holdfast.core.events import Event, Listener
from holdfast.core.journal import Record


def record(surroundings: Surroundings, entry: Record, listener: Listener) -> None:
    """Append to the journal; where that fails, say so and go on."""
    try:
        surroundings.journal.append(entry)
    except OSError as error:
        reason = error.strerror or str(error)
        listener(Event("journal", text=f"Note: the journal in {surroundings.data_directory}: {reason}"))
