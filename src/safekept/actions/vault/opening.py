"""Where the vault is and how it opens; made on first use, outside every home.

The key file is durable before the vault that needs it, so every vault that exists can be opened; an
init cut short in between is finished with the same key. A vault that was known here and is gone (an
unmounted drive) is never rebuilt unasked: a second, empty history in the place of
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
from safekept.core.journal import new_id
from safekept.core.locks import process_lock
from safekept.core.next_step import NextStep
from safekept.core.objects.errors import PlaceMissing
from safekept.vault.errors import NoSuchVault, VaultHalfMade, VaultUnreachable, WrongKey
from safekept.vault.repo import Repository, no_config, refuse_taken
from safekept.vault.storage import FileKind, LocalStorage, Storage

from ..base.context import UserContext
from ..base.own_places import known_homes, within
from ..base.record import KEPT, record
from ..base.unfinished import read_unfinished
from .keys.key_file import KeyMissing, close_to_others, secret_from_file, write_key_once
from .keys.passphrase import open_with
from .place import is_remote, known_vault, remember_vault, storage_of, vault_was_here

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
    context: UserContext,
    *,
    create: bool = False,
    homes: Sequence[str] = (),
    listener: Listener = silent,
) -> Repository:
    """Open the vault; with `create` it is made where there is none. Use it in a `with`.

    `homes` are homes at work beside the ones that the layouts know; a new vault lies in none of them.
    """
    if context.places.source_vault and not create:
        return _open_source(context, listener)
    with _closed_on_error(_own_storage(context)) as storage:
        if _has_config(storage):
            if create:
                refuse_inside_home(context, homes)
            repository = _open(context, storage, listener)
            remember_vault(context, repository.id)
            if isinstance(storage, LocalStorage) and storage.belt.wanted and storage.belt.state == "off":
                from .seat_belt import leave_open_for_others

                leave_open_for_others(repository, storage.belt, listener)
            return repository
        if not create:
            raise _not_there(context, storage)
        storage.close()
    return make_vault(context, homes=homes, listener=listener, anew=False)


def _own_storage(context: UserContext) -> Storage:
    """Where this machine's own vault lies, or will be made: a directory, or a place named by a URL."""
    return storage_of(context, context.places.vault, create=True)


def _open_source(context: UserContext, listener: Listener) -> Repository:
    """The vault that was named to be read from, with the same key; nothing is remembered of it.

    A copy in a destination is read without a lock: `push --prune` alone prunes it, which would show
    as damage and never as wrong content, and a credential that can only add could not take a lock away.
    """
    place = context.places.source_vault
    remote = is_remote(context, place)
    cache = ""
    if context.places.cache_directory:
        name = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        cache = os.path.join(context.places.cache_directory, "copies", name)
    storage = storage_of(context, place, known=known_vault(context))
    with _closed_on_error(storage):
        repository = _open(context, storage, listener, cache=cache)
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
    context: UserContext,
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
    refuse_inside_home(context, homes)
    # Two first uses at once: one makes the vault, the other opens it.
    with _closed_on_error(_own_storage(context)) as storage, _one_at_a_time(context):
        if _has_config(storage) and not anew:
            return _open(context, storage, listener)
        if not anew and vault_was_here(context):
            raise _not_there(context, storage)
        if is_remote(context, context.places.vault):
            storage.create()  # on a server the directory itself may be missing yet
        # Before a key is written: it would be the wrong one for what is there.
        try:
            refuse_taken(storage)
        except VaultHalfMade as error:
            raise _of_rebuild(context, error) from None
        repository = Repository.init(
            storage, secret or _first_secret(context, storage), cache=context.places.cache_directory
        )
    remember_vault(context, repository.id)
    listener(Event("vault", text=f"Made the vault {context.places.vault}"))
    return repository


def initialise(
    context: UserContext, *, secret: Secret | None = None, listener: Listener = silent
) -> Repository:
    """`vault init`: make the vault because a person asked, and note it in the journal."""
    repository = make_vault(context, secret=secret, listener=listener)
    from ..base.operations.stores import VaultInitFacts

    work = VaultInitFacts(vault=context.places.vault, id=repository.id)
    record(context, work.line(new_id(), "done"), listener)
    return repository


