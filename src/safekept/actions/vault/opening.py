"""Where the vault is and how it opens; made on first use, outside every home.

The key file is durable before the vault that needs it, so no vault exists that nobody can open; an
init cut short in between is finished with the same key. A vault that was known here and is gone (an
unmounted drive) is never made anew behind anybody's back: a second, empty history in the place of
the first would look like its loss.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.journal import Record, new_id
from safekept.core.locks import process_lock
from safekept.core.objects.errors import PlaceMissing
from safekept.vault.errors import NoSuchVault, VaultUnreachable, WrongKey
from safekept.vault.repo import Repository, no_config, refuse_taken
from safekept.vault.storage import FileKind, Storage

from ..base.context import Surroundings
from ..base.own_places import known_homes, within
from ..base.record import record
from .keys.key_file import KeyMissing, close_to_others, secret_from_file, write_key_once
from .known_vaults import known_vault, remember_vault
from .place import is_remote, storage_of

if TYPE_CHECKING:
    from safekept.vault.repo import LockFile, Secret

_INIT_WAIT = 120.0  # seconds for which one first use waits for another


class VaultInsideHome(SafekeptError):
    code, exit_code = "vault-inside-home", 2

    @classmethod
    def at(cls, vault: str, home: str) -> Self:
        return cls(
            f"The vault at `{vault}` would lie inside the home `{home}` that it protects",
            kept="Nothing was made or changed there",
            next_steps=(
                "Choose a place outside every home: the setting `vault.path` or `SAFEKEPT_VAULT_PATH`",
            ),
            vault=vault,
            home=home,
        )


class KeyInsideHome(SafekeptError):
    code, exit_code = "vault-key-inside-home", 2

    @classmethod
    def at(cls, key_file: str, home: str) -> Self:
        return cls(
            f"The key file `{key_file}` lies inside the home `{home}` that it protects",
            kept="Nothing was made or changed; whatever is stored can still be restored",
            next_steps=(
                "Move it out of every home, and say where it is: the setting `vault.key_file` or "
                "`SAFEKEPT_VAULT_KEY_FILE`",
            ),
            key_file=key_file,
            home=home,
        )


def open_vault(
    surroundings: Surroundings,
    *,
    create: bool = False,
    homes: Sequence[str] = (),
    listener: Listener = silent,
) -> Repository:
    """Open the vault; with `create` it is made where there is none. Use it in a `with`.

    `homes` are homes at work beside the ones that the layouts know; a new vault lies in none of them.
    """
    if surroundings.source_vault and not create:
        return _open_source(surroundings, listener)
    with _closed_on_error(_own_storage(surroundings)) as storage:
        if _has_config(storage):
            if create:
                refuse_inside_home(surroundings, homes)
            repository = _open(surroundings, storage, listener)
            remember_vault(surroundings, repository.id)
            return repository
        if not create:
            raise _not_there(surroundings, storage)
        storage.close()
    return make_vault(surroundings, homes=homes, listener=listener, anew=False)


def _own_storage(surroundings: Surroundings) -> Storage:
    """Where this machine's own vault lies, or will be made: a directory, or a place named by a URL."""
    return storage_of(surroundings, surroundings.vault, create=True)


def _open_source(surroundings: Surroundings, listener: Listener) -> Repository:
    """The vault that was named to be read from, with the same key; nothing is remembered of it.

    A copy in a destination is read without a lock: nobody prunes it but by `push --prune`, which would show
    as damage and never as wrong content, and a credential that can only add could not take a lock away.
    """
    place = surroundings.source_vault
    remote = is_remote(surroundings, place)
    cache = ""
    if surroundings.cache_directory:
        name = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        cache = os.path.join(surroundings.cache_directory, "copies", name)
    storage = storage_of(surroundings, place, known=known_vault(surroundings))
    with _closed_on_error(storage):
        repository = _open(surroundings, storage, listener, cache=cache)
    repository.without_lock = remote
    return repository


