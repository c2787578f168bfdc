"""Who on this machine still has the stores: the vault, the checkpoints, and the copies of the small files.

All that comes back is read from the stores. So whoever survived only has to put the stores where they were:
those behind a seat belt are there, another owner on this machine would hand them out again. A destination is
not among them: it needs a key or a passphrase, and `rebuild NAME` is its way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Protocol

from safekept.core.events import Listener

from ...base.context import UserContext
from ...base.kept_copies import copies_directory
from ...projects.project import checkpoint_directory
from ...vault.place import is_remote

VAULT, CHECKPOINTS, COPIES = "the vault", "checkpoints", "copies of the small files"


def stores(context: UserContext) -> dict[str, str]:
    """Where each store of this machine is or was."""
    found = {} if is_remote(context, context.places.vault) else {VAULT: context.places.vault}
    return {
        **found,
        CHECKPOINTS: os.path.join(checkpoint_directory(context), "store"),
        COPIES: copies_directory(context),
    }


class Survivor(Protocol):
    """One who has stores of this user."""

    name: str  # as a person is told of it: `the seat belt`

    def has(self, context: UserContext) -> tuple[str, ...]:
        """The stores that it has. Asked in a moment; changes nothing."""
        ...

    def put_back(self, context: UserContext, names: Iterable[str], listener: Listener) -> None:
        """Put these stores where they were; they are not there. SafekeptError where that cannot be."""
        ...


class SeatBelt:
    """The stores that nothing could delete: they lie where they lay."""

    name = "the seat belt"

    def has(self, context: UserContext) -> tuple[str, ...]:
        return tuple(name for name, path in stores(context).items() if os.path.isdir(path))

    def put_back(self, context: UserContext, names: Iterable[str], listener: Listener) -> None:
        """They are there."""


#: Asked in this order; what the first has is not taken from a later one.
SURVIVORS: tuple[Survivor, ...] = (SeatBelt(),)


def whose(context: UserContext) -> dict[str, Survivor]:
    """For each store that somebody has: who."""
    found: dict[str, Survivor] = {}
    for one in SURVIVORS:
        for name in one.has(context):
            found.setdefault(name, one)
    return found


def put_back_stores(context: UserContext, listener: Listener) -> None:
    """Every store that somebody has is where it was."""
    by_survivor: dict[str, tuple[Survivor, list[str]]] = {}
    for name, one in whose(context).items():
        by_survivor.setdefault(one.name, (one, []))[1].append(name)
    for one, names in by_survivor.values():
        one.put_back(context, names, listener)
