"""The second way into a vault: a copy off this host is worth nothing to somebody who lost the only key.

The key file dies with the machine. So the first push insists on a passphrase that a person knows, or on a
kit that a person says is kept elsewhere. Which of them there is, is asked of the vault itself and of a
small file of ours, not of the journal.
"""

from __future__ import annotations

import json
import os
import time

from safekept.core.errors import SafekeptError
from safekept.core.events import silent
from safekept.core.files import durable_write, private_directory
from safekept.core.journal import Record, new_id
from safekept.vault.repo import Repository

from ...base.context import Surroundings
from ...base.record import record
from .keys import GENERATED, listed_keys

PASSPHRASE, KIT = "passphrase", "kit"


class NoSecondWay(SafekeptError):
    code = "no-second-way"


class NoKitYet(SafekeptError):
    code = "no-kit-yet"


def second_way(surroundings: Surroundings, repository: Repository) -> str:
    """What opens this vault when its key file is lost: `passphrase`, `kit`, or nothing ("")."""
    if any(key.kind not in ("", GENERATED) for key in listed_keys(repository)):
        return PASSPHRASE
    return KIT if repository.id in _acknowledged(surroundings) else ""


def require_second_way(surroundings: Surroundings, repository: Repository) -> str:
    """The same; NoSecondWay where there is none."""
    found = second_way(surroundings, repository)
    if found:
        return found
    raise NoSecondWay(
        f"Only the key in `{surroundings.vault_key_file}` opens this vault: with this machine, every copy of "
        "the vault would be lost too",
        kept="Nothing was sent; the vault here is as it was",
        next_steps=(
            "Add a passphrase that you know: `safekept vault key add --recovery`",
            "Or write the page with the key: `safekept vault kit`",
            "and when it is kept elsewhere, say so: `safekept push --acknowledge-kit`",
        ),
        vault=repository.id,
    )


def acknowledge_kit(surroundings: Surroundings, repository: Repository) -> None:
    """Note that a person keeps the kit of this vault elsewhere. NoKitYet where none was ever written."""
    if not _kit_written(surroundings):
        raise NoKitYet(
            f"No kit of the vault at `{surroundings.vault}` was written on this machine",
            kept="Nothing was sent or changed",
            next_steps=("Write it: `safekept vault kit`", "Keep it elsewhere, then run this command again"),
        )
    known = _acknowledged(surroundings)
    document = {"version": 1, "vaults": {**known, repository.id: {"acknowledged": time.time()}}}
    private_directory(surroundings.data_directory)
    durable_write(_file(surroundings), json.dumps(document, indent=1).encode() + b"\n")
    facts: dict[str, object] = {"vault": surroundings.vault, "id": repository.id}
    record(surroundings, Record(new_id(), "kit-acknowledge", "done", facts=facts), silent)


def _kit_written(surroundings: Surroundings) -> bool:
    return any(
        entry.verb == "vault-kit" and entry.state == "done" and entry.facts.get("vault") == surroundings.vault
        for entry in surroundings.journal.read()
    )


def _acknowledged(surroundings: Surroundings) -> dict[str, object]:
    try:
        with open(_file(surroundings), encoding="utf-8") as file:
            return dict(json.load(file)["vaults"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _file(surroundings: Surroundings) -> str:
    return os.path.join(surroundings.data_directory, "kits.json")
