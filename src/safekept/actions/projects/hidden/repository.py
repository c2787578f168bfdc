"""The repository of the hidden halves: beside the checkpoint store, in restic's format, with the vault's key.

It has the vault's master key and the vault's key files, so whatever opens the vault opens it: the key file, a
recovery passphrase, the kit. To open it the vault itself is not needed, which may be on a server or a drive.
"""

from __future__ import annotations

import contextlib
import os

from safekept.checkpoints.scan import KeptLook
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files import free_bytes
from safekept.core.locks import process_lock
from safekept.core.next_step import NextStep
from safekept.vault.repo import Repository
from safekept.vault.storage import FileKind, LocalStorage

from ...base.context import UserContext
from ...vault.opening import open_storage, open_vault
from ...vault.place import is_remote
from ..project import checkpoint_directory
from .record import hidden_directory, hidden_exists, missing_words

_INIT_WAIT = 60.0
#: Below this much free space, or this share of the disk, nothing hidden is added.
_FLOOR_BYTES, _FLOOR_SHARE = 1 << 30, 0.05


class HiddenNotReady(SafekeptError):
    code = "hidden-not-ready"


def open_hidden(context: UserContext, *, create: bool = False, listener: Listener = silent) -> Repository:
    """Open it; with `create` it is made where there is none, which opens the vault. Use it in a `with`.

    Raises what keeps the vault shut, and HiddenNotReady where there is none.
    """
    # Where a key file opens the vault, no passphrase is asked for.
    secret = context.caller.vault_secret if context.choices.vault_wants_passphrase else None
    quiet = context.changed(vault_secret=secret, source_vault="")
    place = hidden_directory(context)
    if not hidden_exists(context):
        if not create:
            raise not_ready("nothing hidden was kept yet")
        with process_lock(
            os.path.join(checkpoint_directory(context), "hidden.lock"), "making it", _INIT_WAIT
        ):
            if not hidden_exists(context):
                _make(quiet, place, listener)
    repository = open_storage(quiet, LocalStorage(place, context.choices.seat_belt), listener)
    if create:
        _follow_keys(quiet, repository, listener)
    return repository


def _make(context: UserContext, place: str, listener: Listener) -> None:
    with (
        open_vault(context, create=True, listener=listener) as vault,
        Repository.init_beside(LocalStorage(place, context.choices.seat_belt), vault),
    ):
        pass


def _follow_keys(context: UserContext, repository: Repository, listener: Listener) -> None:
    """A key that was added to the vault, or taken from it, is added or taken here, too."""
    if is_remote(context, context.places.vault):
        return
    own = {name for name, _ in repository.storage.list(FileKind.KEY)}
    with contextlib.suppress(SafekeptError, OSError):
        if own != set(os.listdir(os.path.join(context.places.vault, "keys"))):
            with open_vault(context, listener=listener) as vault:
                repository.share_keys(vault)


def refuse_full_disk(context: UserContext) -> None:
    """Raise where so little is free that the hidden half must not take more of it."""
    place = checkpoint_directory(context)
    facts = os.statvfs(place)
    if free_bytes(place) < min(_FLOOR_BYTES, int(facts.f_blocks * facts.f_frsize * _FLOOR_SHARE)):
        raise not_ready("the disk is nearly full", (NextStep("checkpoint prune", before="Make room:"),))


def partly_kept(kept: KeptLook) -> HiddenNotReady:
    """For a checkpoint of which some hidden files could not be read."""
    return HiddenNotReady(
        missing_words(kept),
        kept="Everything else of the project is kept; nothing was changed",
        next_steps=(NextStep("checkpoint", before="When they can be read, or are let go:"),),
        missing=list(kept.missing),
    )


def not_ready(why: str, steps: tuple[NextStep, ...] = ()) -> HiddenNotReady:
    return HiddenNotReady(
        f"Ignored files, secrets and large files are not kept: {why}",
        kept="Everything else of the project is kept; nothing was changed",
        next_steps=steps or (NextStep("checkpoint", ("--show",), before="See what is kept:"),),
    )
