"""The dataclass of every verb, found by the name that stands in the line."""

from __future__ import annotations

import functools
import importlib

from safekept.core.journal import Record

from .facts import Facts

#: Each is loaded when a line of it is read.
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


def read_line(record: Record) -> Facts:
    """A line of any verb; of one that is not known only what every verb has."""
    return every_verb().get(record.verb, Facts).read(record)
