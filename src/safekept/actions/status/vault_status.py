"""How the vault is, as far as a look tells: its place, size, keys and health; also where it does not open.

Snapshot files and names suffice for that: no index is loaded, no lock is taken, nothing is written.
Whatever keeps the vault shut is part of the answer, never an error.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from safekept.core.ages import iso_time
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files import free_bytes
from safekept.core.next_step import NextStep, Step, next_document
from safekept.core.objects.address import is_address
from safekept.core.records import dataclass
from safekept.vault.format import Snapshot
from safekept.vault.repo import Repository, read_locks
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import DIRECTORIES
from safekept.vault.tags import forgotten_at

from ..base.context import UserContext
from ..base.operations.stores import VaultCheckFacts
from ..base.record import KEPT
from ..base.unfinished import read_unfinished
from ..offsite.elsewhere import not_elsewhere
from ..offsite.place import find_destination
from ..vault.keys.keys import (
    ListedKey,
    keys_from_outside,
    keys_of_old_machines,
    listed_keys,
    recovery_access,
    recovery_access_from_outside,
)
from ..vault.keys.kit_record import KitStatus, kit_status, stored_kit, written_kit
from ..vault.opening import not_made_yet, open_vault, vault_exists
from ..vault.place import known_vault
from .growth import Growth, growth_of
from .recent import Recent

OPEN, NONE, SHUT = "open", "none", "shut"
#: What an error says of a vault that is not there any more.
_GONE = ("vault-gone", "no-such-vault")
#: Seconds that a vault is waited for which may be just being made, and for which its key is new.
_BEING_MADE, _JUST_NOW = 3.0, 30.0
#: It is there, and was not opened: the journal says what is in it.
UNOPENED = "unopened"


@dataclass(frozen=True, slots=True)
class LastCheck:
    """What the last check of the vault found."""

    time: float
    sound: bool
    read_data: float  # the part of the data that was read, 0 to 1
    damage: int = 0

    def as_dict(self) -> dict[str, object]:
        return {
            "time": iso_time(self.time),
            "sound": self.sound,
            "read_data": self.read_data,
            "damage": self.damage,
        }


@dataclass(frozen=True, slots=True)
class VaultStatus:
    """The vault as it was found."""

    place: str
    state: str  # OPEN; NONE: there is none yet; SHUT: it is there or was there, and does not open
    error: Mapping[str, object] | None = None  # what keeps it shut: code, what, kept
    advice: tuple[Step, ...] = ()  # what opens it again
    id: str = ""
    bytes: int | None = None
    free: int | None = None
    snapshots: int = 0
    forgotten: int = 0
    damaged: Mapping[str, str] = field(default_factory=dict)  # snapshot files that cannot be read
    locks: tuple[str, ...] = ()  # who works on it alone, or left a lock behind
    keys: tuple[ListedKey, ...] = ()
    old_keys: tuple[ListedKey, ...] = ()  # of machines that this one was rebuilt from, and not needed
    key_file: str = ""  # the file of the key on this host; empty where a passphrase opens it
    check: LastCheck | None = None
    kit: float = 0.0  # when the kit was last written; 0: never
    kits: KitStatus = field(default_factory=KitStatus)  # which of them can be counted on
    recovery_access: str = (
        ""  # what opens it without this host: "passphrase", "kit" (said to be kept), "escrow", or ""
    )
    escrow: str = ""  # why the kit in escrow is not as the settings say; empty: it is, or none is wanted
    here: str = ""  # why it would be lost with this machine, where its address does not say so
    growth: Growth = field(default_factory=Growth)

    @property
    def absent(self) -> bool:
        """Whether there is no vault here: none yet, or the one that was here is gone."""
        gone = self.state == SHUT and self.error is not None and self.error.get("code") in _GONE
        return self.state == NONE or gone

    @property
    def off_host(self) -> bool:
        """Whether the vault itself lies on another machine."""
        return is_address(self.place) and not self.place.startswith("file:") and not self.here

    @property
    def readable_here(self) -> bool:
        """Whether one who reads this host's files can read the vault: its key lies here, too."""
        return bool(self.key_file)

    @property
    def health(self) -> str:
        """`sound`, `damaged` or `unknown`: by the last check and by what was seen now."""
        if self.damaged or (self.check is not None and not self.check.sound):
            return "damaged"
        return "sound" if self.check is not None and self.state == OPEN else "unknown"

    def as_dict(self) -> dict[str, object]:
        return {
            "place": self.place,
            "state": self.state,
            "error": {**self.error, **next_document(self.advice)} if self.error else None,
            "id": self.id or None,
            "bytes": self.bytes,
            "free_bytes": self.free,
            "snapshots": self.snapshots,
            "forgotten": self.forgotten,
            "health": self.health,
            "damaged": dict(self.damaged),
            "last_check": self.check.as_dict() if self.check else None,
            "locks": list(self.locks),
            "keys": [key.as_dict() for key in self.keys],
            "old_keys": [key.as_dict() for key in self.old_keys],
            "key_file": self.key_file or None,
            "second_way": self.recovery_access or None,
            "escrow_trouble": self.escrow or None,
            "kit_written": iso_time(self.kit),
            "kit_files": list(self.kits.files),
            "kit_stored": iso_time(self.kits.stored),
            "kit_outdated": self.kits.outdated or None,
            "readable_here": self.readable_here,
            "off_host": self.off_host,
            **self.growth.as_dict(),
        }


