"""Reading one pack whole: its name, its header, the index and every blob must agree.

Each blob is judged for itself, so one flipped bit costs one blob and not the pack.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from holdfast.vault.blobs import Buffer, PackEntry, blob_id
from holdfast.vault.compression import BadCompression, decompress_many
from holdfast.vault.crypto import Unauthentic
from holdfast.vault.errors import VaultDamaged
from holdfast.vault.findings import Report
from holdfast.vault.pack import BadPack, read_header
from holdfast.vault.storage.base import FileKind, NotStored, stored_name

if TYPE_CHECKING:
    from holdfast.vault.repo import Repository


def check_pack(repository: Repository, report: Report, pack: bytes, entries: list[PackEntry]) -> None:
    """Read a pack and report what is wrong with it; a pack that looks bad is read a second time."""
    name = pack.hex()
    file = stored_name(FileKind.PACK, name)
    problems: dict[str, frozenset[bytes]] = {}
    for _ in range(2):  # a bad cable shows once, a bad disk twice
        try:
            data = repository.storage.read(FileKind.PACK, name)
        except NotStored:
            return  # reported as missing, or pruned meanwhile
        except VaultDamaged as error:
            # Somewhere in it; which pieces can still be read is found out by reading each.
            problems = {str(error.facts["reason"]): _unreadable(repository, name, entries)}
            continue
        report.bytes_read += len(data)
        problems = _problems(repository, name, data, entries)
        if not problems:
            break
    report.packs_read += 1
    for text, blobs in problems.items():
        code = "blob-damaged" if blobs else "pack-damaged"
        report.add(code, file, f"Pack {name[:8]}: {text}", blobs=blobs)


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
) -> dict[str, frozenset[bytes]]:
    if hashlib.sha256(data).hexdigest() == name:
        found: dict[str, frozenset[bytes]] = {}
    else:
        found = {"its content does not match its name": frozenset()}
    bad = {entry.id for entry in entries if not _sound(repository, data, entry)}
    if bad:
        found[f"{len(bad)} of {len(entries)} pieces cannot be read"] = frozenset(bad)
    try:
        header = read_header(repository.key, data, len(data))
        if header != entries:
            found["its header and the index say different things"] = frozenset()
    except BadPack as error:
        found[str(error)] = frozenset()
    return found


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
