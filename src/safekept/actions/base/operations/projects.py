"""What the journal says of projects: checkpoints, rollbacks, and agents that ran in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from safekept.core.records import dataclass

from .facts import Facts, counted, documented


@dataclass(kw_only=True, slots=True)
class CheckpointFacts(Facts):
    """A checkpoint that was asked for by hand."""

    verb: ClassVar[str] = "checkpoint"

    project: str | None = documented()
    id: str | None = documented()
    reason: str | None = None  # as it was given
    skipped: int | None = counted()
    hidden: int | None = documented("hidden_files")  # how many the hidden half holds; None: it is not kept


@dataclass(kw_only=True, slots=True)
class RollbackFacts(Facts):
    """A project that went back to a checkpoint. Counts and ids, not ten thousand paths."""

    verb: ClassVar[str] = "rollback"

    project: str | None = documented()
    target: str | None = None  # documents have the whole of it
    undo: str | None = documented()  # the checkpoint that was taken before it
    files: tuple[str, ...] | None = None  # that were named; none: all
    restored: int | None = counted()
    removed: int | None = counted()
    kept: int | None = None  # of what is left: what was changed since
    left: int | None = counted()
    directory: str | None = None  # where the one who asked for it stood
    rebuild: str | None = None  # the rebuild that brought the project back by it
    repository: int | None = None  # items of the project's own repository that were put back


@dataclass(kw_only=True, slots=True)
class RollbackUndoFacts(RollbackFacts):
    """A rollback that was taken back."""

    verb: ClassVar[str] = "rollback-undo"


@dataclass(kw_only=True, slots=True)
class TurnRollbackFacts(Facts):
    """One turn that went back, in every project and home; its parts have lines of their own."""

    verb: ClassVar[str] = "rollback-turn"

    turn: str | None = documented()  # its short id
    places: tuple[str, ...] | None = documented()  # that were changed
    missed: tuple[str, ...] | None = documented()  # where it did not come back
    restored: int | None = counted()
    removed: int | None = counted()
    left: int | None = counted()
    directory: str | None = None  # where the one who asked for it stood
    undoes: str | None = documented()


@dataclass(kw_only=True, slots=True)
class TurnRollbackUndoFacts(TurnRollbackFacts):
    """A rollback of a turn that was taken back."""

    verb: ClassVar[str] = "rollback-turn-undo"


@dataclass(kw_only=True, slots=True)
class CheckpointsPruneFacts(Facts):
    """Checkpoints that the limits dropped."""

    verb: ClassVar[str] = "checkpoints-prune"

    dropped: int | None = documented()
    orphans: tuple[str, ...] | None = None
    size_before: int | None = documented()
    size_after: int | None = documented()
    kept_until: float | None = documented()  # until when it can be brought back; 0: it is gone for good


@dataclass(kw_only=True, slots=True)
class CheckpointsClearFacts(CheckpointsPruneFacts):
    """Checkpoints of a project, or of all, that were dropped by hand."""

    verb: ClassVar[str] = "checkpoints-clear"


@dataclass(kw_only=True, slots=True)
class LegacyClearFacts(Facts):
    """Archives of Hermes's older stores that were deleted."""

    verb: ClassVar[str] = "checkpoints-clear-legacy"

    archives: int | None = documented()
    bytes: int | None = documented()
    kept_until: float | None = documented()  # until when they can be brought back; 0: they are gone for good


@dataclass(kw_only=True, slots=True)
class CheckpointsAdoptFacts(Facts):
    """Checkpoints that were taken over from a store of Hermes's."""

    verb: ClassVar[str] = "checkpoints-adopt"

    source: str | None = documented()
    checkpoints: int | None = None
    lost: int | None = None
    legacy: str | None = None


@dataclass(kw_only=True, slots=True)
class RunFacts(Facts):
    """An agent that ran with its project watched."""

    verb: ClassVar[str] = "run"

    seconds: float | None = None  # of all of it
    project: str | None = documented()
    command: str | None = None  # the agent's name
    session: str | None = documented()
    checkpoint: str | None = documented()
    snapshot: str | None = documented()
    status: int | None = documented()
    command_seconds: float | None = documented("seconds")
    points: int | None = None
    files: int | None = None
    missing: int | None = None
    problems: tuple[Mapping[str, object], ...] | None = None
