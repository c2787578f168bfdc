"""The swap: carry the recorded steps out, one rename after the other.

A file that is replaced first gets a second name in `replaced/`, then the new one is renamed over
it: its name in the home is never absent. A database goes together with its sidecars, and old
sidecars never meet a new database. Every step can be taken back from any instant within it; the
rules for that are in `takeback`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable

from safekept.core.entries import Remark
from safekept.core.events import Event, Listener
from safekept.core.platform.descriptors import name_of
from safekept.core.platform.syncing import sync_filesystem
from safekept.core.sqlite import SIDECARS

from ..area import LANDED
from ..desired_state import Place, Steps, home_changed
from ..landing_trees import LandingTrees
from ..record import AWAY, IN_PLACE, MAKE, PUT, UNMAKE, DirectoryBefore, LandingRecord, Step, append_note
from ..tree import LandingTree
from .in_place_restore import restore_in_place
from .moving import copy, copy_beside, link, move, name_it, remove, rename
from .open_databases import refuse_held, refuse_mount, who_holds

# The outside of directories: their modes and times, opened up for the work and set at its end.

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_up(trees: LandingTrees, directories: Iterable[DirectoryBefore]) -> dict[tuple[int, str], int]:
    """Let the owner write into read-only directories; returns the modes to put back."""
    opened: dict[tuple[int, str], int] = {}
    if os.geteuid() == 0:
        return opened
    for before in directories:
        if before.mode & 0o300 != 0o300:
            set_directory(trees.targets[before.root], before.path, before.mode | 0o300, None)
            opened[before.root, before.path] = before.mode
    return opened


def set_directory(tree: LandingTree, path: str, mode: int, mtime_ns: int | None) -> None:
    """Set mode and time of a directory; one that is gone meanwhile is passed over."""
    try:
        descriptor = tree.directory(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    # The walking descriptor cannot be changed through; a name that leads to it can, and is not a link.
    name = name_of(descriptor)
    if not name:
        parent, last = tree.parent(path)
        descriptor = os.open(last, _DIRECTORY, dir_fd=parent)
        try:
            _set(descriptor, mode, mtime_ns)
        finally:
            os.close(descriptor)
        return
    _set(name, mode, mtime_ns)


def _set(place: int | str, mode: int, mtime_ns: int | None) -> None:
    facts = os.stat(place)
    if stat.S_IMODE(facts.st_mode) != mode:
        os.chmod(place, mode)
    if mtime_ns is not None and facts.st_mtime_ns != mtime_ns:
        os.utime(place, ns=(facts.st_atime_ns, mtime_ns))


_EVENTS_EVERY = 500
#: A directory that stays: other things are in it, or a disk is mounted there; or it is gone.
_NOT_OURS = (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.ENOENT)


class Swap:
    """Carries out the steps of one record."""

    def __init__(
        self,
        trees: LandingTrees,
        record: LandingRecord,
        finish: dict[Place, tuple[int, int | None]],
        deadline: float,
    ) -> None:
        self.trees, self.record, self.finish = trees, record, finish
        self.deadline = deadline
        self.remarks: list[Remark] = []
        self._do: dict[str, Callable[[Step], None]] = {
            PUT: self._put,
            AWAY: self._away,
            MAKE: self._make,
            UNMAKE: self._unmake,
            IN_PLACE: self._restore_in_place,
        }

    def carry_out(self, listener: Listener) -> None:
        """Do everything, make it durable, and mark it landed."""
        opened = open_up(self.trees, self.record.directories)
        total = len(self.record.steps)
        for done, step in enumerate(self.record.steps):
            if done % _EVENTS_EVERY == 0:
                listener(Event("swap", done=done, total=total, unit="files", path=step.entry))
            self._carry(step)
        self._check_holders()
        self._finish_directories(opened)
        for place in {self.trees.directory.path, *(root.base for root in self.trees.roots)}:
            sync_filesystem(place)
        self.trees.directory.mark(LANDED)
        listener(Event("swap", done=total, total=total, unit="files"))

    def _carry(self, step: Step) -> None:
        """One step; what the home itself put in the way is reported by its full name."""
        try:
            self._do[step.do](step)
        except (FileNotFoundError, NotADirectoryError) as error:
            gone = "or a directory above it was removed while the landing was under way"
            raise home_changed(
                self.trees.target(step).full(step.path),
                gone,
                "Everything the landing had done was taken back",
            ) from error
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.EXDEV):
                raise refuse_mount(self.trees.target(step).full(step.path)) from error
            raise

    def _put(self, step: Step) -> None:
        if step.database:
            self._put_database(step)
            return
        target, kept = self.trees.target(step), self.trees.kept(step)
        there = target.look(step.path) is not None
        self._note_change(step, there)
        try:
            if there and not link(target, step.path, kept, step.path):
                self._keep_without_link(step, step.path)
        except FileNotFoundError:
            self._note_vanished(step)
        self._into_place(step)

    def _keep_without_link(self, step: Step, path: str) -> None:
        """Another filesystem: a copy is kept. One without links: it has to go by rename."""
        target, kept = self.trees.target(step), self.trees.kept(step)
        facts, place = target.look(path), os.stat(kept.base)
        if facts is not None and facts.st_dev == place.st_dev:
            rename(target, path, kept, path)
        else:
            copy(target, path, kept, path, self.record.temporary(step))

    def _into_place(self, step: Step, suffix: str = "", vacant: bool = False) -> None:
        """Give a staged thing its name. `vacant`: nothing may be there, and nothing is overwritten."""
        target, staged = self.trees.target(step), self.trees.staged
        name, path = step.staged + suffix, step.path + suffix
        if vacant and link(staged, name, target, path):
            remove(staged, name)
            return
        if rename(staged, name, target, path):
            return
        # Across filesystems the staged one goes first: a staged thing that is gone means "in place".
        temporary = self.record.temporary(step)
        copy_beside(staged, name, target, path, temporary)
        remove(staged, name)
        name_it(target, path, temporary)

    def _put_database(self, step: Step) -> None:
        """Old main and old sidecars leave together, then the new one comes.

        Where the old log still holds data the main file goes first: for some microseconds there is
        no database, which is better than a main file without its log, or a log that is not its own.
        """
        target, kept = self.trees.target(step), self.trees.kept(step)
        if step.had and (held := who_holds(target.full(step.path))):
            raise refuse_held(step.entry, held, "it was opened while the landing was under way")
        log = any(
            (facts := target.look(step.path + suffix)) is not None and facts.st_size
            for suffix in ("-wal", "-journal")
        )
        vacant = log or bool(step.carries)
        there = target.look(step.path) is not None
        self._note_change(step, there)
        try:
            if there and (vacant or not link(target, step.path, kept, step.path)):
                move(target, step.path, kept, step.path, self.record.temporary(step))
        except FileNotFoundError:
            self._note_vanished(step)
        for suffix in SIDECARS:
            if target.look(step.path + suffix) is not None:
                move(target, step.path + suffix, kept, step.path + suffix, self.record.temporary(step))
        for suffix in step.carries:
            self._into_place(step, suffix)
        try:
            self._into_place(step, vacant=vacant)
        except FileExistsError:
            raise refuse_held(step.entry, [], "it was made again while the landing was under way") from None

    def _note_change(self, step: Step, there: bool) -> None:
        """The file was made or removed since the record was written: taking back must know."""
        if there != step.had:
            append_note(self.trees.directory.record, "had" if there else "vanished", step.number)

    def _note_vanished(self, step: Step) -> None:
        """It was there a moment ago, and nothing of it was kept."""
        append_note(self.trees.directory.record, "vanished", step.number)

    def _away(self, step: Step) -> None:
        target, kept = self.trees.target(step), self.trees.kept(step)
        temporary = self.record.temporary(step)
        with contextlib.suppress(FileNotFoundError):
            move(target, step.path, kept, step.path, temporary)
        for suffix in SIDECARS if step.database else ():
            if target.look(step.path + suffix) is not None:
                move(target, step.path + suffix, kept, step.path + suffix, temporary)

    def _make(self, step: Step) -> None:
        parent, name = self.trees.target(step).parent(step.path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)

    def _unmake(self, step: Step) -> None:
        target = self.trees.target(step)
        parent, name = target.parent(step.path)
        try:
            os.rmdir(name, dir_fd=parent)
            target.forget(step.path)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise

    def _restore_in_place(self, step: Step) -> None:
        remark = restore_in_place(self.trees, self.record, step, self.deadline)
        if remark is not None:
            self.remarks.append(remark)

    def _check_holders(self) -> None:
        """No program may have opened an old database in the instant before it was replaced: what such a
        program writes would be lost."""
        for step in self.record.steps:
            if step.do == PUT and step.database and self.trees.kept(step).look(step.path) is not None:
                held = who_holds(self.trees.kept(step).full(step.path))
                if held:
                    raise refuse_held(step.entry, held, "it was opened while the landing was under way")

    def _finish_directories(self, opened: dict[Place, int]) -> None:
        """Modes and times last, from the inside out: landing in a directory changes its time."""
        wanted: dict[Place, tuple[int, int | None]] = {place: (mode, None) for place, mode in opened.items()}
        wanted.update(self.finish)
        for place in sorted(wanted, reverse=True):
            set_directory(self.trees.targets[place[0]], place[1], *wanted[place])


def swap(
    trees: LandingTrees,
    record: LandingRecord,
    steps: Steps,
    deadline: float,
    listener: Listener,
) -> None:
    """Carry out a record that is already durable on disk."""
    work = Swap(trees, record, steps.finish, deadline)
    work.carry_out(listener)
    steps.remarks.extend(work.remarks)
