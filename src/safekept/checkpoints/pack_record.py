"""Which packs a project's cache counts on, and what they looked like.

Objects vanish only with the pack that holds them. As long as every pack named here is there and looks as
it did, nothing of what the cache describes can be missing; once one is gone or was written to, the
objects are looked up one by one, and the record begins anew. Names are added before the cache is
written, so there may be one too many, never one too few.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from dataclasses import dataclass, field

from safekept.core.files import quick_write

NAME = "packs"
GONE = "missing"
_MARK = "damage="


@dataclass(slots=True)
class PackRecord:
    """`packs`: name -> its looks; empty where they were not recorded. `mark`: the last damage known."""

    packs: dict[str, str] = field(default_factory=dict)
    mark: str = ""


def looks_of(place: str, pack: str) -> str:
    """Size and time of both files, as one word. A pack is never written to once it has its name."""
    words = []
    for suffix in (".pack", ".idx"):
        try:
            facts = os.stat(os.path.join(place, pack + suffix))
        except OSError:
            return GONE
        words.append(f"{facts.st_size}:{facts.st_mtime_ns}")
    return ":".join(words)


def read_record(directory: str) -> PackRecord | None:
    """The record; None where there is none, and nothing can be said."""
    record = PackRecord()
    with contextlib.suppress(OSError), open(os.path.join(directory, NAME), "rb") as file:
        for line in os.fsdecode(file.read()).split("\n"):
            if line.startswith(_MARK):
                record.mark = line[len(_MARK) :]
            elif line:
                name, _, looks = line.partition(" ")
                record.packs[name] = looks
        return record
    return None


def add_to_record(directory: str, place: str, pack: str) -> None:
    """One more pack, of those in `place`. In front of it a line feed, lest a torn name swallow it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(os.path.join(directory, NAME), flags, 0o600)
    try:
        os.write(descriptor, os.fsencode(f"\n{pack} {looks_of(place, pack)}\n"))
    finally:
        os.close(descriptor)


def write_record(directory: str, place: str, packs: Collection[str], mark: str) -> None:
    """Begin anew with these."""
    lines = [f"{name} {looks_of(place, name)}\n" for name in sorted(packs)]
    quick_write(os.path.join(directory, NAME), os.fsencode("".join([f"{_MARK}{mark}\n", *lines])))
