"""What one checkpoint holds: a directory of it, or one file. Nothing of the project itself is looked at."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from safekept.checkpoints.checkpoint import Checkpoint, FileState
from safekept.checkpoints.points import ReconstructedState, reconstruct_all
from safekept.checkpoints.store import Store
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ..base.context import UserContext
from .project import checkpoint_directory

#: A text beyond this is not for a screen.
LARGEST = 4 << 20


class NotInCheckpoint(SafekeptError):
    code = "not-in-checkpoint"


@dataclass(frozen=True, slots=True)
class PointEntry:
    """One name in a directory of a checkpoint."""

    name: str
    kind: str  # "file", "symlink" or "directory"
    size: int = 0
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class PointFile:
    """One file of a checkpoint; `text` is None where it is no text, or too much of it."""

    path: str
    state: FileState
    text: str | None


@dataclass(frozen=True, slots=True)
class OpenedPoint:
    """A checkpoint whose files can be read while its store is open."""

    store: Store
    point: Checkpoint
    files: dict[str, FileState]

    def has(self, path: str) -> bool:
        """Whether there is a file or directory of this name."""
        return path in self.files or bool(self._below(path))

    def look(self, path: str = "") -> list[PointEntry] | PointFile:
        """What is in a directory, or one file. Only names that the checkpoint has lead anywhere."""
        path = path.strip("/")
        state = self.files.get(path)
        if state is not None and state.kind != "directory":
            return PointFile(path, state, self._text(state))
        found = self._below(path)
        if path and state is None and not found:
            raise NotInCheckpoint(
                f"There is no `{path}` in {self.point.title}",
                kept="Nothing was changed",
                next_steps=(
                    NextStep("rollback", (self.point.id, "--diff"), before="See what changed since it:"),
                ),
            )
        return found

    def chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of a file."""
        found = self.look(path)
        if isinstance(found, PointFile):
            yield from self.store.stream(found.state.oid)

    def _below(self, path: str) -> list[PointEntry]:
        head, found = f"{path}/" if path else "", dict[str, PointEntry]()
        for name, state in self.files.items():
            if not name.startswith(head) or name == path:
                continue
            first, slash, _ = name[len(head) :].partition("/")
            if slash or state.kind == "directory":
                found[first] = PointEntry(first, "directory")
            else:
                found[first] = PointEntry(first, state.kind, state.size, state.mtime_ns)
        return sorted(found.values(), key=lambda one: (one.kind != "directory", one.name))

    def _text(self, state: FileState) -> str | None:
        if state.size > LARGEST:
            return None
        data = self.store.read(state.oid)
        if b"\0" in data:
            return None
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return None


@contextlib.contextmanager
def opened_point(context: UserContext, project: str, word: str) -> Iterator[OpenedPoint]:
    """Open a checkpoint of a project, by its id."""
    directory = checkpoint_directory(context)
    if not os.path.isdir(directory):
        raise NotInCheckpoint(
            f"There is no checkpoint `{word}` of `{project}`",
            kept="Nothing was changed",
            next_steps=(NextStep("checkpoint list", before="See which there are:"),),
        )
    with Store.open(directory) as store:
        point = store.find(project, word)
        known = {} if point.full else reconstruct_all(store, store.checkpoints(project), None)
        yield OpenedPoint(store, point, dict(known.get(point.id, ReconstructedState(point)).state(store)))
