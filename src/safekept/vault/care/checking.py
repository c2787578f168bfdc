"""Is the vault whole? Structure always; every byte, or a share of the packs, on request.

The structure: every index, snapshot, mark and key file opens; every pack that an index names exists with
exactly the size that its blobs need; every directory can be read, and every blob that a file needs
is in the index. `read_data` reads packs whole: name, header, index and every blob must agree.
Nothing is changed, and no lock is needed beyond a shared one.
"""

from __future__ import annotations

import hashlib
import os
import random
from typing import TYPE_CHECKING

from safekept.core.events import Event, Listener, silent

from ..errors import VaultDamaged
from ..format.blobs import Buffer, PackEntry, blob_id
from ..format.compression import BadCompression, decompress_many
from ..format.crypto import Unauthentic
from ..format.pack import BadPack, encode_header, pack_size, read_header
from ..marks import mark_place, read_marks
from ..repo.keys import BadKeyFile, read_key_files
from ..repo.lock_file import read_locks
from ..snapshots import list_snapshots
from ..storage.base import FileKind, NotStored, stored_name
from .damage import Report, TreeCheck

if TYPE_CHECKING:
    from ..repo.repository import Repository


# Reading one pack whole: its name, its header, the index and every blob must agree. Each blob is judged
# for itself, so one flipped bit costs one blob and not the pack.


def check_pack(repository: Repository, report: Report, pack: bytes, entries: list[PackEntry]) -> None:
    """Read a pack and report what is wrong with it; a pack that looks bad is read a second time."""
    name = pack.hex()
    file = stored_name(FileKind.PACK, name)
    problems: list[str] = []
    bad: frozenset[bytes] = frozenset()
    for _ in range(2):  # a bad cable shows once, a bad disk twice
        try:
            data = repository.storage.read(FileKind.PACK, name)
        except NotStored:
            return  # reported as missing, or pruned meanwhile
        except VaultDamaged as error:
            # Somewhere in it; which pieces can still be read is found out by reading each.
            problems, bad = [str(error.facts["reason"])], _unreadable(repository, name, entries)
            continue
        report.bytes_read += len(data)
        problems, bad = _problems(repository, name, data, entries)
        if not problems:
            break
    report.packs_read += 1
    if problems:  # one finding, with all that it touches
        code = "blob-damaged" if bad else "pack-damaged"
        report.add(code, file, f"Pack {name[:8]}: {'; '.join(problems)}", blobs=bad)


def _unreadable(repository: Repository, name: str, entries: list[PackEntry]) -> frozenset[bytes]:
    bad = set()
    for entry in entries:
        try:
            stored = repository.storage.read(FileKind.PACK, name, entry.offset, entry.length)
        except (NotStored, VaultDamaged):
            stored = b""
        if not _sound(repository, stored, entry._replace(offset=0)):
            bad.add(entry.id)
    return frozenset(bad)


def _problems(
    repository: Repository, name: str, data: bytes, entries: list[PackEntry]
) -> tuple[list[str], frozenset[bytes]]:
    found = []
    bad = frozenset(entry.id for entry in entries if not _sound(repository, data, entry))
    if bad:
        found.append(f"{len(bad)} of {len(entries)} pieces cannot be read")
    try:
        header = read_header(repository.key, data, len(data))
        if header != entries:
            found.append("its header and the index say different things")
    except BadPack as error:
        found.append(str(error))
    if not found and hashlib.sha256(data).hexdigest() != name:
        found.append("its content does not match its name")
    return found, bad


def _sound(repository: Repository, data: bytes, entry: PackEntry) -> bool:
    view = memoryview(data)[entry.offset : entry.offset + entry.length]
    if len(view) != entry.length:
        return False
    try:
        body: Buffer = repository.key.open(view)
        if entry.plain:
            body = decompress_many([body], [entry.plain])[0]
    except (Unauthentic, BadCompression):
        return False
    return blob_id(body) == entry.id


