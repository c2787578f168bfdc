"""A rebuild or a setup that is on its way: what of it is done, what is not, and the command that goes on.

The record is written before the first change and taken away by the end. So after an
interruption, or a power cut in the middle, every command says the same.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.files import NOT_THERE
from safekept.core.files.small import read_document, write_document
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.spelling import shell_word

from .context import UserContext

_FILE = "unfinished.json"
#: The parts of the work, in words. What stands here is never said of anything else.
_WORDS = {
    "history": "the vault with its history",
    "destinations": "the destinations",
    "vault": "the vault",
    "passphrase": "the recovery passphrase",
    "connect": "the connection of",
    "updates": "the snapshot before each update",
    "schedule": "the schedule",
    "snapshot": "the snapshot",
    "push": "the second copy",
    "proof": "the proof",
    "kit": "the kit",
}


_MADE = "The passphrase that was made and shown opens the vault; if you do not have it, setup makes another."


class RebuildUnfinished(SafekeptError):
    code = "rebuild-unfinished"


@dataclass(slots=True)
class Unfinished:
    """One of them. The parts are steps (see `part_of`), or paths of homes."""

    verb: str  # rebuild or setup
    arguments: tuple[str, ...] = ()
    since: float = field(default_factory=time.time)
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    place: str = ""  # what is rebuilt from
    homes: dict[str, str] = field(default_factory=dict)  # those in place, and the snapshot of each
    made: str = ""  # the key of a passphrase that we made and showed; it may not be written down
    saved: list[str] = field(default_factory=list)  # what is in the settings by now, in words

    @property
    def again(self) -> NextStep:
        """The command that goes on."""
        return NextStep(self.verb, self.arguments, before="Run it again, and it goes on:")

    @property
    def stands(self) -> str:
        """What is saved, done and not done, a sentence each; and whether a passphrase may be lost."""
        several = [kind for kind, count in Counter(map(_kind, {*self.done, *self.left})).items() if count > 1]
        done, left = _listed(self.done, several), _listed(self.left, several)
        saved = f"Saved: {', '.join(self.saved)}. " if self.saved else ""
        nothing = "nothing else yet" if saved else "nothing yet"
        shown = f" {_MADE}" if self.made else ""
        return f"{saved}Done: {done or nothing}. Not done yet: {left or 'the rest'}.{shown}"

    def add(self, names: Iterable[str]) -> None:
        """Parts that are to be done, too; `connect` gives way to the agents, once they are known."""
        names = [name for name in names if name not in self.done]
        known = {*names, *map(_kind, names)}
        self.left = [name for name in self.left if name not in known] + names

    def mark(self, name: str) -> None:
        """A part is done."""
        if name in self.left:
            self.left.remove(name)
        if name not in self.done:
            self.done.append(name)

    def is_left(self, kind: str) -> bool:
        """Whether a step of this kind is still to be done."""
        return any(_kind(name) == kind for name in self.left)

    def is_done(self, kind: str) -> bool:
        """Whether a step of this kind was done, in this run or in one that was cut off."""
        return any(_kind(name) == kind for name in self.done)

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
            "made": self.made,
            "saved": self.saved,
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
    """It has ended, or was taken back: no command mentions it any more."""
    with contextlib.suppress(*NOT_THERE):
        os.unlink(_path(context))


def _parse(found: Mapping[str, object]) -> Unfinished | None:
    verb, since, homes = found["verb"], found["since"], found["homes"]
    lists = [*(found[name] for name in ("arguments", "done", "left")), found.get("saved", [])]
    if verb not in ("rebuild", "setup") or not isinstance(since, int | float) or not isinstance(homes, dict):
        return None
    arguments, done, left, saved = ([str(one) for one in items] for items in lists if isinstance(items, list))
    return Unfinished(
        str(verb),
        tuple(arguments),
        float(since),
        done,
        left,
        str(found["place"]),
        {str(home): str(snapshot) for home, snapshot in homes.items()},
        str(found.get("made") or ""),
        saved,
    )


def part_of(kind: str, subject: str = "") -> str:
    """The name of a part: a step, and of what where it comes several times."""
    return f"{kind}:{subject}" if subject else kind


def _kind(name: str) -> str:
    return name if name.startswith("/") else name.partition(":")[0]


def _listed(names: Sequence[str], several: Sequence[str]) -> str:
    """In words; what a step is of stands only where there are `several` of its kind."""
    kinds = dict.fromkeys(map(_kind, names))
    if "history" in kinds:  # the vault came with it
        kinds.pop("vault", None)
    return ", ".join(_words(kind, [one for one in names if _kind(one) == kind], several) for kind in kinds)


def _words(kind: str, names: Sequence[str], several: Sequence[str]) -> str:
    if kind not in _WORDS:
        return f"the home {names[0]}"
    *others, last = dict.fromkeys(one.partition(":")[2] for one in names)
    subjects = f"{', '.join(filter(None, others))} and {last}" if any(others) else last
    if kind == "connect":
        return f"{_WORDS[kind]} {subjects or 'agents'}"
    of = {"push": "to", "snapshot": "of", "proof": "of"}.get(kind, "")
    return f"{_WORDS[kind]} {of} {subjects}" if subjects and kind in several else _WORDS[kind]


def _path(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, _FILE)