@contextlib.contextmanager
def _closed_on_error(storage: Storage) -> Iterator[Storage]:
    try:
        yield storage
    except BaseException:
        storage.close()
        raise


def make_vault(
    surroundings: Surroundings,
    *,
    homes: Sequence[str] = (),
    secret: Secret | None = None,
    listener: Listener = silent,
    anew: bool = True,
) -> Repository:
    """Make the vault, or finish one that was cut short; one that is there is opened where `anew` is false.

    It opens with `secret`, else with the passphrase that the settings name, else with a generated key.
    `anew` also says that a person asked: a vault that was here before and is gone may be replaced.
    """
    refuse_inside_home(surroundings, homes)
    # Two first uses at once: one makes the vault, the other opens it.
    with _closed_on_error(_own_storage(surroundings)) as storage, _one_at_a_time(surroundings):
        if _has_config(storage) and not anew:
            return _open(surroundings, storage, listener)
        if not anew and known_vault(surroundings):
            raise _not_there(surroundings, storage)
        if is_remote(surroundings, surroundings.vault):
            storage.create()  # on a server the directory itself may be missing yet
        # Before a key is written: it would be the wrong one for what is there.
        refuse_taken(storage)
        repository = Repository.init(
            storage, secret or _first_secret(surroundings, storage), cache=surroundings.cache_directory
        )
    remember_vault(surroundings, repository.id)
    listener(Event("vault", text=f"Made the vault {surroundings.vault}"))
    return repository


def initialise(
    surroundings: Surroundings, *, secret: Secret | None = None, listener: Listener = silent
) -> Repository:
    """`vault init`: make the vault because a person asked, and note it in the journal."""
    repository = make_vault(surroundings, secret=secret, listener=listener)
    facts: dict[str, object] = {"vault": surroundings.vault, "id": repository.id}
    record(surroundings, Record(new_id(), "vault-init", "done", facts=facts), listener)
    return repository


def remove_locks(
    surroundings: Surroundings, repository: Repository, *, everything: bool = False, dry_run: bool = False
) -> list[LockFile]:
    """`vault unlock`: the locks that were left behind, removed unless it is a dry run."""
    from safekept.vault.repo import read_locks, unlock

    if dry_run:
        locks = read_locks(repository.storage, repository.key)
        return [lock for lock in locks if everything or lock.stale or lock.reason]
    removed = unlock(repository.storage, repository.key, everything=everything)
    facts: dict[str, object] = {"vault": surroundings.reads_from, "locks": [lock.holder for lock in removed]}
    record(surroundings, Record(new_id(), "vault-unlock", "done", facts=facts), silent)
    return removed


@contextlib.contextmanager
def _one_at_a_time(surroundings: Surroundings) -> Iterator[None]:
    path = os.path.join(surroundings.data_directory, "vault-init.lock")
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(process_lock(path, "vault init", _INIT_WAIT))
        except OSError as error:
            raise VaultUnreachable(
                f"The vault at `{surroundings.vault}` cannot be made: "
                f"`{surroundings.data_directory}`: {error.strerror}",
                kept="Nothing was made or changed there",
                next_steps=("See that you may write there, then run the command again",),
                place=surroundings.vault,
            ) from error
        yield


def cache_of(surroundings: Surroundings, repository: Repository) -> str:
    """The directory for what can be rebuilt of one vault; empty where there is no cache."""
    if not surroundings.cache_directory:
        return ""
    return os.path.join(surroundings.cache_directory, repository.id[:16])


def vault_exists(surroundings: Surroundings) -> bool:
    with contextlib.closing(_own_storage(surroundings)) as storage:
        return _has_config(storage)


def _has_config(storage: Storage) -> bool:
    """Whether a vault is there; also where the place itself is not, on a server that answers."""
    try:
        return storage.exists(FileKind.CONFIG)
    except PlaceMissing:
        return False


