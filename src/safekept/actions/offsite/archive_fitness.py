"""Which archives may leave this host: sealed ones, unless a person confirmed that the place may read them.

Judged by the first bytes of a file, not by its name: a name proves nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator

from safekept.core.archive_names import is_archive_name
from safekept.core.errors import SafekeptError
from safekept.core.files.small import read_start
from safekept.core.next_step import NextStep
from safekept.core.objects.base import valid_name

#: What an archive in the clear starts with: zip, zstd.
_CLEAR = (b"PK\x03\x04", b"\x28\xb5\x2f\xfd")
#: What sealed files start with: age, age in letters, OpenPGP in letters.
_SEALED = (b"age-encryption.org/v1\n", b"-----BEGIN AGE ENCRYPTED FILE-----", b"-----BEGIN PGP MESSAGE-----")
#: OpenPGP packets that begin an encrypted message: a session key for a public key, or for a passphrase.
_OPENPGP = (0x84, 0x85, 0x86, 0x8C, 0x8D, 0x8E, 0xC1, 0xC3)


class ArchiveUnsealed(SafekeptError):
    code = "archive-unsealed"


class NotAnArchiveFile(SafekeptError):
    code = "not-an-archive-file"


def is_sealed(path: str) -> bool:
    """Whether only the key or passphrase opens this file, by its first bytes."""
    start = read_start(path, 64)
    if start.startswith(_SEALED):
        return True
    return bool(start) and start[0] in _OPENPGP and path.endswith((".gpg", ".pgp"))


def refuse_unfit(path: str, *, unsealed: bool = False) -> None:
    """Raise where this file is not to be sent: not an archive, or one that the place could read."""
    try:
        sealed = is_sealed(path)
        clear = read_start(path, 4).startswith(_CLEAR)
    except OSError as error:
        raise NotAnArchiveFile(
            f"`{path}` cannot be read: {error.strerror}",
            kept="Nothing was sent",
            next_steps=("Name an archive that you may read",),
        ) from error
    if not valid_name(os.path.basename(path)) or not (sealed or (clear and is_archive_name(path))):
        raise NotAnArchiveFile(
            f"`{path}` is not an archive that safekept sends",
            kept="Nothing was sent",
            next_steps=("Name an archive: `.zip`, `.tar.zst`, or one of them sealed (`.age`, `.gpg`)",),
        )
    if not sealed and not unsealed:
        raise ArchiveUnsealed(
            f"`{path}` is not sealed: those who run that place could read everything in it",
            kept="Nothing was sent",
            next_steps=(
                NextStep("backup", ("--seal", "RECIPIENT"), before="Make a sealed one:"),
                "Or, where the place is your own, send it with `--unsealed`, or set `unsealed = true` in the "
                "table of the destination",
            ),
            archive=path,
        )


def when(name: str) -> str:
    """The moment in an archive's name, `2026-11-15-033000`; empty where it has none."""
    match = re.search(r"\d{4}-\d{2}-\d{2}-\d{6}", name)
    return match[0] if match else ""


def pending(
    directory: str, there: Collection[tuple[str, int]], keep: int, *, unsealed: bool
) -> tuple[list[str], list[str]]:
    """The archives of a directory that are to be sent, oldest first, and those passed over as not sealed.

    `there`: name and size of those that arrived already. Only the newest `keep` count: older ones would be
    sent to be deleted again.
    """
    candidates, passed = [], []
    for path in _archives_in(directory):
        if not unsealed and not is_sealed(path):
            passed.append(path)
        else:
            candidates.append(path)
    candidates.sort(key=lambda path: (when(os.path.basename(path)), os.path.basename(path)))
    newest = candidates[-keep:] if keep else candidates
    missing = [path for path in newest if (os.path.basename(path), os.path.getsize(path)) not in there]
    return missing, passed


def _archives_in(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as listing:
            for item in sorted(listing, key=lambda item: item.name):
                if is_archive_name(item.name) and item.is_file(follow_symlinks=False) and item.stat().st_size:
                    yield item.path
    except OSError:
        return  # a directory that is not there holds no archives