def remove_locks(
    context: UserContext, repository: Repository, *, everything: bool = False, dry_run: bool = False
) -> list[LockFile]:
    """`vault unlock`: the locks that were left behind, removed unless it is a dry run."""
    from safekept.vault.repo import read_locks, unlock

    if dry_run:
        locks = read_locks(repository.storage, repository.key)
        return [lock for lock in locks if everything or lock.stale or lock.reason]
    removed = unlock(repository.storage, repository.key, everything=everything)
    from ..base.operations.stores import VaultUnlockFacts

    work = VaultUnlockFacts(vault=context.places.reads_from, locks=tuple(lock.holder for lock in removed))
    record(context, work.line(new_id(), "done"), silent)
    return removed


@contextlib.contextmanager
def _one_at_a_time(context: UserContext) -> Iterator[None]:
    path = os.path.join(context.places.data_directory, "vault-init.lock")
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(process_lock(path, "vault init", _INIT_WAIT))
        except OSError as error:
            raise VaultUnreachable(
                f"The vault at `{context.places.vault}` cannot be made: "
                f"`{context.places.data_directory}`: {error.strerror}",
                kept="Nothing was made or changed there",
                next_steps=("See that you may write there, then run the command again",),
                place=context.places.vault,
            ) from error
        yield


def cache_of(context: UserContext, repository: Repository) -> str:
    """The directory for what can be rebuilt of one vault; empty where there is no cache."""
    if not context.places.cache_directory:
        return ""
    return os.path.join(context.places.cache_directory, repository.id[:16])


def vault_exists(context: UserContext) -> bool:
    with contextlib.closing(_own_storage(context)) as storage:
        return _has_config(storage)


def _has_config(storage: Storage) -> bool:
    """Whether a vault is there; also where the place itself is not, on a server that answers."""
    try:
        return storage.exists(FileKind.CONFIG)
    except PlaceMissing:
        return False


def refuse_inside_home(context: UserContext, homes: Sequence[str] = ()) -> None:
    """Raise VaultInsideHome or KeyInsideHome where one of them lies in a home, links resolved.

    With the home, the vault or the only way into it would be lost; and a snapshot would hold its own key.
    """
    place, key_file = os.path.realpath(context.places.vault), os.path.realpath(context.places.vault_key_file)
    needed = not context.choices.vault_wants_passphrase or os.path.exists(key_file)
    remote = is_remote(context, context.places.vault)
    for home in (*homes, *known_homes(context)):
        if not remote and within(place, home):
            raise VaultInsideHome.at(context.places.vault, home)
        if context.places.vault_key_file and needed and within(key_file, home):
            raise KeyInsideHome.at(context.places.vault_key_file, home)


def _first_secret(context: UserContext, storage: Storage) -> Secret:
    """What a new vault will open with; a generated key is in its file before the vault is made."""
    from safekept.vault.repo import Secret, generate_secret

    if context.choices.vault_wants_passphrase and context.caller.vault_secret is not None:
        return context.caller.vault_secret()
    existing = secret_from_file(context.places.vault_key_file)
    if existing is None:
        fresh = generate_secret()
        if write_key_once(context.places.vault_key_file, fresh.text):
            return fresh
        existing = secret_from_file(context.places.vault_key_file)
        if existing is None:
            raise KeyMissing.at(storage.location, context.places.vault_key_file)
    # Only text of our own making needs no stretching; a person may have put a passphrase there.
    return Secret(existing.text, generated=looks_generated(existing.text))


