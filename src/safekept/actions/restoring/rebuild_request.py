"""What a person asks of a rebuild, and the refusals where nothing is there."""

from __future__ import annotations

import os

from safekept.core.agents import recognise_home
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..vault.place import directories_with_vaults

UNCHANGED = "Nothing was changed"


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """From where, to where, and which of several."""

    place: str  # a destination by its name or URL, a vault by its path or URL, or the path of an archive
    home: str = ""  # where it is to go; empty: the agent's own place
    layout: str = ""
    snapshot: str = ""  # an id or the start of one; empty: the newest of the whole home
    host: str = ""  # whose, where several hosts are there
    of: str = ""  # which home of that host, by the path that it had
    archive: str = ""  # a name or `latest`: an archive of the destination, and not its vault
    allow_damaged: bool = False  # put it in place although a check failed
    deadline: float = 30.0
    named: str = ""  # what a person named to get there: a kit
    vault_id: str = ""  # of the vault that a kit is for: no other is meant
    key_given: bool = False  # a key or passphrase was named or typed for this: the key of this machine is not
    kit_key: bool = False  # what is tried is the key on a kit
    offers_sound: bool = False  # a person is there to agree: where the newest is not sound, plan what is
    asks: bool = False  # a person can be asked for a passphrase, and named no key


def kind_of_place(context: UserContext, request: RebuildRequest) -> str:
    """The agent whose home belongs in the directory that was named, by what is there or by its name."""
    if not request.home:
        return ""
    path = os.path.realpath(os.path.expanduser(request.home))
    there = recognise_home(path, context.home_places) if os.path.isdir(path) else ""
    return there or next(
        (
            name
            for name, place in context.home_places.items()
            if place.default and os.path.basename(place.default.rstrip("/")) == os.path.basename(path)
        ),
        "",
    )


class NothingToRebuild(SafekeptError):
    code, exit_code = "nothing-to-rebuild", 10


class AnotherVault(SafekeptError):
    """Only vaults lie there that are not the kit's."""

    code, exit_code = "vault-not-of-kit", 10


def nothing_at(place: str, what: str) -> NothingToRebuild:
    """Where a kit or a vault is on a disk, for a request that names the disk or misspells what is on it."""
    path = place.removeprefix("file:")
    there = path if os.path.isdir(path) else os.path.dirname(path.rstrip("/"))
    found = directories_with_vaults(there) if os.path.isabs(path) else []
    kits = _kits_in(there) if os.path.isabs(path) else []
    return NothingToRebuild(
        what,
        kept=UNCHANGED,
        next_steps=(
            *(NextStep("rebuild", (one,), before="A kit is there:") for one in kits),
            *(NextStep("rebuild", (one,), before="A vault is there:") for one in found),
            "See that the place is the right one, and that the disk behind it is mounted",
            "It is what you once set up as a destination; your kit names it, too",
        ),
        place=place,
    )


def _kits_in(directory: str, most: int = 3) -> list[str]:
    """The kits there by their names; the page to print, beside each, is left out."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    kits = [name for name in names if name.startswith("safekept-kit-") and name.endswith(".txt")]
    return [os.path.join(directory, name) for name in kits[:most]]
