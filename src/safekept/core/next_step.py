"""What to do next: one of our commands as words, with the sentence around it.

Rooms and actions name a command by its verb and its arguments. Only a face turns that into text, because
only a face knows how the program was called and how its reader runs commands. Every argument is quoted in
one place, so a path with spaces in it is printed in a way that runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from .records import dataclass
from .spelling import shell_line, shell_words

PROGRAM = "safekept"


@dataclass(frozen=True, slots=True)
class NextStep:
    """One command to run, the words around it (`before`, `after`), and what follows in the same sentence."""

    verb: str  # "snapshot list"; empty for the bare program
    arguments: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    then: NextStep | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The command without the program's name."""
        return (*self.verb.split(), *self.arguments)

    def commands(self) -> Iterator[NextStep]:
        """This command, and those that follow in the same sentence."""
        yield self
        if self.then is not None:
            yield from self.then.commands()

    def line(self, program: str = PROGRAM) -> str:
        """The command by itself, as it is typed. `program` is ready for a shell: quoted where it must be."""
        return f"{program} {shell_line(self.words)}" if self.words else program

    def text(self, program: str = PROGRAM) -> str:
        """The sentence, with every command in backticks."""
        text = f"{self.before} `{self.line(program)}`{self.after}".removeprefix(" ")
        return text if self.then is None else f"{text} {self.then.text(program)}"

    def __str__(self) -> str:
        return self.text()

    def reworded(self, words: Callable[[NextStep], NextStep]) -> NextStep:
        """The same sentence with each of its commands changed."""
        changed = words(replace(self, then=None))
        return replace(changed, then=self.then.reworded(words) if self.then else changed.then)

    def filled(self, **values: str) -> NextStep:
        """The same command with these in the place of words such as FILE or ID."""
        return replace(self, arguments=tuple(values.get(word, word) for word in self.arguments))

    def adding(self, *words: str) -> NextStep:
        """The same command with more words after it: the options that were given, too."""
        return replace(self, arguments=(*self.arguments, *words))


#: A sentence for a person, or a command of ours.
Step = str | NextStep


def step_text(step: Step, program: str = PROGRAM) -> str:
    """One step as a face prints it."""
    return step if isinstance(step, str) else step.text(program)


def step_texts(steps: Iterable[Step], program: str = PROGRAM) -> list[str]:
    """Steps as a face prints them."""
    return [step_text(step, program) for step in steps]


def spelled(document: Mapping[str, object], program: str = PROGRAM) -> dict[str, object]:
    """A document with every step in it as text, for callers that write it themselves."""
    found = _spelled(document, program)
    assert isinstance(found, dict)
    return found


def _spelled(value: object, program: str) -> object:
    if isinstance(value, NextStep):
        return value.text(program)
    if isinstance(value, Mapping):
        return {str(name): _spelled(one, program) for name, one in value.items()}
    return [_spelled(one, program) for one in value] if isinstance(value, list | tuple) else value


def commands_of(steps: Iterable[Step]) -> list[dict[str, object]]:
    """The commands in these steps for programs, which should not have to read sentences."""
    found = (one for step in steps if isinstance(step, NextStep) for one in step.commands())
    return [{"verb": one.verb, "arguments": list(one.arguments)} for one in found]


def next_document(steps: Iterable[Step]) -> dict[str, object]:
    """The steps as a result carries them; the face that writes the document spells them."""
    steps = list(steps)
    return {"next": steps, "commands": commands_of(steps)}


def reworded(steps: Iterable[Step], words: Callable[[NextStep], NextStep]) -> tuple[Step, ...]:
    """Every command among these steps changed, where only the caller knows what was asked; sentences stay."""
    return tuple(step if isinstance(step, str) else step.reworded(words) for step in steps)


_COMMAND = re.compile(r"`safekept(?: ([^`]*))?`")
#: First words of verbs that have more than one; a test holds them against the commands that there are.
_GROUPS = frozenset(
    {
        "backup",
        "checkpoint",
        "destinations",
        "helper",
        "keeper",
        "notify",
        "schedule",
        "sessions",
        "snapshot",
        "vault",
        "vault key",
    }
)


#: What commands were called, and what they are called now: older lines of a journal have the old names.
_FORMERLY = {
    ("checkpoints",): ("checkpoint",),
    ("disconnect",): ("connect", "--remove"),
    ("seal", "keygen"): ("backup", "keygen"),
    ("seal",): ("backup", "keygen"),
    ("adopt",): ("snapshot", "adopt"),
    ("keeper", "restore"): ("rebuild",),
}


def today(words: Iterable[str]) -> list[str]:
    """The same command by the name that it has today; nothing where its name never changed."""
    words = list(words)
    if words == ["checkpoints"]:
        return ["checkpoint", "status"]
    for former, now in _FORMERLY.items():
        if tuple(words[: len(former)]) == former:
            return [*now, *words[len(former) :]]
    return []


def named(words: Iterable[str], before: str = "", after: str = "") -> NextStep:
    """The command of these words: those that say what to do are its verb."""
    words = list(words)
    verb, *arguments = today(words) or words
    while verb in _GROUPS and arguments and arguments[0][:1].isalpha() and arguments[0].islower():
        verb += f" {arguments.pop(0)}"
    return NextStep(verb, tuple(arguments), before, after)


def read_step(text: str) -> Step:
    """A step that was written down as text (a line of the journal, a receipt), as it was before."""
    found = _COMMAND.search(text)
    before = text[: found.start()] if found else ""
    if found is None or (before and not before.endswith(" ")):
        return text
    try:
        words = shell_words(found[1] or "")
    except ValueError:
        return text
    rest = text[found.end() :]
    step = named(words or [""], before.removesuffix(" "))
    after, space, following = rest.partition(" ")
    then = read_step(following) if space else ""
    return replace(step, after=after, then=then) if isinstance(then, NextStep) else replace(step, after=rest)
