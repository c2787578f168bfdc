"""Making and opening a vault: key first, `config` last, and nothing half made is taken for whole.

An init that was cut short left at most key files. Running it again finishes it: a key file that
opens with the same secret is used, one that does not is harmless and stays.
"""

from __future__ import annotations

import contextlib
import time

from ..errors import (
    UNTOUCHED,
    NoSuchVault,
    VaultDamaged,
    VaultExists,
    VaultHalfMade,
    VaultUnsupported,
    WrongKey,
)
from ..format.config import READABLE, BadConfig, Config
from ..format.crypto import Key, Unauthentic
from ..storage.base import AlreadyStored, FileKind, NotStored, Storage
from .keys import BadKeyFile, Cost, KeyFile, Secret, check_secret, make_key_file, read_key_files
from .lock_file import LockIdentity


def make_vault(storage: Storage, secret: Secret, cost: Cost | None = None) -> tuple[Key, Config, str]:
    """Make an empty vault: its master key, its config and the id of its key file."""
    check_secret(secret)
    refuse_taken(storage)
    storage.create()
    master, key_id, written = None, "", False
    for name, key_file in read_key_files(storage):
        if isinstance(key_file, KeyFile) and (master := key_file.open(secret)) is not None:
            key_id = name
            break
    if master is None:
        master, written = Key.generate(), True
        key_id = add_key_file(storage, master, secret, cost)
    config = Config.generate()
    try:
        storage.write(FileKind.CONFIG, "", master.seal(config.to_json()))
    except AlreadyStored:
        # Another process finished first; our key opens nothing there.
        if written:
            storage.delete(FileKind.KEY, key_id)
        raise VaultExists.at(storage.location) from None
    storage.keep_reserve()
    return master, config, key_id


def make_beside(storage: Storage, other: Storage, master: Key) -> tuple[Config, str]:
    """Make an empty repository that opens with whatever opens another one: its config, and a key's id.

    Both have one master key, so the key files of one open the other.
    """
    refuse_taken(storage)
    storage.create()
    copied = copy_keys(other, storage)
    config = Config.generate()
    try:
        storage.write(FileKind.CONFIG, "", master.seal(config.to_json()))
    except AlreadyStored:
        raise VaultExists.at(storage.location) from None
    storage.keep_reserve()
    return config, copied[0] if copied else ""


def copy_keys(source: Storage, target: Storage) -> list[str]:
    """Every key file of one repository in another one of the same master key, and no others."""
    wanted = [name for name, _ in source.list(FileKind.KEY)]
    there = {name for name, _ in target.list(FileKind.KEY)}
    for name in wanted:
        if name not in there:
            with contextlib.suppress(AlreadyStored):
                target.write(FileKind.KEY, name, source.read(FileKind.KEY, name))
    for name in there - set(wanted) if wanted else ():
        target.delete(FileKind.KEY, name)
    return wanted


def refuse_taken(storage: Storage) -> None:
    """Raise where a vault is already, or where one lost its config: a new one must not be made there."""
    if storage.exists(FileKind.CONFIG):
        raise VaultExists.at(storage.location)
    for kind, found in ((FileKind.SNAPSHOT, "snapshots"), (FileKind.INDEX, "index files")):
        if next(iter(storage.list(kind)), None) is not None:
            raise VaultHalfMade.without_config(storage.location, found)
    if _has_packs(storage):
        raise VaultHalfMade.pieces(storage.location)


def _has_packs(storage: Storage) -> bool:
    """Whether data lies there that no vault here has written: that comes after its `config`."""
    return next(iter(storage.list(FileKind.PACK)), None) is not None