def refuse_inside_home(surroundings: Surroundings, homes: Sequence[str] = ()) -> None:
    """Raise VaultInsideHome or KeyInsideHome where one of them lies in a home, links resolved.

    With the home, the vault or the only way into it would be lost; and a snapshot would hold its own key.
    """
    place, key_file = os.path.realpath(surroundings.vault), os.path.realpath(surroundings.vault_key_file)
    needed = not surroundings.vault_wants_passphrase or os.path.exists(key_file)
    remote = is_remote(surroundings, surroundings.vault)
    for home in (*homes, *known_homes(surroundings)):
        if not remote and within(place, home):
            raise VaultInsideHome.at(surroundings.vault, home)
        if surroundings.vault_key_file and needed and within(key_file, home):
            raise KeyInsideHome.at(surroundings.vault_key_file, home)


def _first_secret(surroundings: Surroundings, storage: Storage) -> Secret:
    """What a new vault will open with; a generated key is in its file before the vault is made."""
    from safekept.vault.repo import Secret, generate_secret

    if surroundings.vault_wants_passphrase and surroundings.vault_secret is not None:
        return surroundings.vault_secret()
    existing = secret_from_file(surroundings.vault_key_file)
    if existing is None:
        fresh = generate_secret()
        if write_key_once(surroundings.vault_key_file, fresh.text):
            return fresh
        existing = secret_from_file(surroundings.vault_key_file)
        if existing is None:
            raise KeyMissing.at(storage.location, surroundings.vault_key_file)
    # Only text of our own making needs no stretching; a person may have put a passphrase there.
    return Secret(existing.text, generated=looks_generated(existing.text))


def looks_generated(text: str) -> bool:
    """Whether a key has the shape of `generate_secret`: 52 letters and digits in groups of four."""
    groups = text.split("-")
    alphabet = set("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
    return len(groups) == 13 and all(len(group) == 4 and set(group) <= alphabet for group in groups)


def _open(surroundings: Surroundings, storage: Storage, listener: Listener, *, cache: str = "") -> Repository:
    """With the key file, else with the passphrase; the error names every way that was tried."""
    cache = cache or surroundings.cache_directory
    secret = secret_from_file(surroundings.vault_key_file) if surroundings.vault_key_file else None
    wrong: WrongKey | None = None
    if secret is not None:
        try:
            repository = Repository.open(storage, secret, cache=cache)
            if said := close_to_others(surroundings.vault_key_file):  # only now it is known to be a key
                listener(Event("key", text=f"Note: {said}"))
            return repository
        except WrongKey as error:
            wrong = error
    if surroundings.vault_secret is None:
        if wrong is not None:
            raise _wrong_file(wrong, surroundings)
        raise KeyMissing.at(storage.location, surroundings.vault_key_file)
    return Repository.open(storage, surroundings.vault_secret(), cache=cache)


def _wrong_file(error: WrongKey, surroundings: Surroundings) -> WrongKey:
    return WrongKey(
        f"{error.what} in `{surroundings.vault_key_file}`",
        kept=error.kept,
        next_steps=(
            f"Put the key from your kit into `{surroundings.vault_key_file}`, as one line",
            "Or use the recovery passphrase: run the command at a terminal and it will ask for it",
            "Check that the vault is the one you mean: the setting `vault.path`",
        ),
        **error.facts,
        key_file=surroundings.vault_key_file,
    )


def _not_there(surroundings: Surroundings, storage: Storage) -> SafekeptError:
    try:
        if known_vault(surroundings) and next(iter(storage.list(FileKind.KEY)), None) is None:
            return _gone(surroundings)
        return no_config(storage)
    except PlaceMissing as error:
        return _gone(surroundings) if known_vault(surroundings) else error


def _gone(surroundings: Surroundings) -> NoSuchVault:
    return NoSuchVault(
        f"The vault at `{surroundings.vault}` was here before, and is gone",
        kept="No new vault was made in its place",
        next_steps=(
            "If it lies on a drive or share, see that it is mounted, and run the command again",
            "If it was moved, say where it is: the setting `vault.path` or `SAFEKEPT_VAULT_PATH`",
            "If it is gone for good, make a new one: `safekept vault init`",
        ),
        place=surroundings.vault,
    )
