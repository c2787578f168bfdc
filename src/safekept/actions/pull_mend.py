"""What a damaged vault has lost and its copy still has: named by an index here, and missing or changed.

Every file here is read and held against its name, so what is fetched is exactly what is damaged. Nothing
that was pruned or forgotten here comes back.
"""

from __future__ import annotations

import hashlib

from safekept.core.events import Event, Listener, silent
from safekept.vault.errors import VaultDamaged
from safekept.vault.mirror import MirrorPlan
from safekept.vault.repo import Repository
from safekept.vault.storage.base import FileKind, NotStored, Storage, stored_name
from safekept.vault.transfer import File


def missing_here(
    repository: Repository, copy: Storage, listener: Listener = silent
) -> tuple[MirrorPlan, list[str]]:
    """The files to fetch, of those that the vault here needs; and those that the copy has not either."""
    here = repository.storage
    # Index files first: one that comes back may name packs that are missing.
    wanted = {
        FileKind.INDEX: [name for name, _ in here.list(FileKind.INDEX)],
        FileKind.SNAPSHOT: [name for name, _ in here.list(FileKind.SNAPSHOT)],
        FileKind.KEY: [name for name, _ in here.list(FileKind.KEY)],
        FileKind.PACK: sorted(pack.hex() for pack in repository.index.packs),
    }
    total, done, present = sum(map(len, wanted.values())), 0, 0
    files: dict[FileKind, tuple[File, ...]] = {FileKind.CONFIG: ()}
    lost: list[str] = []
    for kind, names in wanted.items():
        there = None
        found = []
        for name in names:
            listener(Event("read", done, total, "files"))
            done += 1
            state = _state(here, kind, name)
            if state == "sound":
                present += 1
                continue
            there = dict(copy.list(kind)) if there is None else there
            if name in there:
                found.append(File(kind, name, there[name], replace=state == "damaged"))
            else:
                lost.append(stored_name(kind, name))
        files[kind] = tuple(found)
    config = here.read(FileKind.CONFIG)
    return MirrorPlan(files, present, {kind: {} for kind in files}, config, config), lost


def _state(storage: Storage, kind: FileKind, name: str) -> str:
    try:
        data = storage.read(kind, name)
    except NotStored:
        return "missing"
    except VaultDamaged:
        return "damaged"
    return "sound" if hashlib.sha256(data).hexdigest() == name else "damaged"
