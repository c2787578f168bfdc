"""Writing the journal without letting it decide the outcome.

The journal is the memory of what was done, not a condition for it: a full or read-only data
directory must not turn a whole archive or a finished import into a failure. It is reported instead.
Every line says who acted, and one that begins says in which process, so that what was killed can be
told from what still runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.journal import Record

if TYPE_CHECKING:
    from .context import UserContext
    from .operations.facts import Facts


#: The copies behind the seat belt: `kept_copies.py`, which most commands need not load.
KEPT = "kept"


def record(context: UserContext, entry: Record, listener: Listener) -> None:
    """Append to the journal; where that fails, say so and go on."""
    from .operations.facts import written_facts  # commands that only read the journal do not need it

    facts = {"actor": context.caller.actor, **written_facts(entry)}
    if entry.state == "begun":
        facts["process"] = os.getpid()
    try:
        context.journal.append(dataclasses.replace(entry, facts=facts))
    except OSError as error:
        reason = error.strerror or str(error)
        listener(
            Event(
                "journal",
                text=f"Note: the journal in {context.places.data_directory} could not be written: {reason}",
            )
        )
    kept = os.path.join(context.places.data_directory, KEPT)
    if entry.state != "begun" and (context.choices.seat_belt or os.path.isdir(kept)):
        from .kept_copies import keep_copies

        keep_copies(context)
    # One look; on a machine without a keeper nothing of it is loaded.
    if entry.state != "begun" and os.path.exists(context.choices.keeper_socket):
        from ..keeper.transfer import begin_transfer

        begin_transfer(context)


#: So many lines are looked through for the last time that the same was done.
_LOOKED_THROUGH = 50


def expected_bytes(context: UserContext, verb: str, home: str, partial: bool = False) -> int:
    """How much a snapshot or an archive will read, by the last one; 0 where nothing says it."""
    from .operations.homes import SnapshotFacts  # an archive has no `partial`, and else says the same

    with contextlib.suppress(OSError):
        for entry in itertools.islice(context.journal.backwards(verb), _LOOKED_THROUGH):
            done = SnapshotFacts.read(entry)
            same = done.home == home and bool(done.partial) == partial
            if same and entry.state in ("done", "incomplete") and done.bytes is not None:
                return done.bytes
    return 0


@contextlib.contextmanager
def recording(context: UserContext, operation: str, work: Facts, listener: Listener) -> Iterator[None]:
    """Whatever ends the work early is one line of the journal: failed, or interrupted by a person.

    Its facts are read at that moment, so what was found out on the way is among them. The work that
    succeeds says so itself.
    """
    began = time.monotonic()
    try:
        yield
    except BaseException as error:
        state = "failed" if isinstance(error, Exception) else "interrupted"
        work = dataclasses.replace(work, seconds=round(time.monotonic() - began, 3), error=error_facts(error))
        record(context, work.line(operation, state), listener)
        raise


def error_facts(error: BaseException) -> dict[str, object]:
    """What went wrong, for the journal; also an error that was not foreseen."""
    if isinstance(error, SafekeptError):
        return error.as_dict()
    if isinstance(error, Exception):
        return {"code": "unexpected", "what": f"{type(error).__name__}: {error}"}
    return {"code": "interrupted", "what": "Ctrl-C, or the process was asked to end"}
