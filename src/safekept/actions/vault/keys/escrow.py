"""Escrow: the kit of this vault, sealed to the people who look after the machine, beside every copy of it.

So one private key opens every vault of a fleet. What lies there is the kit as it is on paper, in the format
of age, under the name of its hash: `age -d` opens it without safekept. It is sealed again when its key, the
places on it or the keys that it is sealed to have changed, and goes with the next push; the one before it is
deleted where that is allowed.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from safekept.core.errors import BAD_SHAPE, SafekeptError
from safekept.core.files.small import read_document, write_document
from safekept.core.objects.base import NotThere, ObjectStore, Taken
from safekept.core.records import dataclass
from safekept.vault.errors import WrongKey
from safekept.vault.repo import Repository, Secret

from ...base.context import UserContext
from ...offsite.destination import VAULT
from .kit_record import places_now

if TYPE_CHECKING:
    from .kit_reading import ReadKit

#: Below the directory of the vault; restic passes it over.
DIRECTORY = "safekept/escrow"
#: Bytes of one that is read; a sealed kit is a few pages.
_LARGEST = 1 << 20
#: Names of earlier ones that are remembered, so that they can be deleted.
_BEFORE = 8


@dataclass(frozen=True, slots=True)
class Escrow:
    """The sealed kit as it was last made here."""

    keys: tuple[str, ...]  # whom it is sealed to
    key: str  # the id of the vault's key on it
    places: tuple[str, ...]  # that stand on it
    content: bytes
    #: The name that lies at each destination, by its address.
    there: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()  # names of earlier ones

    @property
    def name(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def as_dict(self) -> dict[str, object]:
        return {
            "keys": list(self.keys),
            "key": self.key,
            "places": list(self.places),
            "content": base64.b64encode(self.content).decode("ascii"),
            "there": dict(self.there),
            "before": list(self.before),
        }


def send_escrow(context: UserContext, repository: Repository, vault: ObjectStore, place: str) -> str:
    """Put it beside a copy of the vault, if it is not there; why not, or "". `place`: that destination."""
    if not context.choices.escrow:
        return ""
    try:
        current = _current(context, repository)
    except SafekeptError as error:
        return f"no escrow was made: {error.clause}"
    if current is None:
        return "no escrow was made: a passphrase opens the vault, and only you have it"
    name = f"{DIRECTORY}/{current.name}"
    if current.there.get(place) != current.name or not vault.exists(name):
        with contextlib.suppress(Taken):
            vault.write(name, current.content)
        for old in current.before:
            with contextlib.suppress(SafekeptError):  # one that can only add leaves it; its key opens nothing
                vault.delete(f"{DIRECTORY}/{old}")
        _save(context, repository.id, replace(current, there={**current.there, place: current.name}))
    return ""


def _current(context: UserContext, repository: Repository) -> Escrow | None:
    """As it was made before, where that still holds; else made now. None where no key can be put on it."""
    from safekept.archive.sealing import LONGEST_DOCUMENT, document_keys, seal_document

    from .kit import key_on_kit, make_kit
    from .kit_page import as_text

    sealed_to = document_keys(context.choices.escrow, context.places.user_home)
    names = tuple(map(str, sealed_to))
    key = key_on_kit(context, repository)[1]
    places = tuple(sorted(places_now(context)))
    before = _saved(context, repository.id)
    if not key:
        return None
    if before is not None and (before.keys, before.key, before.places) == (names, key, places):
        return before
    kit = make_kit(context, repository)
    while len(text := as_text(kit).encode("utf-8", "surrogateescape")) > LONGEST_DOCUMENT and kit.sections:
        kit = replace(kit, sections=kit.sections[:-1])  # from the end: what can be done without
    content = seal_document(text[:LONGEST_DOCUMENT], sealed_to)
    older = (before.name, *before.before)[:_BEFORE] if before is not None else ()
    made = Escrow(names, key, places, content, before.there if before is not None else {}, older)
    _save(context, repository.id, made)
    return made


def escrow_holds(context: UserContext, vault: str, keys: Collection[str]) -> bool:
    """Whether one of the private keys can open at least one copy, as the last pushes know."""
    found = _known(context, vault)
    if found is None or not context.choices.escrow or (keys and found.key not in keys):
        return False
    return _names(context) == found.keys and any(
        found.there.get(url) == found.name for url in _copies(context)
    )


def can_escrow(context: UserContext) -> bool:
    """Whether the settings name keys that a kit can be sealed to."""
    return bool(context.choices.escrow) and bool(_names(context))


def escrow_trouble(context: UserContext, vault: str, keys: Collection[str]) -> str:
    """What is not as the settings say, as a sentence; "" where all is well or nothing is set."""
    if not context.choices.escrow:
        return ""
    from safekept.archive.sealing import document_keys

    try:
        names = tuple(map(str, document_keys(context.choices.escrow, context.places.user_home)))
    except SafekeptError as error:
        return f"no kit can be put in escrow: {error.clause}"
    copies, found = _copies(context), _known(context, vault)
    if not copies:
        return ""  # there is no copy that it could lie beside, and the verdict says so
    if found is None:
        return f"no kit lies in escrow yet at {', '.join(copies.values())}"
    if keys and found.key not in keys:
        return "the kit in escrow is of no use: its key opens the vault no more"
    if found.keys != names:
        return "the kit in escrow is sealed to other keys than the setting `escrow` names"
    missing = [name for url, name in copies.items() if found.there.get(url) != found.name]
    return f"the kit in escrow at {', '.join(missing)} is missing or not the newest" if missing else ""


def opened_by_escrow(
    context: UserContext, objects: ObjectStore, directory: str, place: str
) -> tuple[Repository, ReadKit] | None:
    """The vault in `place`, opened with a kit beside it that the identities of this user open; and that kit.

    `directory` is that of the vault in the place. Other writers there can put anything beside it: a kit
    counts where its key opens this very vault.
    """
    from ..opening import open_vault
    from .kit_reading import parse_kit
    from .passphrase import secret_from_text

    for text in _kits(context, objects, directory):
        kit = parse_kit(text)
        if not kit.key:
            continue
        secret = secret_from_text(kit.key, "The key in escrow")
        opening = context.changed(
            source_vault=place, vault_key_file="", vault_secret=partial(_same, secret), secret_tries=1
        )
        try:
            repository = open_vault(opening)
        except WrongKey:
            continue  # of before its key was renewed, or of another vault
        if kit.vault_id in ("", repository.id):
            return repository, kit
        repository.close()
    return None


def _same(secret: Secret) -> Secret:
    return secret


def _kits(context: UserContext, objects: ObjectStore, directory: str) -> Iterator[str]:
    """The texts of those that open, newest first."""
    from safekept.archive.sealing import open_document

    from ...archives.sealing import identity_of

    identity = identity_of(context)
    prefix = f"{directory}/{DIRECTORY}/" if directory else f"{DIRECTORY}/"
    for stored in sorted(objects.list(prefix), key=lambda one: (-one.modified, one.name)):
        if stored.size > _LARGEST:
            continue
        with contextlib.suppress(NotThere):  # gone meanwhile
            sealed = objects.read(stored.name)
            if hashlib.sha256(sealed).hexdigest() == stored.name.rpartition("/")[2]:
                text = open_document(sealed, stored.name, identity)
                if text is not None:
                    yield text.decode("utf-8", "surrogateescape")


def _names(context: UserContext) -> tuple[str, ...]:
    from safekept.archive.sealing import document_keys

    with contextlib.suppress(SafekeptError):
        return tuple(map(str, document_keys(context.choices.escrow, context.places.user_home)))
    return ()


def _copies(context: UserContext) -> dict[str, str]:
    return {one.url: one.name for one in context.choices.destinations if VAULT in one.takes}


# What was made and sent, in a small file of ours


def _known(context: UserContext, vault: str) -> Escrow | None:
    with contextlib.suppress(OSError):  # where that is unknown, there is none
        return _saved(context, vault)
    return None


def _saved(context: UserContext, vault: str) -> Escrow | None:
    one = _vaults(context).get(vault)
    try:
        assert isinstance(one, dict)
        return Escrow(
            tuple(map(str, one["keys"])),
            str(one["key"]),
            tuple(map(str, one["places"])),
            base64.b64decode(one["content"]),
            {str(url): str(name) for url, name in one["there"].items()},
            tuple(map(str, one["before"])),
        )
    except (AssertionError, *BAD_SHAPE):
        return None


def _save(context: UserContext, vault: str, escrow: Escrow) -> None:
    vaults = {**_vaults(context), vault: escrow.as_dict()}
    write_document(_file(context), {"version": 1, "vaults": vaults})


def _vaults(context: UserContext) -> dict[str, object]:
    return read_document(_file(context), lambda found: dict(found["vaults"]), {}, strict=True)


def _file(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, "escrow.json")
