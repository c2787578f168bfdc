"""Finding snapshots: all of them, the newest, or one by the start of its id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdfast.vault.errors import AmbiguousSnapshot, NoSuchSnapshot, VaultDamaged
from holdfast.vault.snapshot import Snapshot
from holdfast.vault.storage.base import FileKind, NotStored

if TYPE_CHECKING:
    from holdfast.vault.repo import Repository


def list_snapshots(repository: Repository) -> tuple[list[Snapshot], dict[str, str]]:
    """Every snapshot, oldest first, and those that cannot be read: name and reason."""
    found, damaged = [], {}
    for name, _ in repository.storage.list(FileKind.SNAPSHOT):
        try:
            found.append(repository.load_snapshot(name))
        except VaultDamaged as error:
            damaged[name] = str(error.facts.get("reason", error.what))
        except NotStored:
            continue  # forgotten meanwhile
    found.sort(key=lambda snapshot: (snapshot.time_ns, snapshot.id))
    return found, damaged


def find_snapshot(repository: Repository, word: str) -> Snapshot:
    """`latest`, an id, or the start of one that fits no other."""
    if word == "latest":
        found, _ = list_snapshots(repository)
        if not found:
            raise NoSuchSnapshot(
                "This vault holds no snapshots yet",
                kept="Nothing was changed",
                next_steps=("Take one: `holdfast snapshot`",),
            )
        return found[-1]
    names = [name for name, _ in repository.storage.list(FileKind.SNAPSHOT)]
    matches = [name for name in names if re.fullmatch("[0-9a-f]+", word) and name.startswith(word)]
    if len(matches) > 1:
        raise AmbiguousSnapshot(
            f"{len(matches)} snapshots start with `{word}`",
            kept="Nothing was changed",
            next_steps=tuple(f"Perhaps `{name[: len(word) + 6]}`" for name in sorted(matches)[:3]),
        )
    if matches:
        try:
            return repository.load_snapshot(matches[0])
        except NotStored:
            pass
    raise NoSuchSnapshot(
        f"No snapshot starts with `{word}`",
        kept="Nothing was changed",
        next_steps=("See them all: `holdfast snapshot list`",),
    )
