"""Which packs a project's cache counts on.

Objects vanish only with the pack that holds them. As long as every pack named here is there, nothing of
what the cache describes can be missing; once one is gone, by maintenance or by accident, the objects are
looked up one by one, and the record begins anew. Names are added before the cache is written, so there
may be one too many, never one too few.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection

from holdfast.core.files import temporary_name

NAME = "packs"


def read_record(directory: str) -> set[str] | None:
    """The names; None where there is no record, and nothing can be said."""
    with contextlib.suppress(OSError), open(os.path.join(directory, NAME), "rb") as file:
        return set(os.fsdecode(file.read()).split("\n")) - {""}
    return None


def add_to_record(directory: str, pack: str) -> None:
    """One more pack. In front of it a line feed, lest a torn name swallow it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(os.path.join(directory, NAME), flags, 0o600)
    try:
        os.write(descriptor, b"\n" + os.fsencode(pack) + b"\n")
    finally:
        os.close(descriptor)


def write_record(directory: str, packs: Collection[str]) -> None:
    """Begin anew with these."""
    temporary = temporary_name(directory)
    try:
        with open(temporary, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(b"".join(os.fsencode(name) + b"\n" for name in sorted(packs)))
        os.rename(temporary, os.path.join(directory, NAME))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
