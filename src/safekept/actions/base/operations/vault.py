"""What is written down of the vault: how it is cared for, and its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from .facts import Facts


@dataclass(kw_only=True, slots=True)
class VaultFacts(Facts):
    """What each of these says first."""

    vault: str | None = None
    id: str | None = None


@dataclass(kw_only=True, slots=True)
class VaultInitFacts(VaultFacts):
    """A vault that was made."""

    verb: ClassVar[str] = "vault-init"


@dataclass(kw_only=True, slots=True)
class VaultJoinFacts(VaultFacts):
    """A vault of somebody else that this host uses from now on."""

    verb: ClassVar[str] = "vault-join"

    key: str | None = None


@dataclass(kw_only=True, slots=True)
class VaultCheckFacts(VaultFacts):
    """A check of the vault, or of a copy of it."""

    verb: ClassVar[str] = "vault-check"

    read_data: float | None = None  # the share of the bytes that were read
    bytes_read: int | None = None
    damage: tuple[str, ...] | None = None


@dataclass(kw_only=True, slots=True)
class VaultRepairFacts(VaultFacts):
    """A repair: what was saved, and what was not."""

    verb: ClassVar[str] = "vault-repair"

    index_files: int | None = None
    packs_indexed: int | None = None
    saved: int | None = None
    lost: int | None = None
    sound: bool | None = None


@dataclass(kw_only=True, slots=True)
class VaultPruneFacts(VaultFacts):
    """Room that was given back."""

    verb: ClassVar[str] = "vault-prune"

    plan: Mapping[str, object] | None = None
    snapshots: int | None = None
    packs_deleted: int | None = None
    packs_repacked: int | None = None
    bytes_freed: int | None = None
    index_files_before: int | None = None
    index_files_after: int | None = None
    damaged: Mapping[str, object] | None = None
    no_room: bool | None = None


@dataclass(kw_only=True, slots=True)
class SnapshotPruneFacts(VaultPruneFacts):
    """Quick snapshots beyond a number that went, and the room that it gave back."""

    verb: ClassVar[str] = "prune"


@dataclass(kw_only=True, slots=True)
class VaultUnlockFacts(VaultFacts):
    """Locks that were taken away."""

    verb: ClassVar[str] = "vault-unlock"

    locks: tuple[str, ...] | None = None


@dataclass(kw_only=True, slots=True)
class VaultKitFacts(VaultFacts):
    """The page with the key that was written."""

    verb: ClassVar[str] = "vault-kit"

    written: tuple[str, ...] | None = None


@dataclass(kw_only=True, slots=True)
class KitAcknowledgeFacts(VaultFacts):
    """Somebody said that the page is kept elsewhere."""

    verb: ClassVar[str] = "kit-acknowledge"


@dataclass(kw_only=True, slots=True)
class VaultKeyAddFacts(VaultFacts):
    """A key that opens the vault, too."""

    verb: ClassVar[str] = "vault-key-add"

    key: str | None = None
    recovery: bool | None = None


@dataclass(kw_only=True, slots=True)
class VaultKeyRemoveFacts(VaultFacts):
    """A key that opens it no more."""

    verb: ClassVar[str] = "vault-key-remove"

    key: str | None = None