def check(
    repository: Repository,
    *,
    read_data: float | None = None,
    seed: int | None = None,
    listener: Listener = silent,
) -> Report:
    """Look at everything; `read_data` is the share of the packs to read whole (1.0: all).

    A share is chosen at random (by `seed` where it must be repeatable), so that a small one every
    day comes round to every pack.
    """
    report = Report()
    # Snapshots are listed before the index is read: what a running snapshot adds is then not missed.
    snapshots, unreadable = list_snapshots(repository, cached=False)
    report.snapshots = len(snapshots)
    for name, reason in unreadable.items():
        text = f"Snapshot {name[:8]} cannot be read: {reason}"
        report.add("snapshot-unreadable", stored_name(FileKind.SNAPSHOT, name), text)
    for name, reason in read_marks(repository).damaged.items():
        text = f"Mark {name[:8]} cannot be read: {reason}; it may have kept a snapshot from going"
        report.add("mark-unreadable", mark_place(name), text)
    _check_keys(repository, report)
    _check_locks(repository, report)
    _check_indexes(repository, report)
    repository.reload_index(without_cache=True)
    sizes = dict(repository.storage.list(FileKind.PACK))
    _check_presence(repository, report, sizes)
    trees = TreeCheck(repository, report)
    for number, snapshot in enumerate(snapshots):
        listener(Event("check", number, len(snapshots), "snapshots"))
        trees.check(snapshot)
    if read_data is not None:
        chosen = _choose(repository.index.packs, sizes, read_data, seed)
        for pack, entries in repository.index.by_pack():
            if pack in chosen:
                listener(Event("read", report.packs_read, len(chosen), "packs"))
                check_pack(repository, report, pack, entries)
    trees.conclude(snapshots)
    return report


def _check_keys(repository: Repository, report: Report) -> None:
    for name, found in read_key_files(repository.storage):
        if isinstance(found, BadKeyFile):
            text = f"Key {name[:8]} cannot be read: {found}"
            report.add("key-unreadable", stored_name(FileKind.KEY, name), text)


def _check_locks(repository: Repository, report: Report) -> None:
    for lock in read_locks(repository.storage, repository.key):
        if lock.stale or lock.reason:
            text = f"A lock was left behind: {lock.holder}"
            report.add("lock-left-behind", stored_name(FileKind.LOCK, lock.id), text, note=True)


def _check_indexes(repository: Repository, report: Report) -> None:
    digests: dict[bytes, bytes] = {}  # pack -> a short digest of what the first index says of it
    for name, _ in repository.storage.list(FileKind.INDEX):
        try:
            found = repository.load_index_file(name)
        except VaultDamaged as error:
            reason = error.facts.get("reason", error.what)
            text = f"Index {name[:8]} cannot be read: {reason}; the packs themselves still name their blobs"
            report.add("index-unreadable", stored_name(FileKind.INDEX, name), text)
            continue
        except NotStored:
            continue
        for pack, entries in found:
            ordered = sorted(entries, key=lambda entry: entry.offset)
            digest = hashlib.blake2b(encode_header(ordered), digest_size=16).digest()
            if pack not in digests:
                digests[pack] = digest
                continue
            file = stored_name(FileKind.PACK, pack.hex())
            if digests[pack] == digest:
                text = f"Pack {pack.hex()[:8]} is in more than one index file"
                report.add("pack-indexed-twice", file, text, note=True)
            else:
                text = f"Two index files say different things of pack {pack.hex()[:8]}"
                report.add("index-disagrees", file, text)


def _check_presence(repository: Repository, report: Report, sizes: dict[str, int]) -> None:
    for pack, entries in repository.index.by_pack():
        report.packs += 1
        report.blobs += len(entries)
        name = pack.hex()
        file, blobs = stored_name(FileKind.PACK, name), frozenset(entry.id for entry in entries)
        size, expected = sizes.get(name), pack_size(entries)
        if size is None:
            text = f"Pack {name[:8]} is missing; it held {len(entries)} pieces"
            report.add("pack-missing", file, text, blobs=blobs)
        elif size != expected:
            # What lies before the cut can still be read; only what lies behind it is lost.
            cut = frozenset(entry.id for entry in entries if entry.offset + entry.length > size)
            text = f"Pack {name[:8]} has {size} bytes where {expected} are needed"
            report.add("pack-truncated", file, text, blobs=cut)
        if repository.version > 1 and len({entry.kind for entry in entries}) > 1:
            text = f"Pack {name[:8]} holds directories and data together"
            report.add("pack-mixed", file, text, note=True)
    for name, size in sizes.items():
        if not repository.index.has_pack(bytes.fromhex(name)):
            text = f"Pack {name[:8]} ({size} bytes) is in no index, and no snapshot needs it"
            report.add("pack-unreferenced", stored_name(FileKind.PACK, name), text, note=True)


def _choose(packs: list[bytes], sizes: dict[str, int], share: float, seed: int | None) -> set[bytes]:
    present = sorted(pack for pack in packs if pack.hex() in sizes)
    if share >= 1 or not present:
        return set(present)
    source = random.Random(seed if seed is not None else int.from_bytes(os.urandom(8)))
    return set(source.sample(present, min(len(present), max(1, round(len(present) * share)))))
