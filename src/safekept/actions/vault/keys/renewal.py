"""A new key in the place of the one in use: for a key that others may have read.

Killed at any instant, the key file opens the vault, and the same command goes on: the new key lies beside the
key file until it is proven, and the old one is taken out of the vault last. The old key file is kept: copies
of the vault that were not pushed since open with nothing else, nor would another vault that had the same key.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.events import silent
from safekept.core.files import fsync_directory
from safekept.core.journal import new_id
from safekept.core.locks import process_lock
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.vault.repo import Repository, Secret, generate_secret

from ...base.context import UserContext
from ...base.record import record
from ..opening import looks_generated
from .key_file import KeyUnwritable, secret_from_file, write_key_once
from .keys import export_key, opened_by, remove_key
from .kit_record import key_ids

#: Beside the key file: the key that is to take its place, and those whose place was taken.
_NEW, _OLD = ".new", ".old-"


class NoKeyToRenew(SafekeptError):
    code = "no-key-to-renew"


@dataclass(frozen=True, slots=True)
class Renewed:
    """One key went, another is in its place."""

    key: str  # the id of the one in use now
    removed: tuple[str, ...]  # ids of those that open the vault no more
    kept: tuple[str, ...]  # the files that hold them


def renew_key(context: UserContext, repository: Repository) -> Renewed:
    """Put a new key into the key file, and take the old one out of the vault once the new one is proven.

    One that was cut off before is finished, and nothing else is done.
    """
    if secret_from_file(context.places.vault_key_file) is None:
        raise NoKeyToRenew(
            f"The vault at `{context.places.vault}` opens with a passphrase, and with no key file",
            kept="No key was added or removed",
            next_steps=(
                NextStep("vault key add", before="Add a new passphrase:"),
                NextStep(
                    "vault key remove", ("ID",), before="Open the vault with it, and remove the old one:"
                ),
            ),
        )
    key_file = os.path.realpath(context.places.vault_key_file)
    lock = os.path.join(context.places.data_directory, "vault-key.lock")
    with process_lock(lock, "vault key renew"):
        current = export_key(context, repository)
        if replaced := _still_open(repository, key_file):
            return _without(context, repository, current, replaced)
        old = opened_by(repository, current)
        with _as_it_was(context):
            fresh = _proven(context, repository, key_file + _NEW)
            write_key_once(_kept(key_file, old), current.text)
            os.replace(key_file + _NEW, key_file)
        fsync_directory(os.path.dirname(key_file))
        return _without(context, repository, fresh, {old: _kept(key_file, old)})


@contextlib.contextmanager
def _as_it_was(context: UserContext) -> Iterator[None]:
    """Until the new key has the old one's name, nothing was taken away."""
    try:
        yield
    except (OSError, KeyUnwritable) as error:
        why = error.clause if isinstance(error, KeyUnwritable) else error.strerror or str(error)
        raise KeyUnwritable(
            f"The new key could not be put into `{context.places.vault_key_file}`: {why}",
            kept="The key file is as it was, and opens the vault",
            next_steps=(NextStep("vault key renew", before="Make room or correct the rights, then go on:"),),
            key_file=context.places.vault_key_file,
        ) from error


def _proven(context: UserContext, repository: Repository, place: str) -> Secret:
    """The new key, in a file of its own and in the vault, which opens with it."""
    begun = secret_from_file(place)  # by one that was cut off
    fresh = Secret(begun.text, generated=looks_generated(begun.text)) if begun else generate_secret()
    if begun is None:
        write_key_once(place, fresh.text)
    if begun is None or not opened_by(repository, fresh):
        added = repository.add_key(fresh)
        from ...base.operations.stores import VaultKeyAddFacts

        work = VaultKeyAddFacts(vault=context.places.vault, key=added, recovery=False)
        record(context, work.line(new_id(), "done"), silent)
    Repository.open(repository.storage, fresh)  # from what is stored; raises where it does not open
    return fresh


def _without(
    context: UserContext, repository: Repository, current: Secret, replaced: dict[str, str]
) -> Renewed:
    """Take the replaced keys out of the vault, opened with the one that stays."""
    opened = Repository.open(repository.storage, current)
    for key in replaced:
        remove_key(context, opened, key)
    return Renewed(opened.key_id, tuple(replaced), tuple(replaced.values()))


def _still_open(repository: Repository, key_file: str) -> dict[str, str]:
    """Keys whose place was taken, and that still open the vault: a renewal was cut off before its end."""
    found = {}
    for key in sorted(key_ids(repository) - {repository.key_id}):
        for path in glob.glob(_kept(glob.escape(key_file), key)):
            secret = secret_from_file(path)
            if secret is not None and opened_by(repository, secret) == key:
                found[key] = path
    return found


def _kept(key_file: str, key: str) -> str:
    return f"{key_file}{_OLD}{key[:8]}"
