"""The storage behind the name of a vault: a directory, a URL, or a destination that holds a copy of it.

A destination holds one directory for each vault. Which of them is meant is clear where this machine knows
its own vault, or where there is only one; else a person is asked to say it.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.files.small import read_document, write_document
from safekept.core.objects.address import is_address
from safekept.vault.storage import LocalStorage

if TYPE_CHECKING:
    from safekept.core.objects.base import ObjectStore
    from safekept.vault.storage import Storage

    from ..base.context import UserContext
    from ..offsite.destination import DestinationSetting

_DIRECTORY = re.compile(r"[0-9a-f]{16}")
_SHOWN = 12


class SeveralVaults(SafekeptError):
    code, exit_code = "several-vaults", 2


def is_remote(context: UserContext, place: str) -> bool:
    """Whether a vault is named by a URL or by a destination, and not by a directory."""
    return is_address(place) or any(one.name == place for one in context.choices.destinations)


def storage_of(context: UserContext, place: str, *, known: str = "", create: bool = False) -> Storage:
    """The storage of the vault that `place` names. `known` is the id of this machine's own vault.

    With `create` the place is taken as it is: a vault is made in it, and not looked for below it.
    """
    if not is_remote(context, place):
        own = create and place == context.places.vault
        return LocalStorage(
            place if create else _directory_in(place, known), context.choices.seat_belt if own else None
        )
    from safekept.vault.storage import ObjectStorage

    from ..offsite.place import find_destination, open_destination

    setting = find_destination(context, place)
    objects = open_destination(context, setting)
    try:
        below = "" if create else _vault_in(objects, setting, known)
    except BaseException:
        objects.close()
        raise

    class Owning(ObjectStorage):
        """Closing the vault closes the place, which a view of one directory does not."""

        def close(self) -> None:
            objects.close()

    return Owning(objects.below(below) if below else objects)


def vaults_in(objects: ObjectStore) -> list[str]:
    """The directories of vaults in a destination."""
    return sorted(name for name in objects.directories() if _DIRECTORY.fullmatch(name))


def directories_with_vaults(directory: str, most: int = 3) -> list[str]:
    """Those right below a directory that are a vault, or the place of one, by their names alone."""
    found = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            below: list[str] = []
            with contextlib.suppress(OSError):
                below = [one for one in os.listdir(path) if _DIRECTORY.fullmatch(one) or one == "keys"]
            configs = (os.path.join(path, "" if one == "keys" else one, "config") for one in below)
            if any(map(os.path.isfile, configs)):
                found.append(path)
    return found[:most]


def _vault_in(objects: ObjectStore, setting: DestinationSetting, known: str) -> str:
    """The directory of the one vault that is meant; "" where the place is itself a vault."""
    if known and objects.exists(f"{known[:16]}/config"):
        return f"{known[:16]}/"
    if objects.exists("config"):
        return ""
    found = vaults_in(objects)
    if len(found) > 1:
        raise _several(setting.url, found)
    return f"{found[0]}/" if found else ""


def _directory_in(path: str, known: str) -> str:
    """The same for a directory: one that holds a copy of a vault, as a disk does, means that copy."""
    if os.path.exists(os.path.join(path, "config")):
        return path
    try:
        found = sorted(name for name in os.listdir(path) if _DIRECTORY.fullmatch(name))
    except OSError:
        return path
    if known[:16] in found:
        return os.path.join(path, known[:16])
    if len(found) > 1:
        raise _several(path, found)
    return os.path.join(path, found[0]) if found else path


def _several(place: str, found: list[str]) -> SeveralVaults:
    shown = ", ".join(f"`{name}`" for name in found[:_SHOWN]) + (" …" if len(found) > _SHOWN else "")
    return SeveralVaults(
        f"`{place}` holds {len(found)} vaults: {shown}",
        kept="Nothing changed",
        next_steps=(f"Say which one, by adding its directory: `{place.rstrip('/')}/{found[0]}`",),
        vaults=found,
    )


# Which vaults were seen on this machine before, and where: so that one that is gone is missed. A memory
# of places, and not a condition for using them: where it cannot be written, nothing else fails.


def known_vault(context: UserContext) -> str:
    """The id of the vault that was last seen in this place, or ""."""
    try:
        return _known(context).get(_place(context), "")
    except OSError:  # reading works without it
        return ""


def vault_was_here(context: UserContext) -> bool:
    """Whether one was seen in this place. OSError where that is unknown: then none may be made there."""
    return _place(context) in _known(context)


def _place(context: UserContext) -> str:
    vault = context.places.vault
    return vault if is_remote(context, vault) else os.path.realpath(vault)


def _known(context: UserContext) -> dict[str, str]:
    """Every one. OSError where they cannot be read."""
    return read_document(
        _known_file(context),
        lambda found: {str(place): str(vault) for place, vault in found["vaults"].items()},
        {},
        strict=True,
    )


def remember_vault(context: UserContext, vault: str) -> None:
    with contextlib.suppress(OSError):  # a memory of places, not a condition for using them
        known, place = _known(context), _place(context)
        if known.get(place) == vault:
            return
        document = {"version": 1, "vaults": {**known, place: vault}}
        write_document(_known_file(context), document, durable=False)


def _known_file(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, "vaults.json")
