"""What of a project is kept, where, and what is not: the list to read before something is lost."""

from __future__ import annotations

import os
import stat
import time

from safekept.checkpoints.scan import LEFT_WORDS, REMAKEABLE, HiddenLook
from safekept.checkpoints.store import Store
from safekept.checkpoints.take import TakeSettings, look_now
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass

from ...base.context import UserContext
from ..checkpoint import project_around
from ..project import checkpoint_directory
from .record import hidden_directory, kept_looks, project_records
from .trouble import read_trouble

#: Counting what is left out must not take longer than looking at what is kept.
_MOST_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One path that is hidden and not kept."""

    path: str
    reason: str  # in words
    remakeable: bool
    files: int
    bytes: int
    whole: bool = True  # False: at least so many; it was not counted to the end

    def as_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class ProjectCoverage:
    """Both halves of a project."""

    project: str
    store: str
    visible_files: int
    visible_bytes: int
    hidden_store: str  # empty: the hidden half is switched off
    hidden_files: int
    hidden_bytes: int
    kept: bool  # the hidden files are kept as they are now
    trouble: str  # why not, the last time that it was tried
    left: tuple[LeftOut, ...]
    history_store: str = ""  # where histories of git repositories are; empty: none is kept

    @property
    def exposed(self) -> tuple[LeftOut, ...]:
        """What is not kept and cannot be made again."""
        return tuple(one for one in self.left if not one.remakeable)

    def as_dict(self) -> dict[str, object]:
        return {
            "project": self.project,
            "visible": {"store": self.store, "files": self.visible_files, "bytes": self.visible_bytes},
            "hidden": {
                "store": self.hidden_store,
                "files": self.hidden_files,
                "bytes": self.hidden_bytes,
                "kept": self.kept,
                "trouble": self.trouble,
            },
            "history": {"store": self.history_store, "encrypted": False},
            "left_out": [one.as_dict() for one in self.left],
        }


def coverage(
    context: UserContext, directory: str, settings: TakeSettings, listener: Listener = silent
) -> ProjectCoverage:
    """Look at a project; nothing is kept by it."""
    project = project_around(context, directory)
    place = checkpoint_directory(context)
    with Store.open(place, listener=listener) as store:
        seen = look_now(store, project, settings, listener)
    look = seen.hidden
    history = os.path.join(place, "repositories")
    history = history if os.path.isdir(history) else ""
    if look is None:
        return ProjectCoverage(
            project, store.repository, seen.files, seen.bytes, "", 0, 0, False, "", (), history
        )
    left = left_out(project, look)
    large = [one for path, one in look.left.items() if one[0] in ("too-large", "budget")]
    kept = look.id in kept_looks(context, project).looks
    return ProjectCoverage(
        project,
        store.repository,
        seen.files,
        seen.bytes,
        hidden_directory(context),
        look.folders.files() - len(large),
        look.folders.size() - sum(size for _, _, size in large),
        kept,
        "" if kept else read_trouble(project_records(context, project)).what,
        left,
        history,
    )


def left_out(project: str, look: HiddenLook, *, measure: bool = True) -> tuple[LeftOut, ...]:
    """What a look leaves out, the largest first; with `measure` directories are counted, for a moment."""
    deadline = time.monotonic() + (_MOST_SECONDS if measure else 0.0)
    found = []
    for raw, (reason, files, size) in look.left.items():
        path, whole = os.fsdecode(raw), True
        if not files and measure:
            files, size, whole = _tally(os.path.join(project, path), deadline)
        remakeable = reason.startswith(f"{REMAKEABLE}: ")
        words = reason.removeprefix(f"{REMAKEABLE}: ") if remakeable else LEFT_WORDS.get(reason, reason)
        found.append(LeftOut(path, words, remakeable, files, size, whole))
    return tuple(sorted(found, key=lambda one: (one.remakeable, -one.bytes, one.path)))


def _tally(path: str, deadline: float) -> tuple[int, int, bool]:
    """Files and bytes at and below a path, and whether all were counted."""
    files = size = 0
    waiting = [path]
    while waiting:
        place = waiting.pop()
        try:
            status = os.lstat(place)
            if not stat.S_ISDIR(status.st_mode):
                files, size = files + 1, size + status.st_size
                continue
            with os.scandir(place) as listing:
                for entry in listing:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        files, size = files + 1, size + entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
        if time.monotonic() > deadline:
            return files, size, not waiting
    return files, size, True
