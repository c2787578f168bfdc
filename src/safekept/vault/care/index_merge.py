"""Index files rewritten: without packs that go, each pack once, few full files for many small ones.

All new files are durable before the first old one is deleted. A process that is killed in between
leaves both: every pack that is needed is named by one of them, and what is named twice counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from safekept.core.events import Event, Listener, silent

from ..format.blobs import PackEntry
from ..repo import index as index_file
from ..repo.index import Packs, encode_index
from ..repo.locks import Lock
from ..repo.sealed_files import save_file
from ..storage.base import FileKind

if TYPE_CHECKING:
    from ..repo.repository import Repository


def merge_indexes(
    repository: Repository,
    gone: Collection[bytes],
    lock: Lock,
    *,
    merge: bool = False,
    listener: Listener = silent,
) -> tuple[int, int]:
    """Take the packs in `gone` out of the index; how many index files there were, and are now.

    Only files that name such a pack, or a pack that another file names as well, are rewritten; with
    them, or where `merge` asks for it, those that are less than half full.
    """
    files = [name for name, _ in repository.storage.list(FileKind.INDEX)]
    old, doubled = _to_rewrite(repository, files, gone, merge)
    if not old:
        return len(files), len(files)
    writer = IndexWriter(repository, lock)
    shared: dict[bytes, dict[PackEntry, None]] = {}
    for number, name in enumerate(old):
        listener(Event("index", number, len(old), "files"))
        for pack, entries in repository.load_index_file(name):
            if pack in gone:
                continue
            if pack in doubled:
                shared.setdefault(pack, {}).update(dict.fromkeys(entries))
            else:
                writer.add(pack, entries)
    for pack, found in shared.items():
        writer.add(pack, sorted(found, key=lambda entry: entry.offset))
    writer.flush()
    for name in old:
        lock.prove()
        repository.storage.delete(FileKind.INDEX, name)
    return len(files), len(files) - len(old) + writer.written


def shrink_indexes(
    repository: Repository, gone: Collection[bytes], lock: Lock, delete: Callable[[bytes], None]
) -> None:
    """Take packs out of the index and out of the vault where there is hardly any room.

    One index file at a time, the smallest first, and `delete` is called for a pack as soon as no index
    names it any more: what the first ones free makes room for the next. The order is the same as ever,
    so a kill loses nothing.
    """
    naming: dict[bytes, int] = {}
    files = sorted((size, name) for name, size in repository.storage.list(FileKind.INDEX))
    for _, name in files:
        for pack, _ in repository.load_index_file(name):
            naming[pack] = naming.get(pack, 0) + 1
    for _, name in files:
        packs = repository.load_index_file(name)
        going = [pack for pack, _ in packs if pack in gone]
        if not going:
            continue
        writer = IndexWriter(repository, lock)
        for pack, entries in packs:
            if pack not in gone:
                writer.add(pack, entries)
        writer.flush()
        lock.prove()
        repository.storage.delete(FileKind.INDEX, name)
        for pack in going:
            naming[pack] -= 1
            if not naming[pack]:
                delete(pack)


def _to_rewrite(
    repository: Repository, files: list[str], gone: Collection[bytes], merge: bool
) -> tuple[list[str], set[bytes]]:
    """The files to write again, and the packs that more than one file names."""
    first: dict[bytes, str] = {}
    doubled: set[bytes] = set()
    chosen: set[str] = set()
    thin: list[str] = []
    for name in files:
        packs = repository.load_index_file(name)
        for pack, _ in packs:
            if pack in gone:
                chosen.add(name)
            if pack in first:
                doubled.add(pack)
                chosen |= {name, first[pack]}
            first.setdefault(pack, name)
        if sum(len(entries) for _, entries in packs) < index_file.MOST_BLOBS // 2:
            thin.append(name)
    if (chosen or merge) and len(thin) > 1:
        chosen.update(thin)
    return [name for name in files if name in chosen], doubled


class IndexWriter:
    """Gathers packs and writes an index file whenever one is full."""

    def __init__(self, repository: Repository, lock: Lock) -> None:
        self._repository, self._lock = repository, lock
        self._packs: Packs = []
        self._blobs = 0
        self.written = 0

    def add(self, pack: bytes, entries: list[PackEntry]) -> None:
        if self._packs and self._blobs + len(entries) > index_file.MOST_BLOBS:
            self.flush()
        self._packs.append((pack, entries))
        self._blobs += len(entries)

    def flush(self) -> None:
        if not self._packs:
            return
        self._lock.prove()
        repository = self._repository
        save_file(repository.storage, repository.key, FileKind.INDEX, encode_index(self._packs))
        self.written += 1
        self._packs, self._blobs = [], 0
