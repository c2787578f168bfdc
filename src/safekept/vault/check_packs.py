"""Reading one pack whole: its name, its header, the index and every blob must agree.

Each blob is judged for itself, so one flipped bit costs one blob and not the pack.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from safekept.vault.blobs import Buffer, PackEntry, blob_id
from safekept.vault.compression import BadCompression, decompress_many
from safekept.vault.crypto import Unauthentic
from safekept.vault.errors import VaultDamaged
from safekept.vault.findings import Report
from safekept.vault.pack import BadPack, read_header
from safekept.vault.storage.base import FileKind, NotStored, stored_name

if TYPE_CHECKING:
    from safekept.vault.repo import Repository


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
