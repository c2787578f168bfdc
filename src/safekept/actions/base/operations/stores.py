"""What the journal says of stores: archives, the vault and its keys, copies elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from safekept.core.records import dataclass

from .facts import Facts, documented


@dataclass(kw_only=True, slots=True)
class BackupFacts(Facts):
    """An archive that was written, and those that went for it."""

    verb: ClassVar[str] = "backup"

    layout: str | None = documented()
    archive: str | None = documented("path")
    files: int | None = documented()
    bytes: int | None = documented()  # of content
    stored_bytes: int | None = documented()  # of the archive
    damaged: tuple[str, ...] | None = documented()
    census: Mapping[str, object] | None = documented()
    rotated: tuple[str, ...] | None = documented()
    rotated_until: float | None = documented()  # when what was rotated goes for good; 0: it is gone
    sealed: Mapping[str, object] | None = (
        None  # to whom, and the fingerprint by which the file is known again
    )
    scope: Mapping[str, object] | None = None
    created: str | None = None


@dataclass(kw_only=True, slots=True)
class AdoptFacts(Facts):
    """Backups of Hermes's own that were taken over."""

    verb: ClassVar[str] = "adopt"

    copies: tuple[Mapping[str, object], ...] | None = None  # of each how many remarks; documents have them
    freed_bytes: int | None = documented()


# What is written down of what goes to a destination, and comes from there.


@dataclass(kw_only=True, slots=True)
class PushFacts(Facts):
    """A push to one destination."""

    verb: ClassVar[str] = "push"

    destination: str | None = documented()
    place: str | None = None  # as the settings have it; documents say where that is
    absent: bool | None = None  # a disk that is not plugged in
    vault: str | None = documented()  # its id
    snapshots: int | None = None
    wholes: Mapping[str, object] | None = None  # of each home, the time of the newest whole snapshot there
    files: int | None = None
    bytes: int | None = documented()
    archive: str | None = None  # the last one that was sent
    archives: tuple[Mapping[str, object], ...] | None = None  # every one of ours that is there: name, home
    problems: tuple[Mapping[str, object], ...] | None = None
    rights: Mapping[str, object] | None = documented()  # what its credential may do there, by having tried


@dataclass(kw_only=True, slots=True)
class PullFacts(Facts):
    """A copy of the vault that was fetched."""

    verb: ClassVar[str] = "pull"

    destination: str | None = documented()
    place: str | None = None  # as the settings have it; documents say where that is
    path: str | None = documented()
    mend: bool | None = None
    archive: str | None = None
    files: int | None = None
    bytes: int | None = None
    problems: tuple[Mapping[str, object], ...] | None = None


@dataclass(kw_only=True, slots=True)
class DestinationAddFacts(Facts):
    """A place that receives copies from now on."""

    verb: ClassVar[str] = "destination-add"

    destination: str | None = documented("name")
    place: str | None = documented("url")


@dataclass(kw_only=True, slots=True)
class DestinationTestFacts(Facts):
    """What the credential may do in a place, tried because it was asked for."""

    verb: ClassVar[str] = "destination-test"

    destination: str | None = None
    place: str | None = None  # as the settings have it
    rights: Mapping[str, object] | None = None


@dataclass(kw_only=True, slots=True)
class DestinationRemoveFacts(DestinationAddFacts):
    """A place that receives none any more; what lies there stays."""

    verb: ClassVar[str] = "destination-remove"


# What is written down of the vault: how it is cared for, and its keys.


@dataclass(kw_only=True, slots=True)
class VaultFacts(Facts):
    """What each of these says first."""

    vault: str | None = documented()
    id: str | None = documented()


@dataclass(kw_only=True, slots=True)
class VaultInitFacts(VaultFacts):
    """A vault that was made."""

    verb: ClassVar[str] = "vault-init"


@dataclass(kw_only=True, slots=True)
class VaultJoinFacts(VaultFacts):
    """A vault of another host that this one uses from now on."""

    verb: ClassVar[str] = "vault-join"

    key: str | None = documented()


@dataclass(kw_only=True, slots=True)
class VaultCheckFacts(VaultFacts):
    """A check of the vault, or of a copy of it."""

    verb: ClassVar[str] = "vault-check"

    read_data: float | None = None  # the share of the bytes that were read
    bytes_read: int | None = documented()
    damage: tuple[str, ...] | None = None


@dataclass(kw_only=True, slots=True)
class VaultRepairFacts(VaultFacts):
    """A repair: what was saved, and what was not."""

    verb: ClassVar[str] = "vault-repair"

    index_files: int | None = documented()
    packs_indexed: int | None = documented()
    saved: int | None = documented()
    lost: int | None = documented()
    sound: bool | None = documented()


@dataclass(kw_only=True, slots=True)
class VaultPruneFacts(VaultFacts):
    """Room that was given back."""

    verb: ClassVar[str] = "vault-prune"

    plan: Mapping[str, object] | None = None
    snapshots: int | None = documented()  # that went for good
    packs_deleted: int | None = documented()
    packs_repacked: int | None = documented()
    bytes_freed: int | None = documented()
    index_files_before: int | None = documented()
    index_files_after: int | None = documented()
    damaged: Mapping[str, object] | None = documented()
    no_room: bool | None = documented()


@dataclass(kw_only=True, slots=True)
class SnapshotPruneFacts(VaultPruneFacts):
    """Quick snapshots beyond a number that went, and the room that it gave back."""

    verb: ClassVar[str] = "prune"

    forgotten: tuple[str, ...] | None = documented()  # their ids: an undo calls them back


@dataclass(kw_only=True, slots=True)
class VaultUnlockFacts(VaultFacts):
    """Locks that were taken away."""

    verb: ClassVar[str] = "vault-unlock"

    locks: tuple[str, ...] | None = None  # who held them; documents name each


@dataclass(kw_only=True, slots=True)
class VaultOpenFacts(VaultFacts):
    """The seat belt of the stores was opened by hand."""

    verb: ClassVar[str] = "vault-open"


@dataclass(kw_only=True, slots=True)
class VaultCloseFacts(VaultFacts):
    """The seat belt was closed again."""

    verb: ClassVar[str] = "vault-close"


@dataclass(kw_only=True, slots=True)
class VaultKitFacts(VaultFacts):
    """The page with the key that was written."""

    verb: ClassVar[str] = "vault-kit"

    written: tuple[str, ...] | None = None


@dataclass(kw_only=True, slots=True)
class KitAcknowledgeFacts(VaultFacts):
    """A person confirmed that the page is kept elsewhere."""

    verb: ClassVar[str] = "kit-acknowledge"


@dataclass(kw_only=True, slots=True)
class VaultKeyAddFacts(VaultFacts):
    """A key that opens the vault, too."""

    verb: ClassVar[str] = "vault-key-add"

    key: str | None = documented()
    recovery: bool | None = documented()


@dataclass(kw_only=True, slots=True)
class VaultKeyRemoveFacts(VaultFacts):
    """A key that opens it no more."""

    verb: ClassVar[str] = "vault-key-remove"

    key: str | None = None
