"""The project as a place to work in: a link-safe tree, and the renames that a rollback needs in it."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterable, Mapping

from safekept.core.errors import SafekeptError
from safekept.core.files import temporary_name
from safekept.core.files.tree import LinkSafeTree, change_mode
from safekept.core.next_step import NextStep
from safekept.core.platform.filesystems import NO_HARD_LINKS, Folding, folding_of
from safekept.core.platform.renaming import Place, exchange, rename_new

from ..checkpoint import FileState
from ..points.rollback_plan import Step, parents
from ..take.taking import ProjectGone

# Names that differ only in case, on a disk that takes them for one. A checkpoint taken on another disk,
# or of a project that was moved, can hold `Readme` and `README`. Where the disk cannot, neither is
# written over the other: both are left, and listed.


def alike_names(
    ground: ProjectTree, steps: Iterable[Step], then: Mapping[str, FileState], now: Mapping[str, FileState]
) -> dict[str, str]:
    """Paths that may not be touched on a disk that takes `A` and `a` for one name, each with its double.

    Asked only where two names differ in nothing but case or Unicode form, and then of the very directory.
    What would only be removed is asked about too: to the disk, it may be what stays under the other name.
    """
    touched = [step.path for step in steps]
    places = {place for path in touched for place in (path, *parents(path))}
    above = {place.rpartition("/")[0] for place in places}
    spellings: dict[str, set[str]] = {}
    # Directories are listed in every state: the names beside a path are all there are to compare with.
    for path in itertools.chain(then, now, places):
        if path.rpartition("/")[0] in above:
            spellings.setdefault(_EVERYTHING.key(path), set()).add(path)
    doubles = {place: names for names in spellings.values() if len(names) > 1 for place in names}
    found: dict[str, str] = {}
    folding: dict[str, Folding] = {}
    for path in touched:
        for place in (*parents(path), path):
            if place not in doubles:
                continue
            inside = place.rpartition("/")[0]
            if inside not in folding:
                folding[inside] = folding_at(ground, inside)
            key = folding[inside].key
            if alike := [one for one in doubles[place] - {place} if key(one) == key(place)]:
                found[path] = min(alike)
                break
    return found


_EVERYTHING = Folding(case=True, forms=True)


def folding_at(ground: ProjectTree, path: str) -> Folding:
    """Which names a directory takes for one; asked by trying."""
    while path:  # the nearest directory that is there; one may be about to come in place of a file
        facts = ground.look(path)
        if facts is not None and stat.S_ISDIR(facts.st_mode):
            break
        path = path.rpartition("/")[0]
    try:
        parent, name = ground.parent(temporary_name(path))
        return folding_of(parent, name)
    except OSError:
        return _EVERYTHING  # unknown: better to leave two files than to lose one


class ProjectReplaced(SafekeptError):
    code = "project-replaced"


def check_project(project: str, target: str = "") -> None:
    """See that the project is the real directory that was recorded. Raises ProjectGone, ProjectReplaced.

    `target`: the id of the point that was to be gone back to, for the advice.
    """
    try:
        facts = os.lstat(project)
    except (FileNotFoundError, NotADirectoryError):
        before = "If it was deleted, bring it back:"
        around = os.path.dirname(project)
        if not os.path.isdir(around):  # rollback makes it only where nothing can be unmounted
            before += f" make `{around}` again, then"
        raise ProjectGone(
            f"The project `{project}` is not there any more",
            kept="Its checkpoints are all still in the store; nothing was changed",
            next_steps=(
                "If it was moved, or its disk is not mounted, bring it back to that place",
                NextStep("rollback", (target, "--dir", project), before)
                if target
                else NextStep("rollback", ("--dir", project), before="See what is kept of it:"),
            ),
            project=project,
        ) from None
    except OSError as error:
        raise _closed(project, error) from error
    if stat.S_ISDIR(facts.st_mode) and os.path.realpath(project) == project:
        return
    what = "a link" if not stat.S_ISREG(facts.st_mode) else "a file"
    raise ProjectReplaced(
        f"`{project}` is {what} now, and was a directory when its checkpoints were taken",
        kept="Its checkpoints are all still in the store; nothing was changed",
        next_steps=("Move what stands there out of the way, then run the command again",),
        project=project,
    )


def _closed(project: str, error: OSError) -> ProjectGone:
    return ProjectGone(
        f"The project `{project}` cannot be looked into: {error.strerror or error}",
        kept="Its checkpoints are all still in the store; nothing was changed",
        next_steps=("Mend the cause (the disk, permissions), then run the command again",),
        project=project,
    )


class ProjectTree(LinkSafeTree):
    """Access below the project. A link in the way is "not a directory": the place is left, and listed."""

    #: Whether inode numbers that were written down are still those of the same files.
    numbers_last = True

    def __init__(self, project: str) -> None:
        try:
            super().__init__(project)
        except OSError as error:
            raise _closed(project, error) from error

    def set_outside(self, path: str, mode: int | None, mtime_ns: int | None) -> None:
        """Set mode and time of whatever is under this name, itself and not what a link points to."""
        if not path:
            facts = os.fstat(self._root)
            if mode is not None and stat.S_IMODE(facts.st_mode) != mode:
                os.fchmod(self._root, mode)
            if mtime_ns is not None and facts.st_mtime_ns != mtime_ns:
                os.utime(self._root, ns=(facts.st_atime_ns, mtime_ns))
            return
        parent, name = self.parent(path)
        now = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if mode is not None and not stat.S_ISLNK(now.st_mode) and stat.S_IMODE(now.st_mode) != mode:
            change_mode(parent, name, mode)
        if mtime_ns is not None and now.st_mtime_ns != mtime_ns:
            os.utime(name, ns=(now.st_atime_ns, mtime_ns), dir_fd=parent, follow_symlinks=False)

    def move(self, source: str, target: str) -> None:
        """Rename; FileExistsError where the new name is taken."""
        old, new = self.both_parents(source, target)
        if rename_new(old, new):
            return
        with contextlib.suppress(FileNotFoundError):
            os.stat(new[1], dir_fd=new[0], follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        _rename(old, new)

    def exchange(self, one: str, other: str) -> None:
        """Swap two names in one instant: at no time is either missing.

        Where the filesystem has no such call, `other` is replaced atomically and what it was lies under
        `one` a moment later; a kill in between leaves it under `one` + "-old". Where a file cannot have two
        names either (exFAT), `other` is missing for that moment.
        """
        first, second = self.both_parents(one, other)
        if exchange(first, second):
            return
        between = (first[0], first[1] + "-old")
        if _second_name(second, between):
            _rename(first, second)
        else:
            _rename(second, between)
            try:
                _rename(first, second)
            except OSError:
                with contextlib.suppress(OSError):  # taking back finds it there as well
                    _rename(between, second)
                raise
        _rename(between, first)


def _rename(old: Place, new: Place) -> None:
    os.rename(old[1], new[1], src_dir_fd=old[0], dst_dir_fd=new[0])


def _second_name(of: Place, name: Place) -> bool:
    """False where the filesystem gives a file one name only."""
    try:
        os.link(of[1], name[1], src_dir_fd=of[0], dst_dir_fd=name[0], follow_symlinks=False)
    except OSError as error:
        if error.errno in NO_HARD_LINKS:
            return False
        raise
    return True
