"""Ctrl-C: what a person reads of what stands by then. Each command says what is true of it, and no more."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Self

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep, Step

from .console import Console


class Interrupted(SafekeptError):
    code, exit_code = "interrupted", 130

    @classmethod
    def when(cls, kept: str, *next_steps: Step) -> Self:
        return cls("It was interrupted", kept=kept, next_steps=next_steps or ("Run it again",))


#: It only looks.
_UNCHANGED = "Nothing was changed"
#: It is one thing, which is done or taken back.
_WHOLE = "Nothing is left half done"
_STAYS = "What was done by then stays"
_HOW = NextStep("", before="See how it stands:")
_DONE = NextStep("log", before="See what was done:")
_CHECKPOINTS = NextStep("checkpoint status", before="See how it stands:")
_SCHEDULE = NextStep("schedule show", before="See how it stands:")

#: What holds of each command once it was interrupted, and what to do. `setup`, `rebuild` and the others that
#: know more of what they have done say it themselves; these are their words where they had not begun.
STANDS: dict[str, tuple[str, *tuple[Step, ...]]] = {
    "setup": (_UNCHANGED,),
    "rebuild": (_UNCHANGED,),
    "uninstall": (
        "What was taken back by then is gone, the rest is as it was",
        NextStep("uninstall", before="Go on:"),
    ),
    "import": (_WHOLE,),
    "restore": (_WHOLE,),
    "rollback": (_WHOLE,),
    "undo": (_WHOLE,),
    "sessions restore": (_WHOLE,),
    "snapshot restore": (_WHOLE,),
    "backup create": ("No half-written archive is left",),
    "backup keygen": (_WHOLE,),
    "snapshot create": ("Nothing is left half done; the next snapshot uses what was stored by then",),
    "snapshot adopt": (f"{_STAYS}; run it again, and it goes on",),
    "snapshot pin": (_STAYS, NextStep("snapshot list", before="See how it stands:")),
    "snapshot forget": (_STAYS, NextStep("snapshot list", before="See how it stands:")),
    "snapshot prune": (_STAYS, NextStep("snapshot list", before="See how it stands:")),
    "vault init": (_WHOLE,),
    "keeper status": (_UNCHANGED,),
    "keeper serve": ("What it holds is whole",),
    "keeper acknowledge": (_WHOLE,),
    "keeper install": (f"{_STAYS}; run it again, and it goes on",),
    "keeper remove": (f"{_STAYS}; run it again, and it goes on",),
    "vault check": (_UNCHANGED,),
    "vault stats": (_UNCHANGED,),
    "vault repair": (
        f"{_STAYS}; run it again, and it goes on",
        NextStep("vault check", before="See how it is:"),
    ),
    "vault prune": ("Every snapshot is whole; run it again, and it goes on",),
    "vault unlock": (_STAYS,),
    "vault open": (_STAYS, NextStep("vault close", before="Close the stores:")),
    "vault close": (_STAYS, NextStep("vault close", before="Close the stores:")),
    "vault kit": (_WHOLE,),
    "vault key list": (_UNCHANGED,),
    "vault key add": (_WHOLE, NextStep("vault key list", before="See the keys:")),
    "vault key remove": (_WHOLE, NextStep("vault key list", before="See the keys:")),
    "vault key renew": (_WHOLE, NextStep("vault key list", before="See the keys:")),
    "vault key export": (_WHOLE,),
    "checkpoint create": (_WHOLE,),
    "checkpoint prune": (_STAYS, _CHECKPOINTS),
    "checkpoint clear": (_STAYS, _CHECKPOINTS),
    "checkpoint clear-legacy": (_STAYS, _CHECKPOINTS),
    "checkpoint adopt": (f"{_STAYS}; run it again, and it goes on", _CHECKPOINTS),
    "run": ("What the agent changed by then stays", NextStep("rollback", before="See the way back:")),
    "connect": ("Each agent is connected or is not", NextStep("status", before="See which:")),
    "guard": ("Whether the command ran is in the journal", _DONE),
    "drill": ("Nothing was changed; what was restored for the proof is removed",),
    "push": ("What arrived there stays, and the next push goes on; the copies from before are whole",),
    "pull": ("What was fetched stays, and counts only once all of it is here; run it again, and it goes on",),
    "destinations add": (_STAYS, NextStep("destinations list", before="See what is saved:")),
    "destinations remove": (_STAYS, NextStep("destinations list", before="See what is saved:")),
    "destinations test": ("Nothing of yours was changed",),
    "schedule install": (_STAYS, _SCHEDULE),
    "schedule remove": (_STAYS, _SCHEDULE),
    "schedule run": ("What was done by then is done; the rest is due at the next run", _SCHEDULE),
    "doctor": ("What `--fix` mended by then stays; nothing else was changed", _HOW),
    "settings": (_WHOLE,),
    "notify test": (_UNCHANGED,),
    "demo": ("Nothing of yours was touched; what the demo made is removed",),
    "manual": (_WHOLE,),
    "mcp": (_WHOLE,),
    "ui": (_WHOLE,),
    "hook": (_WHOLE,),
    "helper run": (_WHOLE,),
    "helper call": (_WHOLE,),
    "helper stop": (_WHOLE,),
    **dict.fromkeys(
        (
            *("status", "history", "fleet", "log", "completion", "helper status", "schedule show"),
            *("snapshot list", "snapshot show", "snapshot diff", "sessions list", "sessions show"),
            "sessions search",
            *("checkpoint status", "checkpoint list", "destinations list", "destinations show"),
        ),
        (_UNCHANGED,),
    ),
}


def interrupted(command: str) -> Interrupted:
    """What there is to say of this command; before one was found, nothing had begun."""
    kept, *steps = STANDS.get(command, (_UNCHANGED,))
    return Interrupted.when(kept, *steps)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What is done in it is done whole: a Ctrl-C comes after it."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:  # an error in it does not make the work go on
            raise KeyboardInterrupt


def tell_interrupted(console: Console, error: Interrupted) -> None:
    """A person reads a line or two; a program reads the document of an error."""
    if console.as_json:
        console.error(error)
        return
    console.clear_line()
    several = ". " in error.kept
    console.say(f"Interrupted. {error.kept}" if several else f"Interrupted; {_lower(error.kept)}")
    for step in error.next_steps:
        if isinstance(step, NextStep):
            console.say(step)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
