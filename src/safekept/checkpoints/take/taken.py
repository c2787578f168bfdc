"""How a checkpoint is taken, what taking one came to, and what can be in the way."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep, Step
from safekept.core.records import dataclass

from ..checkpoint import Checkpoint, Skipped
from ..project import holds_too_much
from ..store.repository import StoreUnusable

if TYPE_CHECKING:
    from ..scan.hidden_left import HiddenLimits
    from ..scan.hidden_look import HiddenLook


class ProjectGone(SafekeptError):
    code = "project-gone"


class TooManyFiles(SafekeptError):
    code = "too-many-files"


class Guard(Protocol):
    """Knows what must not come into a store that is not encrypted."""

    def never(self, project: str) -> bool:
        """Whether no pass over this directory may be made: only named files are taken."""
        ...

    def secrets(self, project: str) -> Callable[[str], bool] | None:
        """What tells the secrets of an agent's home among resolved paths; None where there can be none."""
        ...

    def is_twin(self, status: os.stat_result) -> bool:
        """Whether a file with several names is such a secret."""
        ...


@dataclass(frozen=True, slots=True)
class PlainGuard:
    """One that can be sent to another process: it knows no layouts, only directories that hold too much."""

    forbidden: tuple[str, ...] = ()

    def never(self, project: str) -> bool:
        return holds_too_much(project, self.forbidden)

    def secrets(self, project: str) -> Callable[[str], bool] | None:
        return None

    def is_twin(self, status: os.stat_result) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class TakeSettings:
    """How checkpoints are taken."""

    max_file_size: int = 10 << 20  # bytes; 0: no limit
    max_files: int = 250_000  # stored files; beyond it only named files are taken; 0: no limit
    exclusions: tuple[str, ...] = ()  # beside the list of `rules`
    use_ignore: bool = True  # `.gitignore` in full passes
    lock_wait: float = 20.0  # seconds that another taker of the same project is waited for
    durable: bool = True  # survives a power cut, not only the end of the process
    #: Seconds that a call waits for the objects of the project's own repository; negative: none are kept.
    repository_wait: float = 0.4
    agent: str = ""  # whose turn it is, for `about.json`
    hidden: HiddenLimits | None = None  # how much of what is hidden is kept; None: nothing of it is looked at
    seat_belt: bool | None = None  # whether the store is closed between two; None: as it has it
    guard: Guard | None = field(default=None, compare=False)  # what is never taken; None: homes are unknown


@dataclass(frozen=True, slots=True)
class Taken:
    """What taking one came to. `checkpoint` is None when nothing changed since the last one."""

    checkpoint: Checkpoint | None
    latest: Checkpoint | None  # describes the project now: the new one, or the one before
    skipped: tuple[Skipped, ...] = ()  # named files that are not covered, and files that could not be read
    remarks: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)  # reason -> how many paths are not stored
    read: int = 0  # files that had to be read
    packs: int = 0  # packs in the store; many of them call for maintenance
    seconds: float = 0.0
    written: int = 0  # bytes added to the store
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)  # the first few of them
    hidden: HiddenLook | None = None  # what is hidden now; None: not looked at, or not in time
    repositories: tuple[str, ...] = ()  # `.git` of repositories inside the project: their files are kept


@dataclass(frozen=True, slots=True)
class Seen:
    """A project that was only looked at: what a checkpoint would hold, and what is hidden."""

    files: int
    bytes: int
    hidden: HiddenLook | None  # None: nothing hidden is kept by these settings


DEFAULTS = TakeSettings()


def project_gone(project: str, error: OSError) -> ProjectGone:
    return ProjectGone(
        f"`{project}` is no directory that can be read: {error.strerror or error}",
        kept="Nothing was taken; earlier checkpoints are not affected",
        next_steps=("Check that the directory is there and may be read",),
        project=project,
    )


def too_many_files(project: str, limit: int) -> TooManyFiles:
    return TooManyFiles(
        f"`{project}` has more than {limit:,} files to store",
        kept="Nothing was taken; files that a tool names are still taken one by one",
        next_steps=(
            "Leave directories out with `.gitignore` or the setting `checkpoints.exclude`",
            "Or raise the setting `checkpoints.max_files`",
        ),
        project=project,
        limit=limit,
    )


def store_unusable(directory: str, error: OSError) -> StoreUnusable:
    return StoreUnusable(
        f"The checkpoint could not be stored in `{directory}`: {error.strerror or error}",
        kept="The project was not touched; earlier checkpoints are not affected",
        next_steps=_ways_out(error.errno),
        path=directory,
    )


def _ways_out(number: int | None) -> tuple[Step, ...]:
    if number in (errno.ENOSPC, errno.EDQUOT):
        return (NextStep("checkpoint prune", before="Make room:"),)
    if number == errno.EPERM and os.geteuid() == 0:
        # The seat belt of root is an attribute, and only root outside may take it off.
        return (
            "A container, or the sandbox of an agent, cannot open what root closed: run the command outside",
            NextStep("settings", ("seat_belt", "false"), before="Or leave the stores open from now on:"),
        )
    return ("Make the place writable; the next turn tries again",)
