"""The one shape of error: what happened, what was kept safe, what to do next.

`kept` and `next_steps` have no defaults, so no error can be raised without answering the two
questions a person asks first. Each error class lives beside the code that raises it and carries
a stable kebab-case `code` with an entry in `docs/reference/errors.md`; a test keeps that true.

Rules for the texts: the first line is a fact and begins with a capital letter or with a name, `kept` is
something the code has made sure of, and each next step is either a sentence or a `NextStep`, a command
that the face prints with the launcher that was really called.
"""

from __future__ import annotations

from typing import ClassVar

from .next_step import PROGRAM, Step, commands_of, step_texts

#: Every error class by its code. Filled as classes are made; the documentation test reads it.
ERROR_CODES: dict[str, type[SafekeptError]] = {}

#: What taking a document apart can raise where it has not the right shape: a text for a number, a
#: number without end, a list in a list in a list.
BAD_SHAPE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)


class SafekeptError(Exception):
    """An error that a person can act on."""

    code: ClassVar[str] = ""
    exit_code: ClassVar[int] = 1
    retry: ClassVar[bool] = False  # may a schedule try again unasked?

    def __init__(self, what: str, *, kept: str, next_steps: tuple[Step, ...], **facts: object) -> None:
        super().__init__(what)
        self.what = what
        self.kept = kept
        self.next_steps = next_steps
        self.facts = facts

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not cls.__dict__.get("code"):
            raise TypeError(f"{cls.__name__} needs a code of its own")
        if cls.code in ERROR_CODES:
            raise TypeError(f"two errors share the code {cls.code}")
        ERROR_CODES[cls.code] = cls

    @property
    def clause(self) -> str:
        """What happened, inside another sentence."""
        return clause(self.what)

    def advice(self, program: str = PROGRAM) -> tuple[str, ...]:
        """What to do next, in sentences; commands start with `program`."""
        return tuple(step_texts(self.next_steps, program))

    def as_dict(self, program: str = PROGRAM) -> dict[str, object]:
        """The same facts for `--json`, the journal and every other face."""
        return {
            "code": self.code,
            "what": self.what,
            "kept": self.kept,
            "next": list(self.advice(program)),
            "commands": commands_of(self.next_steps),
            "retry": self.retry,
            "facts": {name: _plain(value) for name, value in self.facts.items()},
        }


#: Words that a sentence begins with and that are no names.
_OPENERS = frozenset(
    "A After An Another It Neither No None Nothing Only Process Several Snapshot Something The There These "
    "This What Your".split()
)


def clause(sentence: str) -> str:
    """`The vault is gone` as it stands behind a colon: `the vault is gone`. A name keeps its letter."""
    return sentence[:1].lower() + sentence[1:] if sentence.partition(" ")[0] in _OPENERS else sentence


def _plain(value: object) -> object:
    if isinstance(value, str | int | float | bool | type(None)):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)


# The refusal of a command that would ask a question, where no person is there.


class ConsentNeeded(SafekeptError):
    code = "consent-needed"