@dataclass(slots=True)
class VaultView:
    """The status, and what others need of the open vault while it is open."""

    status: VaultStatus
    repository: Repository | None = None
    snapshots: Sequence[Snapshot] = ()  # all of them, oldest first


@contextlib.contextmanager
def vault_view(
    context: UserContext, recent: Recent, now: float, listener: Listener = silent
) -> Iterator[VaultView]:
    """Look at the vault; it stays open inside the `with`. Never raises for what is wrong with the vault."""
    place = context.places.vault
    with contextlib.ExitStack() as stack:
        try:
            _wait_while_it_is_made(context)
            if not_made_yet(context):
                view = VaultView(VaultStatus(place, NONE))
            else:
                repository = stack.enter_context(open_vault(context, listener=listener))
                view = _look(context, repository, recent, now)
        except SafekeptError as error:
            shut = VaultStatus(
                place, SHUT, error.as_dict(), error.next_steps, check=_check(recent), kit=_kit(recent)
            )
            view = VaultView(shut)
        except OSError as error:
            reason = {
                "code": "vault-unreachable",
                "what": f"`{place}`: {error.strerror or error}",
            }
            view = VaultView(VaultStatus(place, SHUT, reason))
        yield view


def _wait_while_it_is_made(context: UserContext) -> None:
    """One that another process is just making, as the first snapshot of a session that ended does, is whole
    in a moment: it gets its key first and its `config` last."""
    deadline = time.monotonic() + _BEING_MADE
    while _new_keys(context.places.vault) and not vault_exists(context) and time.monotonic() < deadline:
        work = read_unfinished(context)
        if work is not None and work.is_left("vault"):
            return  # a setup that was cut off; one that is at work is named, too
        time.sleep(0.05)


def _new_keys(vault: str) -> bool:
    """Whether a key was put there just now."""
    with contextlib.suppress(OSError), os.scandir(os.path.join(vault, "keys")) as found:
        return any(abs(time.time() - entry.stat().st_mtime) < _JUST_NOW for entry in found)
    return False


@contextlib.contextmanager
def vault_from_outside(context: UserContext, recent: Recent) -> Iterator[VaultView]:
    """What can be said of the vault without opening it: is it there, which keys open it, what was checked."""
    place = context.places.vault
    if not_made_yet(context):
        yield VaultView(VaultStatus(place, NONE))
        return
    if not is_address(place) and not os.path.exists(os.path.join(place, "config")):
        gone = {"code": "vault-gone", "what": f"the vault at {place} was here before, and is gone"}
        steps = (NextStep("", before="See what there is:"),)
        yield VaultView(VaultStatus(place, SHUT, gone, steps, check=_check(recent)))
        return
    key_file = context.places.vault_key_file
    keys = keys_from_outside(place)
    status = VaultStatus(
        place,
        UNOPENED,
        id=known_vault(context),
        key_file=_key_here(key_file, context),
        check=_check(recent),
        kit=_kit(recent),
        kits=_kits(context, known_vault(context), keys, recent),
        here=_here(context, place),
        keys=keys,
        recovery_access=recovery_access_from_outside(context, known_vault(context)),
        escrow=_escrow(context, known_vault(context), keys),
    )
    yield VaultView(status)


