"""What every action does before it looks at a home: make right what a killed landing left, and say so.

Search indexes that a restore left to be filled behind it are gone on with, where no process is at it.
"""

from __future__ import annotations

from safekept.core.events import Event, Listener
from safekept.core.journal import Record
from safekept.home.landing import existing_areas

from .context import UserContext
from .record import record

_SENTENCES = {
    "taken-back": "{what} that was interrupted has been taken back; the home is as it was before it",
    "finished": "{what} that was complete but not tidied up has been tidied up",
    "swept": "Leftovers of {what} that was interrupted before it changed anything were removed",
}
_WHAT = {"import": "an import", "restore": "a restore", "undo": "an undo"}


def recover_interrupted(context: UserContext, home: str, listener: Listener) -> None:
    """Recover, and leave no doubt about it: a line for the person, a record in the journal."""
    if not existing_areas(home):
        return  # most homes never saw a landing, and pay for a look only
    from safekept.home.landing import recover

    for found in recover(home):
        verb = _verb(context, found.operation)
        sentence = _SENTENCES[found.outcome].format(what=_WHAT[verb])
        sentence = sentence[0].upper() + sentence[1:]
        if found.set_aside:
            sentence += f"; what was changed since then is kept in {found.place}"
        listener(Event("recover", text=sentence))
        facts = {"home": home, **found.as_dict()}
        record(context, Record(found.operation, verb, "recovered", facts=facts), listener)
    from .search_behind import begin

    begin(home)


def _verb(context: UserContext, operation: str) -> str:
    """What was being done, by the journal; an import where it does not say."""
    verbs = (entry.verb for entry in context.journal.read() if entry.operation == operation)
    return next((verb for verb in verbs if verb in _WHAT), "import")
