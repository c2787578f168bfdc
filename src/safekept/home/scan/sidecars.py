"""The files that SQLite keeps beside a database: `-wal`, `-shm`, `-journal`.

Beside a real database they are left out: what is committed in them travels in the capture. Beside
a file that is no database they are ordinary files and stay with it. One whose database is missing
is left out if it really is SQLite's: put down beside another database later, it would be replayed
over it and destroy it.
"""

from __future__ import annotations

import os

SUFFIXES = ("-wal", "-shm", "-journal")
ORPHAN_REASON = "what is left of a database `{main}` that is not there; beside another one it would damage it"
_MAGIC = {
    "-wal": (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"),
    "-shm": (b"\x18\xe2\x2d\x00", b"\x00\x2d\xe2\x18"),
    "-journal": (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7",),
}


def main_of(name: str) -> str:
    """The name of the database that a sidecar of this name would belong to, or ""."""
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return ""


def sidecars_of(directory: int, name: str) -> tuple[os.stat_result | None, ...]:
    """What lies beside a database that its committed state depends on: its log and its journal."""
    found: list[os.stat_result | None] = []
    for suffix in ("-wal", "-journal"):
        try:
            found.append(os.stat(name + suffix, dir_fd=directory, follow_symlinks=False))
        except OSError:
            found.append(None)
    return tuple(found)


def is_sidecar(directory: int, name: str) -> bool:
    """Whether a file in an open directory begins as SQLite's own sidecars do."""
    try:
        descriptor = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory
        )
    except OSError:
        return False
    try:
        head = os.read(descriptor, 8)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return any(
        head.startswith(magic) for suffix in SUFFIXES if name.endswith(suffix) for magic in _MAGIC[suffix]
    )
