"""The vault of a machine that is gone, on the one that was rebuilt: fetched whole, with a key of its own.

So the history goes on where it ended, in the same vault and with the same copies elsewhere. A vault that was
made here and never used is put aside for it; one that holds anything is never joined with another.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace

from safekept.core.events import Listener, silent
from safekept.core.files import NoRoom, free_bytes
from safekept.home.landing import existing
from safekept.vault.storage import DIRECTORIES, FileKind

from ..base.context import UserContext
from ..offsite.pull import PullRequest, pull
from ..vault.keys.keys import GENERATED, listed_keys
from ..vault.keys.kit_record import acknowledge_kit, of_page
from ..vault.opening import open_vault, vault_exists
from ..vault.place import remember_vault, storage_of
from ..vault.shared_vault import own_key
from .unused_vault import is_unused


def may_bring(context: UserContext, place: str) -> bool:
    """Whether this machine has no vault yet, an empty one, or that one.

    It has that one where it was fetched before, and what follows was cut off.
    """
    if place == context.places.vault:
        return False
    return not vault_exists(context) or is_unused(context) or _is_here(context, place)


def _is_here(context: UserContext, place: str) -> bool:
    """Whether the vault here was fetched from there: both have the same `config`."""
    here, there = storage_of(context, context.places.vault, create=True), storage_of(context, place)
    with contextlib.closing(here), contextlib.closing(there):
        return here.read(FileKind.CONFIG) == there.read(FileKind.CONFIG)


def bytes_to_bring(context: UserContext, place: str) -> int:
    """How much is fetched, by a look at the sizes there; what a pull that was cut off has fetched is here."""
    if vault_exists(context) and not is_unused(context):
        return 0
    here, there = storage_of(context, context.places.vault, create=True), storage_of(context, place)
    with contextlib.closing(here), contextlib.closing(there):
        sizes = [sum(size for kind in DIRECTORIES for _, size in one.list(kind)) for one in (there, here)]
        return max(0, sizes[0] - sizes[1])


def refuse_without_room(context: UserContext, needed: int, home: str, for_home: int) -> int:
    """The room where the vault will be. NoRoom where that is too little for it, and for a home beside it."""
    above = existing(context.places.vault)
    free = free_bytes(above)
    total = needed + (for_home if os.stat(above).st_dev == os.stat(existing(home)).st_dev else 0)
    if total > free:
        raise NoRoom(
            f"There is not enough room for the vault in `{context.places.vault}`: {total:,} bytes are "
            f"needed, {free:,} are free",
            kept="Nothing was changed",
            next_steps=(
                "Make room on that disk, then run the command again",
                "Or bring the home back alone: add `--home-only`",
            ),
            needed=total,
            free=free,
        )
    return free


def bring_vault(
    context: UserContext,
    opening: UserContext,
    place: str,
    *,
    kit: Sequence[str] | None = None,
    listener: Listener = silent,
) -> str:
    """Fetch the vault at `place` and make it this machine's; says where it is.

    `opening` is the same user with the key or passphrase that opened it there. `kit`: it was
    opened with one that names these places, so it is kept elsewhere.
    """
    if not vault_exists(context):
        pull(context, PullRequest(place), listener)
    with open_vault(opening.changed(source_vault=context.places.vault), listener=listener) as repository:
        own_key(repository, context.places.vault_key_file)
        remember_vault(context, repository.id)
        if kit is not None:
            opened = next((one for one in listed_keys(repository) if one.current), None)
            held = opened.id if opened is not None and opened.kind == GENERATED else ""
            seen = replace(of_page(kit, repository.id), key=held)
            acknowledge_kit(context, repository, listener, seen=seen)
    return context.places.vault
