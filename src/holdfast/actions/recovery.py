"""What every action does before it looks at a home: make right what a killed import left, and say so."""

from __future__ import annotations

from holdfast.actions.record import record
from holdfast.actions.surroundings import Surroundings
from holdfast.core.events import Event, Listener
from holdfast.core.journal import Record
from holdfast.home.landing import recover

_SENTENCES = {
    "taken-back": "An import that was interrupted has been taken back; the home is as it was before it",
    "finished": "An import that was complete but not tidied up has been tidied up",
    "swept": "Leftovers of an import that was interrupted before it changed anything were removed",
}


def make_right(surroundings: Surroundings, home: str, listener: Listener) -> None:
    """Recover, and leave no doubt about it: a line for the person, a record in the journal."""
    for found in recover(home):
        sentence = _SENTENCES[found.outcome]
        if found.set_aside:
            sentence += f"; what was changed since then is kept in {found.place}"
        listener(Event("recover", text=sentence))
        facts = {"home": home, **found.as_dict()}
        record(surroundings, Record(found.operation, "import", "recovered", facts=facts), listener)
