"""Whether an operation can be taken back, and with which command: undo itself is asked for its plan."""

from __future__ import annotations

from safekept.core.errors import SafekeptError
from safekept.core.next_step import PROGRAM, NextStep, Step, commands_of
from safekept.core.records import dataclass
from safekept.home.landing import leftovers

from ..base.context import UserContext
from .operation import Operation


@dataclass(frozen=True, slots=True)
class UndoAvailability:
    """The answer: a command where it can be taken back, else why not and what can be done instead."""

    possible: bool
    command: NextStep | None = None
    text: str = ""
    next_steps: tuple[Step, ...] = ()

    def as_dict(self, program: str = PROGRAM) -> dict[str, object]:
        return {
            "possible": self.possible,
            "command": self.command.line(program) if self.command else None,
            "text": self.text or None,
            "next": list(self.next_steps),
            "commands": commands_of([self.command] if self.command else self.next_steps),
        }


def undo_availability(context: UserContext, operation: Operation) -> UndoAvailability:
    """Plan its undo. Nothing is changed; what keeps the plan from being made is part of the answer."""
    from .undo import UndoRequest, take_back

    home = operation.common.home or ""
    try:
        if home and leftovers(home):
            # Planning would make right what was cut off; a look changes nothing.
            return UndoAvailability(
                False,
                text="a landing in this home was cut off and has to be made right first",
                next_steps=(NextStep("doctor", ("--fix", "--home", home), before="Take it back:"),),
            )
        take_back(context, UndoRequest(operation=operation.id, dry_run=True))
    except SafekeptError as error:
        return UndoAvailability(False, text=error.what, next_steps=error.next_steps)
    except OSError as error:
        return UndoAvailability(False, text=f"it cannot be told: {error.strerror or error}")
    return UndoAvailability(True, NextStep("undo", (operation.id,)))
