"""Which vaults were seen on this machine before, and where: so that one that is gone is missed.

A memory of places, and not a condition for using them: where it cannot be written, nothing else fails.
"""

from __future__ import annotations

import contextlib
import json
import os

from safekept.core.files import NOT_THERE, durable_write, private_directory

from ..base.context import UserContext
from .place import is_remote


def known_vault(context: UserContext) -> str:
    """The id of the vault that was last seen in this place, or ""."""
    try:
        return _known(context).get(_place(context), "")
    except OSError:  # whoever reads does without
        return ""


def vault_was_here(context: UserContext) -> bool:
    """Whether one was seen in this place. OSError where nobody can tell: then none may be made there."""
    return _place(context) in _known(context)


def _place(context: UserContext) -> str:
    vault = context.places.vault
    return vault if is_remote(context, vault) else os.path.realpath(vault)


def _known(context: UserContext) -> dict[str, str]:
    """Every one. OSError where they cannot be read."""
    try:
        with open(_known_file(context), encoding="utf-8", errors="surrogateescape") as file:
            found = json.load(file)["vaults"]
        return {str(place): str(vault) for place, vault in found.items()}
    except (*NOT_THERE, ValueError, KeyError, TypeError, AttributeError):
        return {}


def remember_vault(context: UserContext, vault: str) -> None:
    with contextlib.suppress(OSError):  # a memory of places, not a condition for using them
        known, place = _known(context), _place(context)
        if known.get(place) == vault:
            return
        document = {"version": 1, "vaults": {**known, place: vault}}
        private_directory(context.places.data_directory)
        durable_write(_known_file(context), json.dumps(document, indent=1).encode() + b"\n")


def _known_file(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, "vaults.json")
