"""A database that is in use is not replaced: its new content is written into it through SQLite.

The inode stays, so the program that has it open sees the new data and goes on. What was in it
before is captured into `replaced/` first.
"""

from __future__ import annotations

import contextlib
import os

from safekept.core.entries import Content, EntryLost, Outcome, Remark
from safekept.core.files import write_all
from safekept.core.files.small import read_start
from safekept.core.files.tree import change_mode
from safekept.core.platform.syncing import sync_file
from safekept.core.sqlite import CaptureOptions, DatabaseHeld, DatabaseLocked, Watch, restore_into, watching
from safekept.core.sqlite.capture import capture
from safekept.core.sqlite.descriptors import in_use
from safekept.core.sqlite.fold import DatabaseDamaged, fold
from safekept.core.sqlite.format import connect, uses_wal
from safekept.core.sqlite.restore import locked

from ..landing_trees import LandingTrees
from ..record import LandingRecord, Step, append_note
from ..tree import LandingTree
from .moving import beside, copy, remove
from .open_databases import HeldDatabase, refuse_held, who_holds

# The journal mode of a database that is in use: a restore in place must not leave it in another one. The
# mode is part of a database's header, so content that is written into it can bring another one along.

_HEAD = 20
_VERSIONS_AT = 18
#: Write and read version of a database with a rollback journal, and with a log.
_VERSIONS = {"delete": b"\x01\x01", "wal": b"\x02\x02"}


def mode_of_file(path: str) -> str:
    """`wal` or `delete`, by the header of a file of ours."""
    return "wal" if uses_wal(read_start(path, _HEAD, follow=False)) else "delete"


def take_over_mode(staged: str, present: str) -> None:
    """Give a staged file of ours, whole and without sidecars, the mode of the one it will be written into.

    A program that has a database open with a rollback journal goes on with one. The other way
    round SQLite itself keeps the log.
    """
    if mode_of_file(staged) == "wal" and mode_of_file(present) == "delete":
        facts = os.stat(staged)
        set_mode(staged, "delete")
        os.utime(staged, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def set_mode(path: str, mode: str) -> None:
    """Name a mode in the header of a file of ours, whole and without sidecars."""
    if mode_of_file(path) == mode:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, _VERSIONS[mode], _VERSIONS_AT)
    finally:
        os.close(descriptor)


def switch_mode(live: str, wanted: str) -> str:
    """Bring a live database into a mode through SQLite; returns the mode that it really has then.

    SQLite refuses where another program has it open with a log; that is its right.
    """
    import sqlite3

    with in_use(live), contextlib.closing(connect(live, "mode=rw", 0.5)) as connection:
        try:
            now = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
            if (now == "wal") == (wanted == "wal"):
                return wanted
            return str(connection.execute(f"PRAGMA journal_mode={wanted}").fetchone()[0])
        except sqlite3.Error:
            return "delete" if wanted == "wal" else "wal"


#: How often a database with a rollback journal is kept and written into before it is given up.
_ATTEMPTS = 10
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Moved(Exception):
    """Another program committed after the copy was taken."""


def restore_in_place(
    trees: LandingTrees, record: LandingRecord, step: Step, deadline: float
) -> Remark | None:
    """Keep the present content, then restore the staged one into the same inode.

    A landing leaves the journal mode as it is; an undo brings the old one back, or says that it
    could not.
    """
    target = trees.target(step)
    facts = target.look(step.path)
    if facts is None:
        raise FileNotFoundError(target.full(step.path))
    live = target.full(step.path)
    with watching(live, deadline) as watch:
        _keep_then_restore(trees, record, step, deadline, watch)
    staged = _staged_file(trees, step)
    made = trees.staged.look(step.staged)
    remark = _bring_mode_back(staged, live, step) if record.verb == "undo" else None
    if made is not None:
        _set_live_metadata(target, step.path, made)
    return remark


def _staged_file(trees: LandingTrees, step: Step) -> str:
    return trees.staged.full(f"folded-{step.number}" if step.carries else step.staged)


