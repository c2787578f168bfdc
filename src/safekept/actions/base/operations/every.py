"""The dataclass of every verb, found by the name that stands in the line."""

from __future__ import annotations

import functools
import importlib

from safekept.core.journal import Record

from .facts import Facts

#: In the order of the command line's groups; each is loaded when a line of it is read.
_GROUPS = (
    "snapshots", "restoring", "projects", "offsite", "vault", "archives", "guard", "drill", "upkeep"
)  # fmt: skip


@functools.cache
def every_verb() -> dict[str, type[Facts]]:
    """Verb to class, of all that is ever written."""
    found: dict[str, type[Facts]] = {}
    for group in _GROUPS:
        module = importlib.import_module(f"{__package__}.{group}")
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, Facts) and one.verb:
                found[one.verb] = one
    return found


def read_line(record: Record) -> Facts:
    """A line of any verb; of one that is not known only what every verb has."""
    return every_verb().get(record.verb, Facts).read(record)
