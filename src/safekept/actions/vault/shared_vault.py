"""Many hosts in one vault, by explicit choice: this machine gets a key of its own to a vault that is there.

Each of them can then read what the others stored, and only removing keys takes that back; so it
is asked first. A copy that some machine pushes to is never shared: its `push --prune` would take away what
the others stored there.
"""

from __future__ import annotations

import os
import re

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.vault.errors import VaultExists, WrongKey
from safekept.vault.repo import Repository, generate_secret

from ..base.context import UserContext
from ..base.operations.stores import VaultJoinFacts
from ..base.record import record
from ..offsite.place import MARKER, find_destination, open_destination
from .keys.key_file import KeyExists, secret_from_file, write_key_once
from .opening import open_vault, refuse_inside_home, vault_exists
from .place import is_remote, remember_vault

_COPY = re.compile(r"[0-9a-f]{16}")


class VaultIsCopy(SafekeptError):
    code = "vault-is-a-copy"


@dataclass(frozen=True, slots=True)
class Joined:
    """A vault that this machine shares from now on."""

    place: str
    id: str
    key_file: str
    key: str  # the id of this machine's own key; "" where it had one already


def join_vault(
    context: UserContext, place: str, *, opens_with: str = "", listener: Listener = silent
) -> Joined:
    """Add a key of this machine's own to the vault at `place`; `opens_with` is a file with a key of it.

    The vault is not made the one of this machine by this: that is what the setting `vault.path` says.
    """
    if context.places.vault != place and vault_exists(context):
        raise VaultExists.at(context.places.vault)
    refuse_inside_home(context.changed(vault=place))
    _refuse_copy(context, place)
    key_file = context.places.vault_key_file
    source = context.changed(source_vault=place, vault_key_file=opens_with or key_file)
    with open_vault(source, listener=listener) as repository:
        key = own_key(repository, key_file)
        remember_vault(context.changed(vault=place), repository.id)
        work = VaultJoinFacts(vault=place, id=repository.id, key=key)
        record(context, work.line(new_id(), "done"), listener)
        return Joined(place, repository.id, key_file, key)


def own_key(repository: Repository, key_file: str) -> str:
    """The id of the key that was added. It is in the vault first: a file that opens nothing is useless."""
    own = secret_from_file(key_file)
    if own is not None:
        try:
            Repository.open(repository.storage, own)
            return ""
        except WrongKey:
            raise _taken(key_file) from None
    fresh = generate_secret()
    added = repository.add_key(fresh)
    if not write_key_once(key_file, fresh.text):
        repository.remove_key(added)
        raise _taken(key_file)
    return added


def _taken(key_file: str) -> KeyExists:
    return KeyExists(
        f"`{key_file}` holds the key of another vault",
        kept="It was not touched; nothing was added to the vault that was to be shared",
        next_steps=("Move it away, or name another file: the setting `vault.key_file`",),
        key_file=key_file,
    )


def _refuse_copy(context: UserContext, place: str) -> None:
    above, _, name = place.rstrip("/").rpartition("/")
    if not _COPY.fullmatch(name):
        return
    if is_remote(context, place):
        objects = open_destination(context, find_destination(context, above))
        try:
            marked = objects.exists(MARKER)
        finally:
            objects.close()
    else:
        marked = os.path.exists(os.path.join(above, MARKER))
    if marked:
        raise VaultIsCopy(
            f"`{place}` is the copy of a vault that a machine pushes to a destination",
            kept="Nothing was changed there",
            next_steps=(
                NextStep(
                    "vault init",
                    before="Make a vault for all of them in a place of its own:",
                    after=", with `vault.path` set to it, on the first host",
                ),
            ),
            place=place,
        )