def _keep_then_restore(
    trees: LandingTrees, record: LandingRecord, step: Step, deadline: float, watch: Watch
) -> None:
    """What is kept is what is replaced, to the last row.

    Another program may commit between copy and restore. In WAL mode the copy is then taken again inside
    our transaction, which keeps writers out and lets readers in. With a rollback journal it is taken
    again while writers are kept out, and the restore begins at once; where one was quicker, all of it again.
    """
    live = trees.target(step).full(step.path)
    begun = False

    def keep() -> None:
        try:
            keep_live_database(trees, record, step, trees.kept(step), deadline)
        except EntryLost as lost:
            reason = f"it cannot be kept first ({lost.remark.reason})"
            raise refuse_held(step.entry, who_holds(live), reason) from lost

    def keep_before_change() -> None:
        nonlocal begun
        begun = True  # from here on the copy is known to be sound
        if not watch.wal and watch.changed():
            import sqlite3

            try:
                with watch.writers_out():
                    watch.begin()
                    keep()
            except sqlite3.Error as error:
                raise locked(live, deadline) from error

    def keep_again() -> None:
        if watch.changed():
            if not watch.wal:
                raise _Moved
            keep()

    keep()
    staged = trees.staged.full(step.staged)
    if step.carries:  # the staged files of an undo are second names of kept ones: fold a copy
        staged = fold_copy(
            trees.staged, step.staged, list(step.carries), trees.staged, f"folded-{step.number}"
        )
    if record.verb == "land":
        take_over_mode(staged, trees.kept(step).full(step.path))
    append_note(trees.directory.record, "pouring", step.number)
    try:
        for left in reversed(range(_ATTEMPTS)):
            try:
                restore_into(staged, live, deadline, ready=keep_before_change, before=keep_again)
                break
            except _Moved as moved:
                if not left:
                    reason = "it is being written to all the time, so it cannot be kept first"
                    raise refuse_held(step.entry, who_holds(live), reason) from moved
    except (DatabaseHeld, DatabaseLocked, HeldDatabase):
        append_note(trees.directory.record, "unpoured", step.number)  # SQLite left it as it was
        raise
    except DatabaseDamaged as damage:
        if begun:
            raise
        append_note(trees.directory.record, "unpoured", step.number)
        reason = "what would replace it is damaged, and so cannot be written into it"
        raise refuse_held(step.entry, who_holds(live), reason) from damage


def _bring_mode_back(staged: str, live: str, step: Step) -> Remark | None:
    wanted = mode_of_file(staged)
    now = switch_mode(live, wanted)
    if now == wanted:
        return None
    reason = (
        f"its journal mode was {wanted} and is {now} now; it cannot be switched while a program has it open"
    )
    return Remark(step.entry, Outcome.NOTED, reason)


def restore_kept_copy(trees: LandingTrees, record: LandingRecord, step: Step, deadline: float) -> None:
    """Take a restore in place back: the kept content goes into the live database the same way."""
    target, kept = trees.target(step), trees.kept(step)
    before = kept.look(step.path)
    if before is None:
        return
    if target.look(step.path) is None:
        copy(kept, step.path, target, step.path, record.temporary(step))
    else:
        aside = trees.set_aside(step.root)
        if aside.look(step.path) is None:
            keep_live_database(trees, record, step, aside, deadline)
        restore_into(kept.full(step.path), target.full(step.path), deadline, as_it_was=True)
        switch_mode(target.full(step.path), mode_of_file(kept.full(step.path)))
        _set_live_metadata(target, step.path, before)
    remove(kept, step.path)


def keep_live_database(
    trees: LandingTrees, record: LandingRecord, step: Step, keep: LandingTree, deadline: float
) -> None:
    """A captured copy of the live database, whole under its name in `keep`."""
    target = trees.target(step)
    facts = target.look(step.path)
    if facts is None:
        return
    parent, name = keep.parent(step.path)
    temporary = record.temporary(step)
    remove(keep, beside(step.path, temporary))
    options = CaptureOptions(scratch=trees.directory.path, deadline=deadline, check=False)
    with capture(target.full(step.path), step.entry, options) as content:
        descriptor = os.open(temporary, _CREATE, 0o600, dir_fd=parent)
        try:
            _write(content, descriptor)
            if os.geteuid() == 0:
                os.fchown(descriptor, facts.st_uid, facts.st_gid)
            os.fchmod(descriptor, facts.st_mode & 0o777)
            os.utime(descriptor, ns=(facts.st_atime_ns, facts.st_mtime_ns))
            sync_file(descriptor)
        finally:
            os.close(descriptor)
    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)


def fold_copy(kept: LandingTree, path: str, suffixes: list[str], scratch: LandingTree, name: str) -> str:
    """One sound file out of a kept database and its sidecars; the kept ones stay as they are."""
    for suffix in ("", *suffixes):
        remove(scratch, name + suffix)
        copy(kept, path + suffix, scratch, name + suffix, name + "-copying")
    if suffixes:
        fold(scratch.full(name))
    return scratch.full(name)


def _write(content: Content, descriptor: int) -> None:
    for chunk in content.chunks():
        write_all(descriptor, chunk)


def _set_live_metadata(tree: LandingTree, path: str, facts: os.stat_result) -> None:
    """Mode and time by name only: opening a live database and closing it again drops locks."""
    parent, name = tree.parent(path)
    change_mode(parent, name, facts.st_mode & 0o777)
    os.utime(name, ns=(facts.st_atime_ns, facts.st_mtime_ns), dir_fd=parent, follow_symlinks=False)