def looks_generated(text: str) -> bool:
    """Whether a key has the shape of `generate_secret`: 52 letters and digits in groups of four."""
    groups = text.split("-")
    alphabet = set("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
    return len(groups) == 13 and all(len(group) == 4 and set(group) <= alphabet for group in groups)


def _open(context: UserContext, storage: Storage, listener: Listener, *, cache: str = "") -> Repository:
    """With the key file, else with the passphrase; the error names every way that was tried."""
    cache = cache or context.places.cache_directory
    key_file = context.places.vault_key_file
    secret = secret_from_file(key_file) if key_file else None
    wrong: WrongKey | None = None
    if key_file and secret is None and (kept := _kept_secret(context)) is not None:
        with contextlib.suppress(WrongKey):  # of another vault: then it is as if there were none
            repository = open_with(storage, kept, cache)
            note = f"Note: the key file `{key_file}` is gone; its copy behind the seat belt opened the vault"
            listener(Event("key", text=note))
            return repository
    if secret is not None:
        try:
            repository = open_with(storage, secret, cache)
            if warning := close_to_others(context.places.vault_key_file):  # only now it is known to be a key
                listener(Event("key", text=f"Note: {warning}"))
            return repository
        except WrongKey as error:
            wrong = error
    if context.caller.vault_secret is None:
        if wrong is not None:
            raise _wrong_file(wrong, context)
        raise KeyMissing.at(storage.location, context.places.vault_key_file)
    for left in range(context.caller.secret_tries - 1, -1, -1):
        typed = context.caller.vault_secret()
        listener(Event("open"))  # a passphrase is made slow to guess: that takes seconds
        try:
            return open_with(storage, typed, cache)
        except WrongKey:
            if not left:
                raise
            listener(try_again(left))
    raise AssertionError("asked at least once")


def open_storage(context: UserContext, storage: Storage, listener: Listener = silent) -> Repository:
    """Another repository that opens as the vault does; closed where it does not."""
    with _closed_on_error(storage):
        return _open(context, storage, listener)


def _kept_secret(context: UserContext) -> Secret | None:
    """The copy of the key behind the seat belt, for when an `rm` took the key file."""
    path = os.path.join(context.places.data_directory, KEPT, "vault.key")
    if context.choices.vault_wants_passphrase or not os.path.exists(path):
        return None
    return secret_from_file(path)


def try_again(left: int) -> Event:
    """What is said after a wrong passphrase, while there are tries left."""
    return Event("key", text=f"That does not open it; {left} more {'try' if left == 1 else 'tries'}")


def _wrong_file(error: WrongKey, context: UserContext) -> WrongKey:
    return WrongKey(
        f"{error.what} in `{context.places.vault_key_file}`",
        kept=error.kept,
        next_steps=(
            "Put the key from your kit into a new file, as one line, and name it: `SAFEKEPT_VAULT_KEY_FILE`. "
            "Keep the file that is there: another vault may need it",
            "Or use the recovery passphrase: run the command at a terminal and it will ask for it",
            "Check that the vault is the one you mean: the setting `vault.path`",
        ),
        **error.facts,
        key_file=context.places.vault_key_file,
    )


def _not_there(context: UserContext, storage: Storage) -> SafekeptError:
    try:
        if known_vault(context) and next(iter(storage.list(FileKind.KEY)), None) is None:
            return _gone(context)
        return _of_rebuild(context, no_config(storage))
    except PlaceMissing as error:
        return _gone(context) if known_vault(context) else error


def refuse_half_made(context: UserContext) -> None:
    """Raise VaultHalfMade where no vault could be made over what is there; nothing is changed."""
    if is_remote(context, context.places.vault):
        return  # the making of it asks there
    with contextlib.suppress(PlaceMissing), contextlib.closing(_own_storage(context)) as storage:
        if not _has_config(storage):
            refuse_taken(storage)


def not_made_yet(context: UserContext) -> bool:
    """Whether there never was a vault here. What a making leaves that was cut off holds nothing: the next
    one goes on with it."""
    if known_vault(context) or vault_exists(context):
        return False
    try:
        refuse_half_made(context)
    except SafekeptError:
        return False
    return not os.path.lexists(context.places.vault) or os.path.isdir(context.places.vault)


def _of_rebuild(context: UserContext, error: SafekeptError) -> SafekeptError:
    """The same, with the command that goes on where the pieces are what a rebuild has fetched."""
    work = read_unfinished(context)
    if isinstance(error, VaultHalfMade) and work is not None and "history" in work.left:
        error.next_steps = (work.again, *error.next_steps[1:])
    return error


def _gone(context: UserContext) -> NoSuchVault:
    return NoSuchVault(
        f"The vault at `{context.places.vault}` was here before, and is gone",
        kept="No new vault was made in its place",
        next_steps=(
            "If it lies on a drive or share, see that it is mounted, and run the command again",
            "If it was moved, say where it is: the setting `vault.path` or `SAFEKEPT_VAULT_PATH`",
            NextStep("vault init", before="If it is gone for good, make a new one:"),
        ),
        place=context.places.vault,
    )
