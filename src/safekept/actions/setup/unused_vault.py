"""A vault that was made on this machine and never held anything: it makes room for one with a history.

Nothing is lost with it, and still it is not deleted: it is put aside, and so is its key.
"""

from __future__ import annotations

import contextlib
import os
import time

from safekept.core.files import fsync_directory
from safekept.vault.errors import VaultUnreachable, WrongKey
from safekept.vault.repo import Repository
from safekept.vault.storage import FileKind, LocalStorage

from ..base.context import UserContext
from ..vault.keys.key_file import secret_from_file
from ..vault.place import is_remote, storage_of


def is_unused(context: UserContext) -> bool:
    """Whether a vault is here that holds no snapshot, and no data of one."""
    vault = context.places.vault
    if is_remote(context, vault) or os.path.ismount(vault):
        return False  # such a place is not ours to move
    with contextlib.closing(storage_of(context, vault, create=True)) as here:
        kinds = (FileKind.SNAPSHOT, FileKind.PACK, FileKind.INDEX)
        return here.exists(FileKind.CONFIG) and not any(True for kind in kinds for _ in here.list(kind))


def put_aside(context: UserContext) -> str:
    """Move it and its key to names of their own; says where the vault is.

    The key goes first: one that stayed behind alone would stand in the way of the new one. A key in that
    file that is of another vault stays: it may be what opens the one with the history.
    """
    vault, key = context.places.vault, context.places.vault_key_file
    ending = f".before-rebuild-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        for path in (key, vault) if _opens(vault, key) else (vault,):
            os.rename(path, path + ending)
            fsync_directory(os.path.dirname(path))
    except OSError as error:
        raise VaultUnreachable(
            f"The empty vault at `{vault}` cannot be put aside: {error.strerror}",
            kept="Nothing of it was deleted",
            next_steps=("Move it and its key away yourself, then run the command again",),
            place=vault,
        ) from error
    return vault + ending


def _opens(vault: str, key_file: str) -> bool:
    """Whether the key in a file is the one of this vault."""
    secret = secret_from_file(key_file) if key_file else None
    if secret is None:
        return False
    try:
        Repository.open(LocalStorage(vault), secret).close()
    except WrongKey:
        return False
    return True
