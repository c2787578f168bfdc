"""Which vaults were seen on this machine before, and where: so that one that is gone is missed.

A memory of places, and not a condition for using them: where it cannot be written, nothing else fails.
"""

from __future__ import annotations

import contextlib
import json
import os

from safekept.core.files import durable_write, private_directory

from ..base.context import Surroundings
from .place import is_remote


def known_vault(surroundings: Surroundings) -> str:
    """The id of the vault that was last seen in this place, or ""."""
    return _known(surroundings).get(_place(surroundings), "")


def _place(surroundings: Surroundings) -> str:
    vault = surroundings.vault
    return vault if is_remote(surroundings, vault) else os.path.realpath(vault)


def _known(surroundings: Surroundings) -> dict[str, str]:
    try:
        with open(_known_file(surroundings), encoding="utf-8", errors="surrogateescape") as file:
            found = json.load(file)["vaults"]
        return {str(place): str(vault) for place, vault in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def remember_vault(surroundings: Surroundings, vault: str) -> None:
    known, place = _known(surroundings), _place(surroundings)
    if known.get(place) == vault:
        return
    document = {"version": 1, "vaults": {**known, place: vault}}
    with contextlib.suppress(OSError):  # a memory of places, not a condition for using them
        private_directory(surroundings.data_directory)
        durable_write(_known_file(surroundings), json.dumps(document, indent=1).encode() + b"\n")


def _known_file(surroundings: Surroundings) -> str:
    return os.path.join(surroundings.data_directory, "vaults.json")
