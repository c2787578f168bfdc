"""Carrying a prepared rollback through: to its end, or back to where it began.

One procedure for a rollback that runs and for one that was killed: the journal says which way to go,
the inode numbers say how far it came.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files import fsync_directory, write_all
from safekept.core.next_step import NextStep
from safekept.core.platform.filesystems import NO_SYMBOLIC_LINKS
from safekept.core.platform.syncing import sync_file, sync_filesystem
from safekept.core.records import dataclass

from ..checkpoint import FileState
from ..points.rollback_plan import OWN, Left
from .placing import Change, FileStamp, clear_away, make, take_back
from .preparing import Prepared
from .project_tree import ProjectTree
from .proving import Damaged, FileContents, open_elsewhere

# Every new content of a rollback, written beside its target before anything is changed. Until this is
# done nothing of the project is touched, apart from names of our own. A full disk, a damaged object or a
# directory that may not be written is met here.


def stage(ground: ProjectTree, contents: FileContents, prepared: Prepared, listener: Listener) -> None:
    """Write every new content under its name of ours, with its mode and time, and make it durable.

    What the store cannot give back whole, and a link on a disk without links, is left out, and listed.
    Raises OSError.
    """
    dropped = []
    waiting = [change for change in prepared.changes if change.aside in prepared.content]
    few = len(waiting) <= 32
    for number, change in enumerate(waiting):
        listener(Event("stage", number, len(waiting), unit="files", path=change.path))
        try:
            facts = _stage_one(ground, contents, change, prepared.content[change.aside], few)
            change.new, change.staged = facts.st_ino, FileStamp.of(facts)
        except Damaged as error:
            ground.unlink(change.aside)
            dropped.append((change.path, "damaged", str(error)))
        except OSError as error:
            if prepared.content[change.aside].kind != "symlink" or error.errno not in NO_SYMBOLIC_LINKS:
                raise
            dropped.append((change.path, "no-symlinks", ""))
    for path, reason, detail in dropped:
        prepared.drop(path, reason, detail)


def _stage_one(
    ground: ProjectTree, contents: FileContents, change: Change, state: FileState, sync: bool
) -> os.stat_result:
    parent, name = ground.parent(change.aside)
    if state.kind == "symlink":
        text = b"".join(contents.chunks(state))
        os.symlink(text, os.fsencode(name), dir_fd=parent)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=parent)
        try:
            for chunk in contents.chunks(state):
                write_all(descriptor, chunk)
            if change.owner is not None:
                os.fchown(descriptor, *change.owner)
            os.fchmod(descriptor, change.mode or 0)
            if change.mtime_ns is not None:
                os.utime(descriptor, ns=(change.mtime_ns, change.mtime_ns))
            if sync:
                sync_file(descriptor)
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)
    if change.owner is not None:
        os.chown(name, *change.owner, dir_fd=parent, follow_symlinks=False)
    if change.mtime_ns is not None:
        os.utime(name, ns=(change.mtime_ns, change.mtime_ns), dir_fd=parent, follow_symlinks=False)
    return os.stat(name, dir_fd=parent, follow_symlinks=False)


_FEW = 32
_NOT_PERMITTED = (errno.EPERM, errno.EACCES, errno.EROFS)


class RollbackFailed(SafekeptError):
    code = "rollback-failed"


class RollbackStuck(SafekeptError):
    code = "rollback-stuck"


class RollbackUnfinished(SafekeptError):
    code = "rollback-unfinished"


@dataclass(slots=True)
class Outcome:
    """What carrying through came to."""

    made: list[Change] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def go_forward(ground: ProjectTree, changes: list[Change], listener: Listener = silent) -> Outcome:
    """Make every change that is not made yet. Raises OSError where one cannot be made: take all back then."""
    outcome = Outcome()
    held: dict[str, str] = {}  # databases that must stay, with their logs, and why
    for number, change in enumerate(changes):
        listener(Event("swap", number, len(changes), unit="files", path=change.path))
        try:
            reason = _not_now(ground, change, held) or make(ground, change)
        except OSError as error:
            if change.kind == "set" and error.errno in _NOT_PERMITTED:
                outcome.left.append(Left(change.path, "not-permitted"))
                continue
            raise
        if not reason:
            outcome.made.append(change)
            continue
        if change.database:
            held.setdefault(change.database, reason)
            outcome.made = _with_logs_back(ground, change.database, outcome.made)
        if change.action:
            outcome.left.append(Left(change.path, reason))
    return outcome


def _not_now(ground: ProjectTree, change: Change, held: dict[str, str]) -> str:
    """A database that a program opened meanwhile is left; and where one part of it stays, all of it does."""
    if not change.database:
        return ""
    if change.database not in held and change.kind != "put" and open_elsewhere(ground.full(change.database)):
        return "held"
    return held.get(change.database, "")


def _with_logs_back(ground: ProjectTree, database: str, made: list[Change]) -> list[Change]:
    """What was moved away of a database that stays after all is put back."""
    rest = []
    for change in made:
        if change.database == database and change.kind == "take":
            with contextlib.suppress(FileExistsError):
                take_back(ground, change)
        else:
            rest.append(change)
    return rest


def finish(
    ground: ProjectTree,
    changes: list[Change],
    outsides: list[Change],
    opened: dict[str, int],
    undo: str,
    waiting: str = "",
) -> tuple[list[str], list[Left]]:
    """After all changes: remove our names, set the outside of directories, make it durable.

    `undo`: the point that takes it back. `waiting`: the point whose hidden half was to come after this.
    Returns remarks, and what could not be put back. Raises RollbackUnfinished: the next command goes on.
    """
    remarks, left = [], []
    try:
        make_durable(ground, changes)
        for change in changes:
            kept = clear_away(ground, change)
            if kept:
                remarks.append(
                    f"`{change.path}` was written to while it was replaced; those bytes are in `{kept}`"
                )
    except OSError as error:
        back = NextStep("rollback", ("--undo", undo), before="To have back what was replaced:")
        if waiting:
            kept = (
                "Every file that git sees was put back, what was replaced is kept,"
                " and what git hides is as it was before"
            )
            rest = NextStep("rollback", (waiting,), before="Then bring back what git hides:")
            raise _unfinished(ground, "half as it was then", kept, error, rest, back) from error
        kept = "Every file was put back, and what was replaced is kept"
        raise _unfinished(ground, "as it was then", kept, error, back) from error
    for change in outsides:
        try:
            make(ground, change)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            left.append(Left(change.path or OWN, "not-set", error.strerror or str(error)))
    close_again(ground, opened, {change.path for change in outsides if change.mode is not None})
    return remarks, left


def _unfinished(
    ground: ProjectTree, state: str, kept: str, error: OSError, *more: NextStep
) -> RollbackUnfinished:
    where = error.filename if isinstance(error.filename, str) else ""
    return RollbackUnfinished(
        f"`{ground.base}` is {state}, and tidying up failed: {error.strerror or error}"
        + (f" (`{where}`)" if where else ""),
        kept=kept,
        next_steps=(
            NextStep("rollback", before="Mend the cause (the disk, permissions), then run:"),
            "It finishes the rest",
            *more,
        ),
        project=ground.base,
    )


def go_back(
    ground: ProjectTree, changes: list[Change], outsides: list[Change], opened: dict[str, int]
) -> None:
    """Take every change back that was made. Raises RollbackStuck, saying what lies where."""
    stuck: list[tuple[str, str]] = []
    for change in reversed(changes):
        try:
            take_back(ground, change)
        except OSError as error:
            stuck.append((change.path, error.strerror or str(error)))
    if stuck:
        path, why = stuck[0]
        raise RollbackStuck(
            f"The rollback failed and could not be taken back whole: `{path}`: {why}",
            kept="Nothing is lost: the undo point holds every file, and what was moved lies beside its place",
            next_steps=(
                NextStep(
                    "rollback", before="Mend what is named above (room on the disk, permissions), then run:"
                ),
                "It goes on where this one stopped",
            ),
            project=ground.base,
            paths=[path for path, _ in stuck],
        )
    try:
        make_durable(ground, changes)
        for change in changes:
            clear_away(ground, change)
    except OSError as error:
        kept = "The rollback failed and every file was taken back"
        raise _unfinished(ground, "as it was before", kept, error) from error
    for change in outsides:
        with contextlib.suppress(OSError):
            take_back(ground, change)
    close_again(ground, opened, set())


def open_up(ground: ProjectTree, changes: Iterable[Change]) -> dict[str, int]:
    """Directories of ours that must be made writable for the work, with the modes to give back later."""
    if os.geteuid() == 0:
        return {}
    closed: dict[str, int] = {}
    places = {change.path.rpartition("/")[0] for change in changes if change.kind != "set"}
    places |= {change.aside.rpartition("/")[0] for change in changes if change.aside}
    for place in sorted(places):
        facts = ground.look(place)
        if facts is not None and stat.S_ISDIR(facts.st_mode) and facts.st_mode & 0o300 != 0o300:
            closed[place] = stat.S_IMODE(facts.st_mode)
    return closed


def close_again(ground: ProjectTree, opened: dict[str, int], spared: set[str]) -> None:
    for path, mode in opened.items():
        if path not in spared:
            with contextlib.suppress(OSError):
                facts = ground.look(path)
                if facts is not None and stat.S_ISDIR(facts.st_mode):
                    ground.set_outside(path, mode, None)


def make_durable(ground: ProjectTree, changes: list[Change]) -> None:
    """One sync for many directories, one each for a few. Raises OSError."""
    places = {change.path.rpartition("/")[0] for change in changes}
    # Moved away meanwhile: the work goes on by descriptors.
    gone = contextlib.suppress(FileNotFoundError, NotADirectoryError)
    if len(places) > _FEW:
        with gone:
            sync_filesystem(ground.base)
        return
    for place in places:
        with gone:
            if (facts := ground.look(place)) is not None and stat.S_ISDIR(facts.st_mode):
                fsync_directory(ground.full(place))
