"""The second way into a vault: a copy off this host is worth nothing to somebody who lost the only key.

The key file dies with the machine. So the first push insists on a passphrase that a person knows, or on a
kit that a person says is kept elsewhere. Which of them there is, is asked of the vault itself and of a
small file of ours, not of the journal.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files import NOT_THERE, durable_write, private_directory
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.vault.repo import Repository

from ...base.context import UserContext
from ...base.operations.vault import KitAcknowledgeFacts, VaultKitFacts
from ...base.record import record
from .keys import GENERATED, keys_from_outside, listed_keys

PASSPHRASE, KIT = "passphrase", "kit"


class NoSecondWay(SafekeptError):
    code = "no-second-way"


class NoKitYet(SafekeptError):
    code = "no-kit-yet"


def second_way(context: UserContext, repository: Repository) -> str:
    """What opens this vault when its key file is lost: `passphrase`, `kit`, or nothing ("")."""
    if any(key.kind not in ("", GENERATED) for key in listed_keys(repository)):
        return PASSPHRASE
    with contextlib.suppress(OSError):  # where nobody can tell, there is none
        return KIT if repository.id in _acknowledged(context) else ""
    return ""


def second_way_from_outside(context: UserContext, vault_id: str) -> str:
    """The same without opening the vault: by its key files, where they are on this machine."""
    if any(key.kind not in ("", GENERATED) for key in keys_from_outside(context.places.vault)):
        return PASSPHRASE
    return KIT if vault_id in _acknowledged(context) else ""


def require_second_way(context: UserContext, repository: Repository) -> str:
    """The same; NoSecondWay where there is none."""
    found = second_way(context, repository)
    if found:
        return found
    raise NoSecondWay(
        f"Only the key in `{context.places.vault_key_file}` opens this vault: with this machine, every "
        "copy of the vault would be lost too",
        kept="Nothing was sent; the vault here is as it was",
        next_steps=(
            NextStep("vault key add", ("--recovery",), before="Add a passphrase that you know:"),
            NextStep("vault kit", before="Or write the page with the key:"),
            NextStep("push", ("--acknowledge-kit",), before="and when it is kept elsewhere, say so:"),
        ),
        vault=repository.id,
    )


def acknowledge_kit(context: UserContext, repository: Repository, listener: Listener = silent) -> None:
    """Note that a person keeps the kit of this vault elsewhere. NoKitYet where none was ever written."""
    if not _kit_written(context):
        raise NoKitYet(
            f"No kit of the vault at `{context.places.vault}` was written on this machine",
            kept="Nothing was sent or changed",
            next_steps=(
                NextStep("vault kit", before="Write it:"),
                "Keep it elsewhere, then run this command again",
            ),
        )
    known = _acknowledged(context)  # OSError where they cannot be read: they must not be forgotten
    document = {"version": 1, "vaults": {**known, repository.id: {"acknowledged": time.time()}}}
    private_directory(context.places.data_directory)
    durable_write(_file(context), json.dumps(document, indent=1).encode() + b"\n")
    work = KitAcknowledgeFacts(vault=context.places.vault, id=repository.id)
    record(context, work.line(new_id(), "done"), listener)


def _kit_written(context: UserContext) -> bool:
    return any(
        entry.verb == "vault-kit"
        and entry.state == "done"
        and VaultKitFacts.read(entry).vault == context.places.vault
        for entry in context.journal.read()
    )


def _acknowledged(context: UserContext) -> dict[str, object]:
    try:
        with open(_file(context), encoding="utf-8") as file:
            return dict(json.load(file)["vaults"])
    except (*NOT_THERE, ValueError, KeyError, TypeError):
        return {}


def _file(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, "kits.json")
