"""Search indexes that are filled behind a landing: which, and how far that is.

A note in the landing's own directory says it, written before the landing is committed. It counts while the
home has the database that this landing put there: not after it was taken back or replaced by another one, and
again when that is taken back.

The filling process holds the area's lock for moments only, and no database of the home in between. So a
landing finds every database free, and never meets half a transaction of ours.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from safekept.core.errors import BAD_SHAPE
from safekept.core.files.small import read_document, write_document
from safekept.core.locks import AlreadyRunning, lock_is_held, process_lock
from safekept.core.records import dataclass
from safekept.core.sqlite.lean import Recipe

from ..owner import worker_for
from .area import INTENT, LANDED, Area, LandingDirectory, existing_areas
from .record import read_record
from .recovery import PastLanding, landings

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Unfilled:
    """One database whose search indexes are not whole yet."""

    path: str  # in the home
    recipes: tuple[Recipe, ...]
    seconds: float  # about so long
    wrong: str = ""  # why the last try gave up

    def as_dict(self) -> dict[str, object]:
        recipes = [asdict(one) for one in self.recipes]
        return {"path": self.path, "recipes": recipes, "seconds": self.seconds, "wrong": self.wrong}


def _unfilled_from(fields: Any) -> Unfilled:
    recipes = tuple(Recipe(**{**one, "triggers": tuple(one["triggers"])}) for one in fields["recipes"])
    return Unfilled(str(fields["path"]), recipes, float(fields["seconds"]), str(fields["wrong"]))


@dataclass(frozen=True, slots=True)
class SearchNote:
    """What one landing left to be filled."""

    directory: LandingDirectory
    databases: tuple[Unfilled, ...]

    def write(self) -> None:
        document = {"version": _VERSION, "databases": [one.as_dict() for one in self.databases]}
        write_document(self.directory.search_note, document, durable=False)

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.directory.search_note)


def unfilled(home: str) -> list[SearchNote]:
    """What is left to be filled in this home, oldest first; nothing of another user's home."""
    if worker_for(home) is not None:
        return []
    directories = [one for area in existing_areas(home) for one in area.all()]
    notes = [_read(directory) for directory in directories if directory.state == LANDED]
    found = [note for note in notes if note.databases]
    past = landings(home) if found else []
    return [note for note in found if _is_there(note, past)]


def _is_there(note: SearchNote, past: Sequence[PastLanding]) -> bool:
    """Whether the home has what this landing put there, after all that landed and was undone since."""
    operation, paths = note.directory.operation, {one.path for one in note.databases}
    before: dict[str, str] = {}
    there = ""
    for landing in past:
        before[landing.operation] = there
        if landing.operation == operation or _touches(landing, paths):
            there = before.get(landing.undoes, "") if landing.undoes else landing.operation
    return there == operation or operation not in before


def _touches(landing: PastLanding, paths: set[str]) -> bool:
    try:
        steps = read_record(landing.directory.record).steps
    except (OSError, *BAD_SHAPE):
        return False
    return any(step.entry in paths and not step.root for step in steps)


def _read(directory: LandingDirectory) -> SearchNote:
    def parse(document: Any) -> tuple[Unfilled, ...]:
        if document["version"] != _VERSION:
            return ()
        return tuple(map(_unfilled_from, document["databases"]))

    return SearchNote(directory, read_document(directory.search_note, parse, ()))


def is_filling(home: str) -> bool:
    """Whether a process is at it."""
    return any(lock_is_held(area.search_lock) for area in existing_areas(home))


@contextlib.contextmanager
def only_filler(home: str) -> Iterator[Sequence[Area]]:
    """For as long as this process fills indexes of this home. Raises AlreadyRunning: another one does."""
    with contextlib.ExitStack() as stack:
        areas = existing_areas(home)
        for area in areas:
            stack.enter_context(process_lock(area.search_lock, "search"))
        yield areas


@contextlib.contextmanager
def no_landing(areas: Sequence[Area], wait: float) -> Iterator[bool]:
    """Nothing lands meanwhile. Whether the home is whole: not while a landing is half way."""
    with contextlib.ExitStack() as stack:
        for area in areas:
            stack.enter_context(area.lock("search", wait))
        yield not any(directory.state == INTENT for area in areas for directory in area.all())


@contextlib.contextmanager
def no_filling(home: str) -> Iterator[None]:
    """While it is asked who has databases open: the one that fills an index does not count."""
    with contextlib.ExitStack() as stack:
        for area in existing_areas(home) if is_filling(home) else ():
            with contextlib.suppress(AlreadyRunning):  # a landing: it is said when this one would begin
                stack.enter_context(area.lock("plan"))
        yield
