"""Which looks at hidden files are kept, and by which snapshot: one line each in `hidden.jsonl` of a project.

A checkpoint names a look. A look that has no line here was not kept, or not yet. One that was kept a moment
after a checkpoint speaks for it, too, if nothing hidden changed in between: every file has a time of its
last change. The lines can be lost: each snapshot says itself which look it holds.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from safekept.core.errors import BAD_SHAPE
from safekept.core.files import durable_write, write_all
from safekept.core.platform.syncing import sync_file
from safekept.core.records import dataclass

from ..checkpoint import Checkpoint

NAME = "hidden.jsonl"


@dataclass(frozen=True, slots=True)
class KeptLook:
    """One look that is kept."""

    look: str
    snapshot: str  # empty: there was nothing hidden
    time_ns: int  # when it was kept
    since_ns: int  # since when nothing of it had changed
    files: int = 0
    bytes: int = 0
    moved: tuple[str, ...] = ()  # files that changed while they were kept: they may be younger than the look
    left: tuple[tuple[str, str], ...] = ()  # what was there and was not kept: path and reason, the largest
    missing: tuple[str, ...] = ()  # what could not be read, or was locked: it is not in the snapshot

    def as_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


class KeptHidden:
    """The lines of one project, by look; of two about one look the later counts."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, NAME)
        self.looks: dict[str, KeptLook] = {}
        with contextlib.suppress(OSError):
            with open(self.path, "rb") as file:
                lines = file.readlines()
            for line in lines:
                with contextlib.suppress(*BAD_SHAPE):
                    one = _read(json.loads(line))
                    self.looks[one.look] = one

    def of(self, point: Checkpoint) -> KeptLook | None:
        """What holds the hidden half of a checkpoint; None where nothing does."""
        if point.hidden:
            return self.looks.get(point.hidden)
        if not point.full:
            return None
        later = [one for one in self.looks.values() if one.since_ns < point.time_ns <= one.time_ns]
        return min(later, key=lambda one: one.time_ns, default=None)

    def add(self, one: KeptLook) -> None:
        """Durable when this returns: what it names is."""
        self.looks[one.look] = one
        line = b"\n" + json.dumps(one.as_dict()).encode() + b"\n"
        descriptor = os.open(
            self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            write_all(descriptor, line)
            sync_file(descriptor)
        finally:
            os.close(descriptor)

    def keep_only(self, wanted: Callable[[KeptLook], bool]) -> list[KeptLook]:
        """Drop the lines of looks that are not wanted any more; those that went."""
        gone = [one for one in self.looks.values() if not wanted(one)]
        if gone:
            self.looks = {look: one for look, one in self.looks.items() if wanted(one)}
            durable_write(self.path, _lines(self.looks.values()))
        return gone

    def drop(self, snapshot: str) -> None:
        """Drop the lines of one snapshot."""
        self.keep_only(lambda one: one.snapshot != snapshot)


def _read(fields: Mapping[str, Any]) -> KeptLook:
    """One line. Raises one of BAD_SHAPE."""
    look, snapshot = fields["look"], fields["snapshot"]
    moved, missing = tuple(fields.get("moved", ())), tuple(fields.get("missing", ()))
    time_ns, since_ns = fields["time_ns"], fields["since_ns"]
    files, size = fields.get("files", 0), fields.get("bytes", 0)
    left = tuple((path, reason) for path, reason in fields.get("left", ()))
    named = (look, snapshot, *moved, *missing, *(one for row in left for one in row))
    if not all(isinstance(one, str) for one in named):
        raise TypeError("a name that is none")
    if not all(type(one) is int for one in (time_ns, since_ns, files, size)):
        raise TypeError("a number that is none")
    return KeptLook(look, snapshot, time_ns, since_ns, files, size, moved, left, missing)


def _lines(looks: Iterable[KeptLook]) -> bytes:
    return b"".join(json.dumps(one.as_dict()).encode() + b"\n" for one in looks)