def _key_here(key_file: str, context: UserContext) -> str:
    """The file of the key, or its copy where that is gone; empty where there is neither."""
    copy = os.path.join(context.places.data_directory, KEPT, "vault.key")
    return next((path for path in (key_file, copy) if key_file and os.path.isfile(path)), "")


def _look(context: UserContext, repository: Repository, recent: Recent, now: float) -> VaultView:
    snapshots, damaged = list_snapshots(repository)
    forgotten = sum(1 for snapshot in snapshots if forgotten_at(snapshot) is not None)
    size = free = None
    if os.path.isdir(context.places.vault):  # off this host, listing everything would take its time
        size = sum(length for kind in DIRECTORIES for _, length in repository.storage.list(kind))
        with contextlib.suppress(OSError):
            free = free_bytes(context.places.vault)
    key_file = context.places.vault_key_file
    keys = tuple(listed_keys(repository))
    status = VaultStatus(
        context.places.vault,
        OPEN,
        id=repository.id,
        bytes=size,
        free=free,
        snapshots=len(snapshots) - forgotten,
        forgotten=forgotten,
        damaged=damaged,
        locks=_locks(repository),
        keys=keys,
        old_keys=old_keys(context, repository.id, keys, recent),
        key_file=_key_here(key_file, context),
        check=_check(recent),
        kit=_kit(recent),
        kits=_kits(context, repository.id, keys, recent),
        here=_here(context, context.places.vault),
        recovery_access=recovery_access(context, repository),
        escrow=_escrow(context, repository.id, keys),
        growth=growth_of(snapshots, now),
    )
    return VaultView(status, repository, snapshots)


def _locks(repository: Repository) -> tuple[str, ...]:
    found = []
    for lock in read_locks(repository.storage, repository.key):
        if lock.stale or lock.reason:
            found.append(f"left behind by {lock.holder}")
        elif lock.exclusive:
            found.append(f"held by {lock.holder}")
    return tuple(found)


def _check(recent: Recent) -> LastCheck | None:
    entry = recent.check
    if entry is None:
        return None
    check = VaultCheckFacts.read(entry)
    return LastCheck(
        entry.time, entry.state == "done", float(check.read_data or 0.0), len(check.damage or ())
    )


def old_keys(
    context: UserContext, vault: str, keys: Sequence[ListedKey], recent: Recent
) -> tuple[ListedKey, ...]:
    """Keys of machines that this one was rebuilt from; where several hosts share a vault, none is that."""
    with contextlib.suppress(OSError):  # where it is unknown what a kit holds, every key may be needed
        rebuilt = 0.0 if recent.joined else recent.rebuilt
        return keys_of_old_machines(keys, rebuilt, stored_kit(context, vault))
    return ()


def _kit(recent: Recent) -> float:
    return recent.kit.time if recent.kit else 0.0


def _kits(context: UserContext, vault: str, keys: Sequence[ListedKey], recent: Recent) -> KitStatus:
    with contextlib.suppress(OSError):  # where that is unknown, none is stored
        written = written_kit(context, vault, lambda _: recent.kit)
        return kit_status(context, vault, [key.id for key in keys], written)
    return KitStatus()


def _escrow(context: UserContext, vault: str, keys: Sequence[ListedKey]) -> str:
    if not context.choices.escrow:
        return ""
    from ..vault.keys.escrow import escrow_trouble

    return escrow_trouble(context, vault, [key.id for key in keys])


def _here(context: UserContext, place: str) -> str:
    with contextlib.suppress(SafekeptError):
        return not_elsewhere(context, find_destination(context, place)) if is_address(place) else ""
    return ""
