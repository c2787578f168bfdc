"""The one shape of what was done: a dataclass per verb, whose fields are the facts of its line.

A line of the journal is written from these fields and read into them, with their types. A line may be older
or newer than this code, or foreign: what is missing or of another kind than its field reads as not there, and
nothing raises. Lines have had one shape so far, version 1. When that changes, an older line gets today's
names in `_as_of_today`, so that everything that was ever written still reads.

The same object goes on with the result of its action: `--json`, the tools of an agent and the values of
Python take from `document()` what the line says too, so that no two of them can differ.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any, ClassVar, Self

from safekept.core.journal import Record
from safekept.core.next_step import Step, read_step
from safekept.core.records import dataclass


def documented(name: str = "") -> Any:
    """A fact that documents for programs have, too; `name`: where it is called otherwise there."""
    return field(default=None, metadata={"document": name})


def counted() -> Any:
    """How many there are, of what documents name one by one."""
    return field(default=None, metadata={"listed": True})


@dataclass(kw_only=True, slots=True)
class Facts:
    """What one operation says of itself. It is filled while the work goes on; what is None is not written."""

    verb: ClassVar[str] = ""

    actor: str | None = None  # who acted: added when the line is written, and so are the next two
    process: int | None = None  # of a line that begins: who is at work
    part_of: str | None = (
        None  # the operation that this was a part of: one turn that went back in many places
    )
    error: Mapping[str, object] | None = None
    home: str | None = documented()
    seconds: float | None = documented()

    def facts(self) -> dict[str, object]:
        """The facts of the line."""
        values = ((_written(one.name), getattr(self, one.name)) for one in fields(self))
        return {name: _plain(value) for name, value in values if value is not None}

    def document(self, *names: str) -> dict[str, Any]:
        """What documents for programs say of it, as it is called there: what is known, or just `names`."""
        found = {name: _plain(getattr(self, one)) for one, name in self.names().items()}
        if names:
            return {name: found[name] for name in names}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def names(cls) -> dict[str, str]:
        """The fields that documents have, and what each is called there."""
        return {
            one.name: one.metadata["document"] or _written(one.name)
            for one in fields(cls)
            if "document" in one.metadata
        }

    @classmethod
    def lists(cls) -> tuple[str, ...]:
        """The fields that say how many there are of what documents list under the same name."""
        return tuple(one.name for one in fields(cls) if "listed" in one.metadata)

    def add(self, facts: Mapping[str, object]) -> None:
        """Take over facts that were found elsewhere; each has its field here."""
        known = {_written(one.name): one.name for one in fields(self)}
        for name, value in facts.items():
            setattr(self, known[name], tuple(value) if isinstance(value, list) else value)

    def line(self, operation: str, state: str, verb: str = "") -> Record:
        """The line itself, as it is appended to the journal."""
        return Record(operation, verb or self.verb, state, facts=self.facts())

    @classmethod
    def read(cls, *records: Record) -> Self:
        """The same from the lines of one operation, whichever version wrote them; the last word counts."""
        work, facts = cls(), written_facts(*records)
        for name, written, read in _readers(cls):
            if written in facts:
                setattr(work, name, read(facts[written]))
        return work


@dataclass(kw_only=True, slots=True)
class AnyFacts(Facts):
    """What a line of any verb may say of where it was done and how much it was."""

    homes: tuple[str, ...] | None = None  # of what is about several
    places: tuple[str, ...] | None = None  # projects and homes, of what is about both
    project: str | None = None
    rebuild: str | None = None  # the rebuild that brought it back
    destination: str | None = None
    vault: str | None = None
    agent: str | None = None
    files: int | None = None
    bytes: int | None = None
    bytes_freed: int | None = None
    freed_bytes: int | None = None
    bytes_read: int | None = None
    stored_bytes: int | None = None

    @property
    def place(self) -> str:
        """The home or project that it was about; else the destination or vault, or the agent connected."""
        home = self.home or next(iter(self.homes or ()), "")
        home = home or next(iter(self.places or ()), "")
        return home or self.project or self.destination or self.vault or self.agent or ""

    @property
    def size(self) -> int | None:
        sizes = (self.bytes, self.bytes_freed, self.freed_bytes, self.bytes_read, self.stored_bytes)
        return next((size for size in sizes if size is not None), None)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an operation failed, as its line tells it."""

    code: str = ""
    what: str = ""
    kept: str = ""
    next_steps: tuple[Step, ...] = ()

    @classmethod
    def read(cls, record: Record) -> Failure | None:
        """None where the line says of no error."""
        error = Facts.read(record).error
        if error is None:
            return None
        steps = tuple(map(read_step, _texts(error.get("next")) or ()))
        code, what, kept = (_text(error.get(name)) or "" for name in ("code", "what", "kept"))
        return cls(code, what, kept, steps)


def written_facts(*records: Record) -> dict[str, object]:
    """All that the lines of one operation say, also what no class knows: to be shown, or written on."""
    return {name: value for one in records for name, value in _as_of_today(one).items()}


def _as_of_today(record: Record) -> Mapping[str, object]:
    """The facts under today's names. Nothing has changed yet; a newer line is read as far as it is known."""
    return record.facts if isinstance(record.facts, dict) else {}


_Readers = tuple[tuple[str, str, Callable[[object], object]], ...]
_known: dict[object, _Readers] = {}


def _readers(kind: type[Facts]) -> _Readers:
    """Of every field its name, its name in the line, and how it is read; found out once for a class."""
    if kind not in _known:
        _known[kind] = tuple((one.name, _written(one.name), READERS[str(one.type)]) for one in fields(kind))
    return _known[kind]


def _written(name: str) -> str:
    """A field whose name is a word of Python has a line below behind it: `as_` is `as`."""
    return name.removesuffix("_")


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _texts(value: object) -> tuple[str, ...] | None:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else None


def _mapping(value: object) -> Mapping[str, object] | None:
    return value if isinstance(value, dict) else None


def _mappings(value: object) -> tuple[Mapping[str, object], ...] | None:
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else None


#: How a field of a type is read; a type that is not here is a mistake of the one who wrote the class.
READERS: dict[str, Callable[[object], object]] = {
    "str | None": _text,
    "int | None": _whole,
    "float | None": _number,
    "bool | None": _flag,
    "tuple[str, ...] | None": _texts,
    "Mapping[str, object] | None": _mapping,
    "tuple[Mapping[str, object], ...] | None": _mappings,
}


# The dataclass of every verb, found by the name that stands in the line: for `log`, which shows them all.


_MODULES = ("homes", "projects", "stores", "care")


@functools.cache
def every_verb() -> dict[str, type[Facts]]:
    """Verb to class, of all that is ever written."""
    found: dict[str, type[Facts]] = {}
    for name in _MODULES:
        module = importlib.import_module(f"{__package__}.{name}")
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, Facts) and one.verb:
                found[one.verb] = one
    return found


def read_operation(*records: Record) -> Facts:
    """The lines of an operation of any verb; of one that is not known only what every verb may have."""
    return every_verb().get(records[-1].verb, AnyFacts).read(*records)
