"""What the functions return: small values, made once, never changed."""

from __future__ import annotations

from dataclasses import field

from safekept.core.records import dataclass


@dataclass(frozen=True, slots=True)
class Missing:
    """A path that is not there as it should be, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One point in time of a home, in the vault."""

    id: str
    home: str
    kind: str  # manual, quick, scheduled, pre-update, …
    label: str
    time: str  # as ISO 8601
    files: int | None
    bytes: int | None
    complete: bool
    number: int | None = None  # in the list, newest first; it moves on with every snapshot
    pinned: bool = False
    missing: tuple[Missing, ...] = ()  # what was selected and is not in it, or is damaged

    @property
    def restore_command(self) -> str:
        """The command that brings all of it back, for a person."""
        from safekept.core.spelling import shell_line

        return shell_line(["safekept", "snapshot", "restore", self.id[:8], "--home", self.home])


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What a restore or an import would do, or did. Paths are relative to the home."""

    home: str
    create: tuple[str, ...]
    replace: tuple[str, ...]
    remove: tuple[str, ...]
    same: int  # files that are already as they should be
    outside: tuple[str, ...] = ()  # full paths outside the home
    obstacles: tuple[str, ...] = ()  # why it would be refused as things are now
    needs_consent: tuple[str, ...] = ()  # why `yes=True` is needed
    missing: tuple[Missing, ...] = ()  # what the source itself lacks

    @property
    def changes(self) -> int:
        """How many files would be made, replaced or removed."""
        return len(self.create) + len(self.replace) + len(self.remove)


@dataclass(frozen=True, slots=True)
class Restored:
    """A restore or an import: its plan, and with `done` what came of it."""

    source: str  # the id of the snapshot, or the archive
    plan: RestorePlan
    done: bool = False  # False: it was a dry run, and nothing was changed
    operation: str = ""  # for `safekept.undo`
    created: int = 0
    replaced: int = 0
    removed: int = 0
    complete: bool = True
    lost: tuple[Missing, ...] = ()  # what could not be brought back
    notes: tuple[str, ...] = ()  # in sentences: agents that stay connected, and hints


@dataclass(frozen=True, slots=True)
class Archive:
    """A home in one file; or what one would hold, where `done` is False."""

    path: str
    home: str
    files: int
    bytes: int
    done: bool
    operation: str = ""
    complete: bool = True
    missing: tuple[Missing, ...] = ()
    rotated: tuple[str, ...] = ()  # older archives that `keep` let go


@dataclass(frozen=True, slots=True)
class Version:
    """One content that a file of a home had."""

    snapshot: str  # the newest one that holds it: restore it from there
    size: int
    mode: int
    mtime_ns: int
    first_seen: str
    last_seen: str
    now: bool  # the file is this one at present
    diff: str = ""  # from the version before it, where that was asked for


@dataclass(frozen=True, slots=True)
class Undone:
    """What was taken back, or would be, where `done` is False."""

    undoes: str  # the operation
    verb: str  # what it was: restore, import, rollback, …
    place: str  # the home or the project
    done: bool
    operation: str = ""  # of the undo itself
    complete: bool = True
    returns: tuple[str, ...] = ()
    goes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # in sentences: agents that stay connected
    newer_elsewhere: str = ""  # the last change of all, where one where the program stands was meant instead


@dataclass(frozen=True, slots=True)
class Point:
    """One checkpoint of a project, as the list has it."""

    id: str
    project: str  # of the kind `home`: the agent's home
    number: int | None  # None: no number leads to it
    time_ns: int
    kind: str  # before, manual, after, undo; home: files of an agent's home, kept in the vault
    reason: str
    session: str = ""
    turn: str = ""
    changed: int | None = None  # files changed after it; None: not counted
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed in a project since a checkpoint. `str()` of it is the text."""

    project: str
    checkpoint: str
    files: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Step:
    """One path of a rollback: what was done to it, or would be."""

    path: str
    action: str  # restore, recreate, remove, metadata, make-directory, …


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A rollback, or with `done` False its plan."""

    project: str
    checkpoint: str
    done: bool
    steps: tuple[Step, ...]
    left: tuple[Missing, ...] = ()  # what differs and stays as it is
    complete: bool = True
    operation: str = ""
    not_covered: tuple[Missing, ...] = ()  # in the project now, and in no checkpoint
    gone: tuple[Missing, ...] = ()  # not covered then, and not there any more: it cannot be brought back


@dataclass(frozen=True, slots=True)
class Protected:
    """What was kept before an agent acts. It never raises; look at `complete`."""

    checkpoints: tuple[str, ...]  # ids
    skipped: tuple[Missing, ...] = ()  # named, and in no checkpoint
    failures: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()  # sentences for the user, each given once
    off: bool = False  # `SAFEKEPT_CHECKPOINTS=0`, or `/safekept off` in this session: nothing is kept

    @property
    def complete(self) -> bool:
        """Whether everything that was named is kept."""
        return not self.failures and not self.skipped and not self.off


@dataclass(slots=True)
class Guarded:
    """A guarded block: the snapshot before it and, once it ended, what the check found."""

    home: str
    snapshot: str = ""  # its id; empty where none was taken
    findings: tuple[str, ...] = ()  # what was lost, a sentence each
    restore_command: str = ""  # brings all of it back
    restored: tuple[str, ...] = ()  # paths that `auto_restore` brought back
    unchecked: str = ""  # why there was no check
    checked: bool = field(default=False)
