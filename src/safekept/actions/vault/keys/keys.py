"""The keys of a vault: which there are, one more, one less, and the one in the key file shown.

Every key opens everything, so a change of keys is written to the journal, without the key.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files.small import read_regular
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.owner import held_output
from safekept.core.records import dataclass
from safekept.vault.errors import KeyInUse, NoSuchKey, WrongKey
from safekept.vault.format import parse_time
from safekept.vault.repo import FOR_PASSPHRASE, BadKeyFile, KeyFile, Repository, Secret
from safekept.vault.storage import FileKind

from ...base.context import UserContext
from ...base.record import record
from .key_file import KeyExists, KeyUnwritable, secret_from_file, write_key_once
from .kit_record import KitRecord, stored_kit
from .passphrase import open_with

#: What a key's owner is called in every list, restic's own included, when it is the recovery passphrase.
RECOVERY = "recovery"

GENERATED, PASSPHRASE, RECOVERY_PASSPHRASE = "generated key", "passphrase", "recovery passphrase"


@dataclass(frozen=True, slots=True)
class ListedKey:
    """One key as a list shows it; never the key itself."""

    id: str
    kind: str  # GENERATED, PASSPHRASE or RECOVERY_PASSPHRASE; empty where it cannot be read
    created: str
    person: str  # who added it, and where
    current: bool  # it opened the vault just now
    reason: str = ""  # why it cannot be read

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "kind": self.kind or None,
            "created": self.created,
            "person": self.person,
            "current": self.current,
            "unreadable": self.reason or None,
        }


def listed_keys(repository: Repository) -> list[ListedKey]:
    """Every key file, oldest first."""
    found = []
    for key in repository.list_keys():
        if isinstance(key, KeyFile):
            person = f"{key.username}@{key.hostname}"
            found.append(ListedKey(key.id, _kind(key), key.created, person, key.id == repository.key_id))
        else:
            name, reason = key
            found.append(ListedKey(name, "", "", "", False, reason))
    return sorted(found, key=lambda key: (key.created, key.id))


def keys_from_outside(vault: str) -> tuple[ListedKey, ...]:
    """The keys of a vault on this machine, by their files alone; none where they cannot be read."""
    place, found = os.path.join(vault, "keys"), []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(place)):
            with contextlib.suppress(OSError, BadKeyFile):
                key = KeyFile.parse(name, read_regular(os.path.join(place, name), follow=False))
                found.append(
                    ListedKey(key.id, _kind(key), key.created, f"{key.username}@{key.hostname}", False)
                )
    return tuple(found)


def keys_at(context: UserContext, place: str) -> tuple[ListedKey, ...]:
    """The keys of a vault anywhere, without opening it; none where they cannot be read."""
    from ..place import storage_of

    found = []
    with (
        contextlib.suppress(OSError, SafekeptError),
        contextlib.closing(storage_of(context, place)) as storage,
    ):
        for name, _ in sorted(storage.list(FileKind.KEY)):
            with contextlib.suppress(OSError, BadKeyFile):
                key = KeyFile.parse(name, storage.read(FileKind.KEY, name))
                person = f"{key.username}@{key.hostname}"
                found.append(ListedKey(key.id, _kind(key), key.created, person, False))
    return tuple(found)


def _kind(key: KeyFile) -> str:
    if key.cost.work < FOR_PASSPHRASE.work // 8:
        return GENERATED
    return RECOVERY_PASSPHRASE if key.username == RECOVERY else PASSPHRASE


def add_passphrase(
    context: UserContext,
    repository: Repository,
    secret: Secret,
    *,
    recovery: bool = False,
    listener: Listener = silent,
) -> str:
    """One more passphrase that opens the vault; the id of its key."""
    listener(Event("key"))  # a passphrase is made slow to guess: that takes seconds
    added = repository.add_key(Secret(secret.text), username=RECOVERY if recovery else "")
    from ...base.operations.stores import VaultKeyAddFacts

    work = VaultKeyAddFacts(vault=context.places.vault, key=added, recovery=recovery)
    record(context, work.line(new_id(), "done"), silent)
    return added


def opened_by(repository: Repository, secret: Secret) -> str:
    """The id of the key that this opens; "" where it opens none."""
    try:
        return open_with(repository.storage, secret).key_id
    except WrongKey:
        return ""


def key_to_remove(repository: Repository, prefix: str) -> ListedKey:
    """The one key that starts so. NoSuchKey or KeyInUse, with the keys that there are."""
    keys = listed_keys(repository)
    matches = [key for key in keys if prefix and key.id.startswith(prefix)]
    if len(matches) != 1:
        raise NoSuchKey(
            f"{len(matches) or 'No'} keys of this vault start with `{prefix}`",
            kept="No key was removed",
            next_steps=(NextStep("vault key list", before="See the keys:"),),
        )
    if matches[0].current:
        raise KeyInUse(
            f"The key {matches[0].id[:8]} is the one that this vault was opened with",
            kept="No key was removed",
            next_steps=(NextStep("vault key renew", before="Put a new one in its place:"),),
        )
    return matches[0]


def remove_key(context: UserContext, repository: Repository, key: str) -> None:
    """Take a key away for good, by its full id."""
    repository.remove_key(key)
    from ...base.operations.stores import VaultKeyRemoveFacts

    work = VaultKeyRemoveFacts(vault=context.places.vault, key=key)
    record(context, work.line(new_id(), "done"), silent)


def removed_keys(context: UserContext) -> set[str]:
    """The keys that were taken away on this machine, as the journal remembers."""
    from ...base.operations.stores import VaultKeyRemoveFacts  # costs time, and `status` needs none of it

    return {
        key
        for entry in context.journal.read()
        if entry.verb == VaultKeyRemoveFacts.verb and entry.state == "done"
        if (key := VaultKeyRemoveFacts.read(entry).key)
    }


def export_key(context: UserContext, repository: Repository) -> Secret:
    """The key in the key file, proven to open this very vault."""
    secret = secret_from_file(context.places.vault_key_file)
    if secret is None:
        raise NoKeyToShow(
            f"The vault at `{context.places.vault}` was opened with a passphrase; "
            f"there is no key file `{context.places.vault_key_file}`",
            kept="Nothing was written",
            next_steps=("The passphrase opens it everywhere, with restic too",),
        )
    Repository.open(repository.storage, secret)
    return secret


class NoKeyToShow(SafekeptError):
    code = "no-key-to-show"


def write_exported_key(path: str, text: str) -> None:
    """Write a key to a file of its own, 0600; an existing file is not touched."""
    try:
        with held_output(path) as held:
            written = write_key_once(held, text)
    except OSError as error:
        raise KeyUnwritable(
            f"The key cannot be written to `{path}`: {error.strerror or error}",
            kept="Nothing was written; the vault and its key are as they were",
            next_steps=(NextStep("vault key export", ("-o", "FILE"), before="Name another file:"),),
            key_file=path,
        ) from error
    if not written:
        raise KeyExists(
            f"`{path}` exists already",
            kept="It was not touched",
            next_steps=(NextStep("vault key export", ("-o", "FILE"), before="Name another file:"),),
        )


# The second way into a vault: a copy off this host is worth nothing once the only key is lost.
# The key file dies with the machine. So the first push insists on a passphrase that a person knows, or
# on a kit that a person says is kept elsewhere. Which of them there is, is asked of the vault itself and
# of a small file of ours, not of the journal.

KIT, ESCROW = "kit", "escrow"


class NoRecoveryAccess(SafekeptError):
    code = "no-second-way"


def recovery_access(context: UserContext, repository: Repository) -> str:
    """What opens this vault when its key file is lost: `passphrase`, `kit`, `escrow`, or nothing ("")."""
    if any(key.kind not in ("", GENERATED) for key in listed_keys(repository)):
        return PASSPHRASE
    with contextlib.suppress(OSError):  # where that is unknown, there is none
        return _by_kit(context, repository.id, [key.id for key in listed_keys(repository)])
    return ""


def recovery_access_from_outside(context: UserContext, vault_id: str) -> str:
    """The same without opening the vault: by its key files, where they are on this machine."""
    keys = keys_from_outside(context.places.vault)
    if any(key.kind not in ("", GENERATED) for key in keys):
        return PASSPHRASE
    return _by_kit(context, vault_id, [key.id for key in keys])


def _by_kit(context: UserContext, vault: str, keys: Sequence[str]) -> str:
    """A kit that is kept elsewhere, unless its key was taken away since; or one in escrow."""
    stored = stored_kit(context, vault)
    gone = stored is not None and stored.key and keys and stored.key not in keys
    if stored is not None and not gone:
        return KIT
    if not context.choices.escrow:
        return ""
    from .escrow import escrow_holds

    return ESCROW if escrow_holds(context, vault, keys) else ""


def require_recovery_access(context: UserContext, repository: Repository) -> str:
    """The same; NoRecoveryAccess where there is none."""
    from .escrow import can_escrow

    found = recovery_access(context, repository)
    if not found and can_escrow(context) and secret_from_file(context.places.vault_key_file) is not None:
        found = ESCROW  # the kit goes first, and then the vault
    if found:
        return found
    raise NoRecoveryAccess(
        f"Only the key in `{context.places.vault_key_file}` opens this vault: with this machine, every "
        "copy of the vault would be lost too",
        kept="Nothing was sent; the vault here is as it was",
        next_steps=(
            NextStep("vault key add", ("--recovery",), before="Add a passphrase that you know:"),
            NextStep("vault kit", before="Or write the page with the key:"),
            NextStep("vault kit", ("--stored",), before="and when it is kept elsewhere, say so:"),
        ),
        vault=repository.id,
    )


# Keys of machines that this one was rebuilt from. They still open the vault, wherever those are.
#
# Nothing is taken away by itself: the old machine may still be in use, and a kit on paper may hold its key.
# So none is named before a kit with the key of this machine is kept elsewhere: until then the old paper may
# be all that a person has.


def keys_of_old_machines(
    keys: Sequence[ListedKey], rebuilt: float, stored: KitRecord | None
) -> tuple[ListedKey, ...]:
    """Which of them may go, oldest first.

    `rebuilt`: when this machine was, 0 for never. `stored`: the kit that a person keeps elsewhere.
    """
    own = next((key for key in keys if key.current), None)
    if not rebuilt or own is None or own.kind != GENERATED or _created(own) < rebuilt:
        return ()
    if stored is None or stored.key != own.id:
        return ()
    return tuple(
        key for key in keys if key.kind == GENERATED and not key.current and 0 < _created(key) < rebuilt
    )


def _created(key: ListedKey) -> float:
    """0 where its file does not say."""
    try:
        return parse_time(key.created)[0] / 1e9
    except ValueError:
        return 0.0
