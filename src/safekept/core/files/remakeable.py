"""Directories that can be made again: proven by a marker, each with its reason, as data.

`remakeable.toml` beside this file has the rows. A user's own are one line each: `out beside Makefile`, or
`with .my-cache` for whatever holds that file. A name alone proves nothing, for a person may have called
something of their own so; `__pycache__` is the one that nothing else uses.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from functools import cache

from ..records import dataclass
from .stable import READ


@dataclass(frozen=True, slots=True)
class Remakeable:
    """One row."""

    reason: str
    contains: str = ""  # a file right inside it
    signature: bytes = b""  # how that file must begin
    name: str = ""  # the directory's own name …
    beside: str = ""  # … and a file next to it; empty: the name is enough
    homes: bool = False  # left out of snapshots of agents' homes, too


class RemakeableTrees:
    """The shipped rows and a user's own, asked about one directory at a time."""

    def __init__(self, own: Sequence[str] = ()) -> None:
        rows = (*shipped(), *filter(None, map(parse_row, own)))
        self._named: dict[bytes, list[Remakeable]] = {}
        for row in rows:
            if row.name:
                self._named.setdefault(os.fsencode(row.name), []).append(row)
        self._containing = [row for row in rows if row.contains]

    def by_name(self, name: bytes, beside: Collection[bytes]) -> str:
        """Why a directory of this name, among these names, can be made again; "" where nothing proves it."""
        for row in self._named.get(name, ()):
            if not row.beside or os.fsencode(row.beside) in beside:
                return row.reason
        return ""

    def by_content(self, directory: int) -> str:
        """The same by what an open directory holds."""
        for row in self._containing:
            try:
                os.lstat(row.contains, dir_fd=directory)
            except OSError:
                continue
            if not row.signature or begins(directory, row.contains, row.signature):
                return row.reason
        return ""


@cache
def shipped() -> tuple[Remakeable, ...]:
    import tomllib

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "remakeable.toml")
    with open(path, "rb") as file:
        rows = tomllib.load(file)["tree"]
    return tuple(Remakeable(**{**row, "signature": row.get("signature", "").encode()}) for row in rows)


def parse_row(text: str) -> Remakeable | None:
    """A user's own row; None where it is none: then nothing more is left out."""
    words = text.split()
    if len(words) == 2 and words[0] == "with" and "/" not in words[1]:
        return Remakeable(f"your setting says so (it holds {words[1]})", contains=words[1])
    if len(words) == 3 and words[1] == "beside" and "/" not in words[0] + words[2]:
        reason = f"your setting says so ({words[2]} stands beside it)"
        return Remakeable(reason, name=words[0], beside=words[2])
    return None


def begins(directory: int, name: str, signature: bytes) -> bool:
    """Whether a file in an open directory begins so; False where it cannot be read."""
    try:
        descriptor = os.open(name, READ, dir_fd=directory)
    except OSError:
        return False
    try:
        return os.read(descriptor, len(signature)) == signature
    except OSError:
        return False
    finally:
        os.close(descriptor)
