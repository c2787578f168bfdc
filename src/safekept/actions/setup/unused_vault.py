"""A vault that was made on this machine and never held anything: it makes room for one with a history.

Nothing is lost with it, and still it is not deleted: it is put aside, and so is its key.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time

from safekept.core.errors import SafekeptError
from safekept.core.files import fsync_directory
from safekept.vault.errors import VaultUnreachable, WrongKey
from safekept.vault.repo import Repository
from safekept.vault.storage import FileKind, LocalStorage

from ..base.context import UserContext
from ..vault.keys.key_file import secret_from_file
from ..vault.place import is_remote, storage_of

_ENDING = ".before-rebuild-"


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
    file that is of another vault stays: it may be what opens the one with the history. After a kill between
    the two, the vault goes beside its key, under the same time. After a refusal both are where they were.
    """
    vault, key = context.places.vault, context.places.vault_key_file
    ending = _begun(vault, key) or f"{_ENDING}{time.strftime('%Y%m%d-%H%M%S')}"
    moved = []
    LocalStorage(vault).belt.take_off()  # what is closed cannot be moved by root
    try:
        for path in (key, vault) if _opens(vault, key) else (vault,):
            os.rename(path, path + ending)
            moved.append(path)
            fsync_directory(os.path.dirname(path))
    except OSError as error:
        for path in moved:
            with contextlib.suppress(OSError):
                os.rename(path + ending, path)
        there = [
            next((one for one in (path, path + ending) if os.path.lexists(one)), "") for path in (vault, key)
        ]
        beside = f", its key is `{there[1]}`" if there[1] else ""
        raise VaultUnreachable(
            f"The empty vault at `{vault}` cannot be put aside: {error.strerror}",
            kept=f"Nothing was deleted: the empty vault is `{there[0]}`{beside}",
            next_steps=(
                f"See who may write in `{os.path.dirname(vault)}` and `{os.path.dirname(key)}`",
                "Or move both away yourself, then run the command again",
            ),
            place=vault,
        ) from error
    return vault + ending


def _begun(vault: str, key: str) -> str:
    """How what was put aside before is called, where its key went and the vault did not."""
    for one in sorted(glob.glob(f"{glob.escape(key)}{_ENDING}*"), reverse=True):
        ending = one.removeprefix(key)
        with contextlib.suppress(SafekeptError):  # that file holds no key
            if not os.path.lexists(vault + ending) and _opens(vault, one):
                return ending
    return ""


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
