"""A rebuild or a setup that is on its way: what of it is done, what is not, and the command that goes on.

The record is written before the first change and taken away by the end. So whoever was interrupted, and
whoever looks after a machine that lost its power in the middle, is told the same by every command.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from safekept.core.errors import SafekeptError
from safekept.core.files import NOT_THERE
from safekept.core.files.small import read_document, write_document
from safekept.core.next_step import NextStep
from safekept.core.spelling import shell_word

from .context import UserContext

_FILE = "unfinished.json"
#: The parts of the work, in words. What stands here is never said of anything else.
_WORDS = {
    "history": "the vault with its history",
    "destinations": "the destinations",
    "vault": "the vault",
    "passphrase": "the recovery passphrase",
    "connect": "the connection of agents",
    "updates": "the snapshot before each update",
    "schedule": "the schedule",
    "snapshot": "the snapshot",
    "push": "the second copy",
    "proof": "the proof",
    "kit": "the kit",
}


class RebuildUnfinished(SafekeptError):
    code = "rebuild-unfinished"


@dataclass(slots=True)
class Unfinished:
    """One of them. The parts are names of steps, or paths of homes."""

    verb: str  # rebuild or setup
    arguments: tuple[str, ...] = ()
    since: float = field(default_factory=time.time)
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    place: str = ""  # what is rebuilt from
    homes: dict[str, str] = field(default_factory=dict)  # those in place, and the snapshot of each

    @property
    def again(self) -> NextStep:
        """The command that goes on."""
        return NextStep(self.verb, self.arguments, before="Run it again, and it goes on:")

    @property
    def stands(self) -> str:
        """What is done and what is not, in two sentences."""
        return f"Done: {_listed(self.done) or 'nothing yet'}. Not done yet: {_listed(self.left)}."

    def add(self, names: Iterable[str]) -> None:
        """Parts that are to be done, too; one that comes several times is that many parts."""
        names = [name for name in names if name not in self.done]
        self.left = [name for name in self.left if name not in names] + names

    def mark(self, name: str) -> None:
        """A part is done."""
        if name in self.left:
            self.left.remove(name)
        if name not in self.left and name not in self.done:
            self.done.append(name)

    def write(self, context: UserContext) -> None:
        """Remember it. Where that cannot be, the work itself goes on."""
        document = {
            "version": 1,
            "verb": self.verb,
            "arguments": list(self.arguments),
            "since": self.since,
            "done": self.done,
            "left": self.left,
            "place": self.place,
            "homes": self.homes,
        }
        with contextlib.suppress(OSError):
            write_document(_path(context), document)


def read_unfinished(context: UserContext) -> Unfinished | None:
    """What was begun here and has not ended; None where there is nothing."""
    return read_document(_path(context), _parse, None)


def refuse_while_rebuilding(context: UserContext) -> None:
    """Raise RebuildUnfinished where one was begun: it does what is asked for, and it has the history."""
    work = read_unfinished(context)
    if work is None or work.verb != "rebuild":
        return
    raise RebuildUnfinished(
        f"A rebuild was begun on this machine, and has not ended. {work.stands.rstrip('.')}",
        kept="Nothing was asked or changed",
        next_steps=(
            work.again,
            f"Or, if you do not want it any more, forget it: `rm {shell_word(_path(context))}`",
        ),
        place=work.place,
    )


def finished(context: UserContext) -> None:
    """It has ended, or was taken back: nobody is notified of it any more."""
    with contextlib.suppress(*NOT_THERE):
        os.unlink(_path(context))


def _parse(found: Mapping[str, object]) -> Unfinished | None:
    verb, since, homes = found["verb"], found["since"], found["homes"]
    lists = [found[name] for name in ("arguments", "done", "left")]
    if verb not in ("rebuild", "setup") or not isinstance(since, int | float) or not isinstance(homes, dict):
        return None
    arguments, done, left = ([str(one) for one in items] for items in lists if isinstance(items, list))
    return Unfinished(
        str(verb),
        tuple(arguments),
        float(since),
        done,
        left,
        str(found["place"]),
        {str(home): str(snapshot) for home, snapshot in homes.items()},
    )


def _listed(names: Iterable[str]) -> str:
    listed = dict.fromkeys(names)
    if "history" in listed:  # the vault came with it
        listed.pop("vault", None)
    return ", ".join(_WORDS.get(name, f"the home {name}") for name in listed)


def _path(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, _FILE)
