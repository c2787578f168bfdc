"""The repository: one open vault, its blobs, trees, snapshots, keys and locks.

Promises kept here: nothing is read that was not authenticated; nothing is reported stored before
it is durable; damage in one file stops nothing that does not need that file.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from safekept.core.next_step import NextStep

from ..errors import KeyInUse, NoSuchKey, VaultDamaged, VaultReadOnly
from ..format.blobs import BlobKind, Location
from ..format.config import Config
from ..format.crypto import Key
from ..format.snapshot import BadSnapshot, Snapshot
from ..format.tree import BadTree, Node, Tree, decode_tree, find_node
from ..storage.base import FileKind, NotStored, Storage, stored_name
from .index import BadIndex, Index, Packs, decode_index, unindexed_packs
from .index_cache import IndexCache
from .keys import BadKeyFile, Cost, KeyFile, Secret, read_key_files
from .loader import BlobLoader
from .opening import add_key_file, copy_keys, make_beside, make_vault, open_vault
from .sealed_files import load_file, save_file

if TYPE_CHECKING:
    from .locks import Lock
    from .saver import BlobSaver

_STALE_CACHE = 16  # index files that are read beside the cache before it is rewritten


class Repository:
    """An open vault. Use `Repository.init` or `Repository.open`; close it, or use it in a `with`."""

    def __init__(self, storage: Storage, key: Key, config: Config, key_id: str, cache: str = "") -> None:
        self.storage, self.key, self.config, self.key_id = storage, key, config, key_id
        #: Index files that could not be read: name and reason. Reading goes on without them.
        self.damaged_indexes: dict[str, str] = {}
        #: A copy that is only read, in a place where no lock is to be written.
        self.without_lock = False
        self.loader = BlobLoader(self)
        self.cache_directory = cache
        self._cache = IndexCache(cache, key, config.id) if cache else None
        self._index: Index | None = None
        self._index_names: set[str] = set()
        self._rescue: Index | None = None
        self._mutex = threading.Lock()

    @classmethod
    def init(cls, storage: Storage, secret: Secret, *, cost: Cost | None = None, cache: str = "") -> Self:
        """Make an empty vault (version 2) and open it; finishes an init that was cut short."""
        return cls(storage, *make_vault(storage, secret, cost), cache)

    @classmethod
    def open(cls, storage: Storage, secret: Secret, *, cache: str = "") -> Self:
        """Open a vault. `cache` is a directory for what can be rebuilt; empty: no cache."""
        return cls(storage, *open_vault(storage, secret), cache)

    @classmethod
    def init_beside(cls, storage: Storage, other: Self, *, cache: str = "") -> Self:
        """Make an empty repository that opens with whatever opens another one, and open it."""
        return cls(storage, other.key, *make_beside(storage, other.storage, other.key), cache)

    def share_keys(self, other: Self) -> None:
        """Take over the key files of another repository of the same master key: as they are now."""
        if self.key == other.key:
            copy_keys(other.storage, self.storage)

    @property
    def id(self) -> str:
        return self.config.id

    @property
    def version(self) -> int:
        return self.config.version

    def close(self) -> None:
        self.loader.close()
        self.storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Locks and writing

    def lock(self, *, exclusive: bool = False, wait: float = 0.0) -> Lock:
        """Take a lock that restic honours and that honours restic's; release it, or use it in a `with`.

        Shared for snapshots and restores, exclusive for whatever deletes packs or rewrites snapshots.
        """
        from .locks import acquire

        lock = acquire(self.storage, self.key, exclusive=exclusive, wait=wait)
        # Before we had it, others may have added packs, or pruned some that our index still names.
        try:
            names = {name for name, _ in self.storage.list(FileKind.INDEX)}
            with self._mutex:
                if self._index is not None and names != self._index_names:
                    self._index = self._rescue = None
        except BaseException:
            lock.release()
            raise
        return lock

    def saver(self, lock: Lock | None, *, level: int = 3, workers: int = 2) -> BlobSaver:
        """The way to store blobs; see BlobSaver."""
        from .saver import BlobSaver

        self.require_writable()
        self.storage.keep_reserve()
        return BlobSaver(self, lock, level=level, workers=workers)

    def require_writable(self) -> None:
        if self.version < 2:
            raise VaultReadOnly.version_one(self.storage.location)

    # The index

    @property
    def index(self) -> Index:
        """Where blobs lie; loaded at first use. `reload_index` after waiting for another process."""
        with self._mutex:
            if self._index is None:
                self._index = self._load_index(self._cache)
            return self._index

    def reload_index(self, *, without_cache: bool = False) -> Index:
        with self._mutex:
            self._rescue = None
            self.damaged_indexes.clear()
            self._index = self._load_index(None if without_cache else self._cache)
            return self._index

    def sound_indexes(self) -> set[str]:
        """The index files that `index` was made of; whatever one of them named once, it names for ever."""
        with self._mutex:
            if self._index is None:
                self._index = self._load_index(self._cache)
            return self._index_names - self.damaged_indexes.keys()

    def use_index(self, index: Index, names: set[str]) -> None:
        """An index that was just built of exactly these index files, all of them sound."""
        with self._mutex:
            self._rescue = None
            self.damaged_indexes.clear()
            self._index, self._index_names = index, set(names)

    def index_written(self, index: Index, name: str) -> None:
        """An index file of ours was stored; what it names is in `index` already."""
        with self._mutex:
            if self._index is index:
                self._index_names.add(name)

    def _load_index(self, cache: IndexCache | None) -> Index:
        names = {name for name, _ in self.storage.list(FileKind.INDEX)}
        self._index_names = names
        index, covered = Index(), set[str]()
        if cache is not None and (found := cache.load(names)) is not None:
            index, covered = found
        missing = sorted(names - covered)
        if not covered:
            index = Index.build(pack for name in missing for pack in self._read_index(name))
        else:
            for name in missing:
                for pack, entries in self._read_index(name):
                    index.add(pack, entries)
        # Writing the cache costs as much as the whole index: not for every small snapshot.
        worth = not covered or len(missing) > _STALE_CACHE
        if cache is not None and missing and worth and not self.damaged_indexes:
            cache.save(index, names)
        return index

    def _read_index(self, name: str) -> Packs:
        try:
            return self.load_index_file(name)
        except VaultDamaged as error:
            self.damaged_indexes[name] = str(error.facts.get("reason", error.what))
        except NotStored:
            self._index_names.discard(name)  # replaced by maintenance meanwhile
        return []

    def load_index_file(self, name: str) -> Packs:
        """One index file; VaultDamaged or NotStored where it cannot be had."""
        try:
            return decode_index(load_file(self.storage, self.key, FileKind.INDEX, name))
        except BadIndex as error:
            raise VaultDamaged.file(stored_name(FileKind.INDEX, name), str(error)) from error

    def locations(self, kind: BlobKind, blob: bytes) -> list[Location]:
        """Every place of a blob; packs that no index names are searched when there is no other.

        So a restore works without a lost index file. Such packs are never counted as stored: `index`
        does not have them, and a new snapshot stores what it needs again.
        """
        found = self.index.lookup_all(kind, blob)
        if found:
            return found
        with self._mutex:
            if self._rescue is None:
                assert self._index is not None
                self._rescue = Index.build(unindexed_packs(self.storage, self.key, self._index))
            return self._rescue.lookup_all(kind, blob)

    # Blobs, trees, snapshots

    def load_blob(self, kind: BlobKind, blob: bytes) -> bytes:
        """The plain bytes of one blob, proven by its hash; VaultDamaged where it cannot be had."""
        return self.loader.load(kind, blob)

    def load_tree(self, blob: bytes) -> Tree:
        try:
            return decode_tree(self.loader.load(BlobKind.TREE, blob))
        except BadTree as error:
            raise VaultDamaged.blob("directory", blob.hex(), str(error)) from error

    def find_node(self, tree: bytes, name: str) -> Node | None:
        """One entry of a directory by its name; cheaper than the whole tree where that is large."""
        try:
            return find_node(self.loader.load(BlobKind.TREE, tree), name)
        except BadTree as error:
            raise VaultDamaged.blob("directory", tree.hex(), str(error)) from error

    def save_snapshot(self, snapshot: Snapshot) -> Snapshot:
        """Write a snapshot file. For new data use `BlobSaver.finish`, which keeps the order."""
        self.require_writable()
        name = save_file(self.storage, self.key, FileKind.SNAPSHOT, snapshot.to_json())
        return Snapshot.from_json(name, snapshot.to_json())

    def delete_snapshot(self, name: str) -> None:
        self.require_writable()
        self.storage.delete(FileKind.SNAPSHOT, name)

    def load_snapshot(self, name: str) -> Snapshot:
        """By its full id; NotStored where it is gone."""
        try:
            return Snapshot.from_json(name, load_file(self.storage, self.key, FileKind.SNAPSHOT, name))
        except BadSnapshot as error:
            raise VaultDamaged.file(stored_name(FileKind.SNAPSHOT, name), str(error)) from error

    # Keys

    def list_keys(self) -> list[KeyFile | tuple[str, str]]:
        """Every key file; one that cannot be read as its name and the reason."""
        return [
            (name, str(found)) if isinstance(found, BadKeyFile) else found
            for name, found in read_key_files(self.storage)
        ]

    def add_key(self, secret: Secret, *, cost: Cost | None = None, username: str = "") -> str:
        """One more secret that opens this vault; the id of its key file. `username` names it in lists."""
        self.require_writable()
        return add_key_file(self.storage, self.key, secret, cost, username)

    def remove_key(self, prefix: str) -> str:
        """Remove a key file by its id or the start of it; never the one that opened the vault."""
        self.require_writable()
        matches = [name for name, _ in self.storage.list(FileKind.KEY) if prefix and name.startswith(prefix)]
        if len(matches) != 1:
            raise NoSuchKey(
                f"{len(matches) or 'No'} keys of this vault start with `{prefix}`",
                kept="No key was removed",
                next_steps=(NextStep("vault key list", before="See the keys:"),),
            )
        if matches[0] == self.key_id:
            raise KeyInUse(
                f"The key {self.key_id[:8]} is the one that this vault was opened with",
                kept="No key was removed",
                next_steps=(NextStep("vault key renew", before="Put a new one in its place:"),),
            )
        self.storage.delete(FileKind.KEY, matches[0])
        return matches[0]
