"""What is known to be damaged in the store, for the next take, read or list.

Takes trust that what they stored is still there. A process that finds out otherwise, by reading or by looking
after the store, notes it here: packs that are named are asked last from then on and never built upon,
and a new mark makes every project look once whether anything that it counts on is missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Collection
from dataclasses import field
from typing import Any

from safekept.core.files.small import read_document, write_document
from safekept.core.records import dataclass

NAME = "damage.json"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Damage:
    """`mark` changes with every new finding; empty where there never was one."""

    mark: str = ""
    packs: dict[str, float] = field(default_factory=dict)  # name -> when it was found
    what: str = ""  # the last finding, in words
    time: float = 0.0


def read_damage(directory: str) -> Damage:
    """What was noted for the store under `directory`."""
    path = os.path.join(directory, NAME)
    if not os.path.lexists(path):
        return Damage()
    # Where it cannot be read, there was something to say: every reader looks once.
    return read_document(path, _damage, Damage(mark="unreadable"))


def _damage(fields: dict[str, Any]) -> Damage:
    packs = {str(name): float(when) for name, when in fields["packs"].items()}
    return Damage(str(fields["mark"]), packs, str(fields.get("what", "")), float(fields.get("time", 0)))


def note_damage(directory: str, packs: Collection[str], what: str) -> Damage:
    """Add a finding. What is known already changes nothing; a disk that takes nothing is no trouble."""
    known = read_damage(directory)
    fresh = set(packs) - known.packs.keys()
    if not fresh and (packs or what == known.what):
        return known
    now = time.time()
    there = {name: when for name, when in known.packs.items() if _there(directory, name)}
    found = Damage(os.urandom(8).hex(), {**there, **dict.fromkeys(sorted(fresh), now)}, what[:500], now)
    with contextlib.suppress(OSError):
        fields = {"mark": found.mark, "packs": found.packs, "what": found.what, "time": found.time}
        write_document(os.path.join(directory, NAME), fields)
    return found


def note_findings(directory: str, names: Collection[str]) -> None:
    """What maintenance could not read: files of packs, and objects by their names."""
    packs = {name.partition(".")[0] for name in names if name.startswith("pack-")}
    if packs:
        note_damage(directory, packs, f"{len(packs)} packs could not be read")
    elif names:
        note_damage(directory, (), f"{', '.join(sorted(names))} could not be read")


def current_damage(directory: str) -> Damage:
    """The same as `read_damage`, without packs that are gone by now."""
    known = read_damage(directory)
    there = {name: when for name, when in known.packs.items() if _there(directory, name)}
    return Damage(known.mark, there, known.what, known.time)


def pack_is_sound(stem: str) -> bool:
    """Whether a pack and its index are, byte for byte, what their checksums say."""
    try:
        with open(stem + ".idx", "rb") as file:
            index = file.read()
        if hashlib.sha1(index[:-20], usedforsecurity=False).digest() != index[-20:]:
            return False
        digest, tail = hashlib.sha1(usedforsecurity=False), b""
        with open(stem + ".pack", "rb") as file:
            while chunk := file.read(_CHUNK):
                tail += chunk
                digest.update(tail[:-20])
                tail = tail[-20:]
        return digest.digest() == tail == index[-40:-20]
    except OSError:
        return False


def _there(directory: str, name: str) -> bool:
    return os.path.exists(os.path.join(directory, "store", "objects", "pack", f"{name}.pack"))
