"""Snapshots that a copy holds and the vault here does not: once here, or of another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import VaultDamaged
from ..format.snapshot import BadSnapshot, Snapshot
from ..repo.sealed_files import load_file
from ..snapshots import list_snapshots, public_id
from ..storage.base import FileKind, NotStored, Storage

if TYPE_CHECKING:
    from ..repo.repository import Repository
    from .mirror import MirrorPlan


def snapshots_only_there(repository: Repository, plan: MirrorPlan, target: Storage) -> list[Snapshot]:
    """Oldest first. One that cannot be read there, or only has other tags here, is left out."""
    surplus = plan.surplus[FileKind.SNAPSHOT]
    if not surplus:
        return []
    kept = {public_id(snapshot) for snapshot in list_snapshots(repository)[0]}
    found = []
    for name in surplus:
        try:
            one = Snapshot.from_json(name, load_file(target, repository.key, FileKind.SNAPSHOT, name))
        except (NotStored, VaultDamaged, BadSnapshot):
            continue
        if public_id(one) not in kept:
            found.append(one)
    return sorted(found, key=lambda snapshot: snapshot.time_ns)
