"""Marks: what is said of a snapshot after it was made: pinned, proven, forgotten. Its id never changes.

A mark is a small sealed record of its own under `safekept/marks/`, a directory that restic passes over. It is
written once and never changed; of several that say something of one snapshot under one name, the newest wins.
So a mirror that can only add carries them, and two copies of a vault agree once each has the other's. Earlier
versions wrote tags instead; a tag counts where no mark of its name does.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.errors import BAD_SHAPE
from safekept.core.records import dataclass

from .errors import VaultDamaged
from .format.go_text import format_time, parse_time
from .format.snapshot import Snapshot
from .repo.sealed_files import load_file, save_file
from .storage.base import FileKind, NotStored, Storage, stored_name

if TYPE_CHECKING:
    from .format.crypto import Key
    from .repo.repository import Repository

VERSION = 1
#: How often a listing is made again because a prune took away what it named.
_LOOKS = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that was said of one snapshot."""

    snapshot: str  # the id that people see
    name: str  # PIN, PROVEN or FORGOTTEN of tags.py
    value: str | None  # what stands after the colon of a tag; None: no longer
    time_ns: int
    id: str = ""  # its file's name, empty until it is stored

    @property
    def about(self) -> tuple[str, str]:
        return self.snapshot, self.name

    @property
    def age(self) -> tuple[int, str]:
        """What a newer one has more of; the name of the file decides where two were written at once."""
        return self.time_ns, self.id

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "version": VERSION,
                "snapshot": self.snapshot,
                "mark": self.name,
                "value": self.value,
                "time": format_time(self.time_ns, 0),
            }
        ).encode()

    @classmethod
    def from_json(cls, name: str, text: bytes) -> Mark | None:
        """None for one of a later version, which says something that we cannot know."""
        fields = json.loads(text)
        if fields["version"] != VERSION:
            return None
        value = fields["value"]
        return cls(
            str(fields["snapshot"]),
            str(fields["mark"]),
            None if value is None else str(value),
            parse_time(fields["time"])[0],
            name,
        )


@dataclass(slots=True)
class Marks:
    """Every mark of a vault."""

    newest: dict[tuple[str, str], Mark] = field(default_factory=dict)
    replaced: list[Mark] = field(default_factory=list)  # a newer one says something else, or the same again
    damaged: dict[str, str] = field(default_factory=dict)  # files that cannot be read: name and reason
    texts: dict[str, str] = field(default_factory=dict)  # every file that can be, for a cache

    def add(self, mark: Mark) -> None:
        standing = self.newest.get(mark.about)
        if standing is None:
            self.newest[mark.about] = mark
        elif standing.id != mark.id:
            older, newer = sorted((standing, mark), key=lambda one: one.age)
            self.newest[mark.about] = newer
            self.replaced.append(older)

    def on(self, snapshots: Iterable[Snapshot]) -> list[Snapshot]:
        """The snapshots, each with what was said of it."""
        state: dict[str, dict[str, str | None]] = {}
        for (snapshot, name), mark in self.newest.items():
            state.setdefault(snapshot, {})[name] = mark.value
        return [
            dataclasses.replace(one, marks=state[called]) if (called := _called(one)) in state else one
            for one in snapshots
        ]

    def over(self, snapshots: Iterable[Snapshot]) -> list[str]:
        """The files of marks that mean nothing any more while these are the snapshots of the vault."""
        there = {_called(one) for one in snapshots}
        gone = [mark for mark in self.newest.values() if mark.snapshot not in there]
        return [mark.id for mark in [*self.replaced, *gone]]


def _called(snapshot: Snapshot) -> str:
    return snapshot.public or snapshot.original or snapshot.id


def read_marks(repository: Repository, known: Mapping[str, str] | None = None) -> Marks:
    """Every mark of a vault; `known` are texts of files that were read before, by their names."""
    return marks_in(repository.storage, repository.key, known or {})


def marks_in(storage: Storage, key: Key, known: Mapping[str, str] | None = None) -> Marks:
    """The same of any place that holds a copy of the vault with this key."""
    for _ in range(_LOOKS - 1):
        try:
            return _read(storage, key, known or {})
        except NotStored:
            continue  # replaced by a newer one meanwhile, which the next listing has
    return _read(storage, key, known or {}, passing_over=True)


def _read(storage: Storage, key: Key, known: Mapping[str, str], *, passing_over: bool = False) -> Marks:
    marks = Marks()
    for name, _ in list(storage.list(FileKind.MARK)):
        try:
            text = known[name] if name in known else load_file(storage, key, FileKind.MARK, name).decode()
            mark = Mark.from_json(name, text.encode())
        except VaultDamaged as error:
            marks.damaged[name] = str(error.facts.get("reason", error.what))
            continue
        except BAD_SHAPE as error:
            marks.damaged[name] = f"not a mark: {error}"
            continue
        except NotStored:
            if passing_over:
                continue
            raise
        marks.texts[name] = text
        if mark is not None:
            marks.add(mark)
    return marks


def write_mark(repository: Repository, mark: Mark) -> Mark:
    """Store one mark; durable when this returns."""
    repository.require_writable()
    name = save_file(repository.storage, repository.key, FileKind.MARK, mark.to_json())
    return dataclasses.replace(mark, id=name)


def delete_mark(repository: Repository, name: str) -> None:
    repository.require_writable()
    repository.storage.delete(FileKind.MARK, name)


def mark_place(name: str) -> str:
    """The file of a mark below the root of the vault."""
    return stored_name(FileKind.MARK, name)