def add_key_file(
    storage: Storage, master: Key, secret: Secret, cost: Cost | None = None, username: str = ""
) -> str:
    """Wrap the master key for one more secret; the new key's id. It is proven before it is stored.

    `username` is what lists call the key; empty: the user who runs this.
    """
    person = LockIdentity.of_this_process()
    name, text = make_key_file(
        secret,
        master,
        username=username or person.username,
        hostname=person.hostname,
        now_ns=time.time_ns(),
        cost=cost,
    )
    if KeyFile.parse(name, text).open(secret) != master:
        raise VaultDamaged.file(f"keys/{name}", "it did not open again with its own secret")
    with contextlib.suppress(AlreadyStored):
        storage.write(FileKind.KEY, name, text)
    return name


def open_vault(storage: Storage, secret: Secret) -> tuple[Key, Config, str]:
    """The master key, the config, and the id of the key file that opened."""
    try:
        sealed = storage.read(FileKind.CONFIG)
    except NotStored:
        raise no_config(storage) from None
    bad: list[str] = []
    found = []
    for name, key_file in read_key_files(storage):
        if isinstance(key_file, BadKeyFile):
            bad.append(f"`keys/{name[:12]}…`: {key_file}")
        else:
            found.append(key_file)
    # The cheap ones first: a generated key opens in milliseconds, whatever else is there.
    found.sort(key=lambda key_file: key_file.cost.work)
    opened = False
    for key_file in found:
        try:
            master = key_file.open(secret)
        except BadKeyFile as error:
            bad.append(f"`keys/{key_file.id[:12]}…`: {error}")
            continue
        if master is None:
            continue
        opened = True
        try:
            return master, _read_config(storage, master.open(sealed)), key_file.id
        except Unauthentic:
            continue  # left by an init that was overtaken; another key may fit
    if opened:
        raise VaultDamaged.file("config", "it was not written with the key of this vault")
    raise _no_key_fits(storage, len(found), bad)


def _read_config(storage: Storage, text: bytes) -> Config:
    try:
        config = Config.from_json(text)
    except BadConfig as error:
        raise VaultDamaged.file("config", str(error)) from error
    if config.version not in READABLE:
        raise VaultUnsupported(
            f"The vault at `{storage.location}` has format version {config.version}; safekept knows 1 and 2",
            kept=UNTOUCHED,
            next_steps=("Use a newer safekept, or the program that made it",),
            version=config.version,
        )
    return config


def no_config(storage: Storage) -> NoSuchVault | VaultHalfMade:
    for kind, found in ((FileKind.SNAPSHOT, "snapshots"), (FileKind.INDEX, "index files")):
        if next(iter(storage.list(kind)), None) is not None:
            return VaultHalfMade.without_config(storage.location, found)
    if _has_packs(storage):
        return VaultHalfMade.pieces(storage.location)
    if next(iter(storage.list(FileKind.KEY)), None) is not None:
        return VaultHalfMade.only_keys(storage.location)
    return NoSuchVault.at(storage.location)


def _no_key_fits(storage: Storage, tried: int, bad: list[str]) -> WrongKey | VaultDamaged:
    if not tried and not bad:
        return VaultDamaged(
            f"The vault at `{storage.location}` has no key files",
            kept="Nothing was changed; the stored data is still there",
            next_steps=("Bring the directory `keys` back from a copy of the vault or from the kit",),
        )
    if not tried:
        return VaultDamaged(
            f"No key file of the vault at `{storage.location}` can be read ({'; '.join(bad[:3])})",
            kept="Nothing was changed; the stored data is there, and your key may well be the right one",
            next_steps=(
                "See that the disk is sound, then run the command again",
                "Or bring the directory `keys` back from a copy of the vault",
            ),
            place=storage.location,
            unreadable=bad,
        )
    what = f"None of the {tried} keys of the vault at `{storage.location}` opens with this passphrase or key"
    if tried == 1:
        what = f"The key of the vault at `{storage.location}` does not open with this passphrase or key"
    if bad:
        what += f"; {len(bad)} key files cannot be read ({'; '.join(bad[:3])})"
    return WrongKey(
        what,
        kept=UNTOUCHED,
        next_steps=(
            "Use the key file that belongs to this vault, or the passphrase from your kit",
            "Check that the vault is the one you mean",
        ),
        place=storage.location,
        unreadable=bad,
    )
