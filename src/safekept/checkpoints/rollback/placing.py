"""The single changes that a rollback is made of; each can be made, taken back, and made again.

New content is staged under a name of ours beside its target. A file is replaced by exchanging the two
names in one instant; one that goes is moved to a name of ours. So whatever was there exists, as the
very same inode, until all is done, and taking back needs neither room nor the store. What was done is
read from inode numbers, so that a rollback which was killed can be finished, or taken back, from
wherever it stopped. A file that is not what the plan saw is put back at once and left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import asdict
from typing import Any

from safekept.core.records import dataclass

from .project_tree import ProjectTree


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What tells one state of a file from another without reading it."""

    inode: int
    size: int
    mtime_ns: int
    mode: int
    ctime_ns: int

    @classmethod
    def of(cls, facts: os.stat_result) -> FileStamp:
        return cls(facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_mode, facts.st_ctime_ns)

    def matches(self, facts: os.stat_result | None, moved: bool = False) -> bool:
        """Whether it is still that; a rename alone changes the change time."""
        if facts is None:
            return False
        other = FileStamp.of(facts)
        if moved:
            other = FileStamp(other.inode, other.size, other.mtime_ns, other.mode, self.ctime_ns)
        return other == self

    def looks_like(self, facts: os.stat_result | None) -> bool:
        """The same without its number and change time, for a disk that was mounted again meanwhile."""
        if facts is None or stat.S_IFMT(facts.st_mode) != stat.S_IFMT(self.mode):
            return False
        return (facts.st_size, facts.st_mtime_ns) == (self.size, self.mtime_ns)


@dataclass(slots=True)
class Change:
    """One change. Which of the fields matter depends on `kind`."""

    kind: str  # "take", "rmdir", "mkdir", "swap", "put" or "set"
    path: str
    aside: str = ""  # a name of ours: holds the new content before, the old content after
    old: FileStamp | None = None
    new: int = 0  # inode of the staged content
    staged: FileStamp | None = None  # all of it, for a disk on which inode numbers do not last
    mode: int | None = None
    mtime_ns: int | None = None
    action: str = ""  # of the step that this belongs to; "" for what only goes with it
    owner: tuple[int, int] | None = None
    database: str = ""  # of a database and its logs: the path of the database

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Change:
        old, owner, staged = fields.get("old"), fields.get("owner"), fields.get("staged")
        values = {
            **fields,
            "old": FileStamp(**old) if old else None,
            "staged": FileStamp(**staged) if staged else None,
            "owner": tuple(owner) if owner else None,
        }
        return cls(**values)


def make(ground: ProjectTree, change: Change) -> str:
    """Make one change; "" when it is made, or the reason why the path was left (see LEFT)."""
    try:
        return _MAKE[change.kind](ground, change)
    except (FileNotFoundError, NotADirectoryError):
        if change.kind in ("take", "rmdir", "set"):
            return ""
        return "no-such-name" if _could_be_there(ground, change.path) else "in-the-way"
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.EXDEV):
            return "mount"
        if error.errno in (errno.EILSEQ, errno.EINVAL) and change.kind in ("mkdir", "put"):
            return "no-such-name"
        raise


def _could_be_there(ground: ProjectTree, path: str) -> bool:
    """Whether what it stands in is there: then it is the name that the disk refuses, as exFAT does `a:b`."""
    above = path.rpartition("/")[0]
    facts = ground.look(above) if above else None
    return not above or (facts is not None and stat.S_ISDIR(facts.st_mode))


def take_back(ground: ProjectTree, change: Change) -> None:
    """Undo one change if it was made. Raises OSError; FileExistsError where something new is in the way."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        _TAKE_BACK[change.kind](ground, change)


def clear_away(ground: ProjectTree, change: Change) -> str:
    """Remove our own name once all is done or all is taken back.

    Returns the name under which content was kept because it was written meanwhile; else "".
    """
    if not change.aside:
        return ""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for name in (change.aside + "-old", change.aside):
            facts = ground.look(name)
            if facts is None:
                continue
            # By its look as well: FUSE may number a file again at any time, and what was staged is stored.
            staged = change.staged is not None and change.staged.looks_like(facts)
            ours = staged or _is_new(ground, change, facts)
            saved = _is_old(ground, change, facts, moved=True)
            target = ground.look(change.path)
            if ours or saved or (target is not None and target.st_ino == facts.st_ino):
                parent, last = ground.parent(name)
                os.unlink(last, dir_fd=parent)
            else:
                return _keep(ground, name, change.path)
    return ""


def _is_new(ground: ProjectTree, change: Change, facts: os.stat_result | None) -> bool:
    """Whether this is what was staged; where numbers do not last by its look, and of two alike by number."""
    if facts is None:
        return False
    if ground.numbers_last or change.staged is None:
        return facts.st_ino == change.new
    alike = change.old is not None and change.old.looks_like(facts)
    return change.staged.looks_like(facts) and (not alike or facts.st_ino == change.new)


def _is_old(
    ground: ProjectTree, change: Change, facts: os.stat_result | None, *, moved: bool = False
) -> bool:
    """Whether this is what the plan saw, by the same measure."""
    if facts is None or change.old is None:
        return False
    if ground.numbers_last:
        return change.old.matches(facts, moved)
    alike = change.staged is not None and change.staged.looks_like(facts)
    return change.old.looks_like(facts) and (not alike or facts.st_ino == change.old.inode)


def _same_number(ground: ProjectTree, seen: FileStamp, facts: os.stat_result) -> bool:
    return not ground.numbers_last or facts.st_ino == seen.inode


def _keep(ground: ProjectTree, name: str, path: str) -> str:
    """A program had the file open and wrote into it while it was moved away: those bytes are in no store."""
    for number in range(1, 1000):
        kept = f"{path}.written-during-rollback" + (f"-{number}" if number > 1 else "")
        try:
            ground.move(name, kept)
        except FileExistsError:
            continue
        except (FileNotFoundError, NotADirectoryError):
            return name
        return kept
    return name


def _make_take(ground: ProjectTree, change: Change) -> str:
    assert change.old is not None
    now = ground.look(change.path)
    if now is None:
        return ""  # gone already, or moved by us before we were killed
    if not _is_old(ground, change, now):
        return "changed"
    ground.move(change.path, change.aside)
    if _is_old(ground, change, ground.look(change.aside), moved=True):
        return ""
    ground.move(change.aside, change.path)
    return "changed"


def _back_take(ground: ProjectTree, change: Change) -> None:
    if ground.look(change.aside) is not None:
        ground.move(change.aside, change.path)


def _make_swap(ground: ProjectTree, change: Change) -> str:
    assert change.old is not None
    now, staged = ground.look(change.path), ground.look(change.aside)
    if _is_new(ground, change, now):
        return ""
    if not _is_new(ground, change, staged):
        return "changed"
    linked = ground.look(change.aside + "-old") is not None  # killed in an exchange of several steps
    if linked and now is None:
        ground.move(change.aside + "-old", change.path)
        now, linked = ground.look(change.path), False
        moved = True
    else:
        moved = linked
    if now is None or not _is_old(ground, change, now, moved=moved):
        return "changed"
    if linked:
        parent, last = ground.parent(change.aside + "-old")
        os.unlink(last, dir_fd=parent)
    ground.exchange(change.aside, change.path)
    if _is_old(ground, change, ground.look(change.aside), moved=True):
        return ""
    ground.exchange(change.aside, change.path)
    return "changed"


def _back_swap(ground: ProjectTree, change: Change) -> None:
    now, between = ground.look(change.path), change.aside + "-old"
    if now is None and ground.look(between) is not None:
        ground.move(between, change.path)
        return
    if not _is_new(ground, change, now):
        return
    if ground.look(change.aside) is None and ground.look(between) is not None:
        ground.move(between, change.aside)
    if ground.look(change.aside) is not None:
        ground.exchange(change.aside, change.path)


def _make_put(ground: ProjectTree, change: Change) -> str:
    now = ground.look(change.path)
    if now is not None:
        return "" if _is_new(ground, change, now) else "in-the-way"
    try:
        ground.move(change.aside, change.path)
    except FileExistsError:
        return "in-the-way"
    return ""


def _back_put(ground: ProjectTree, change: Change) -> None:
    now = ground.look(change.path)
    if _is_new(ground, change, now):
        ground.move(change.path, change.aside)


def _make_rmdir(ground: ProjectTree, change: Change) -> str:
    parent, name = ground.parent(change.path)
    ground.forget(change.path)
    parent, name = ground.parent(change.path)
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return "not-empty"
        if error.errno == errno.ENOTDIR:
            return "changed"
        raise
    return ""


def _back_rmdir(ground: ProjectTree, change: Change) -> None:
    assert change.old is not None
    if ground.look(change.path) is not None:
        return
    _mkdir(ground, change, stat.S_IMODE(change.old.mode))


def _make_mkdir(ground: ProjectTree, change: Change) -> str:
    now = ground.look(change.path)
    if now is None:
        # Open to its owner while things are put into it; its own mode follows at the end.
        _mkdir(ground, change, (change.mode or 0) | 0o700)
        return ""
    return "" if stat.S_ISDIR(now.st_mode) else "in-the-way"


def _mkdir(ground: ProjectTree, change: Change, mode: int) -> None:
    parent, name = ground.parent(change.path)
    os.mkdir(name, 0o700, dir_fd=parent)
    if change.owner is not None:
        os.chown(name, *change.owner, dir_fd=parent, follow_symlinks=False)
    ground.set_outside(change.path, mode, None)


def _back_mkdir(ground: ProjectTree, change: Change) -> None:
    _make_rmdir(ground, change)


def _make_set(ground: ProjectTree, change: Change) -> str:
    now = ground.look(change.path)
    if now is None:
        return ""
    if change.action and change.old is not None and stat.S_IFMT(now.st_mode) != stat.S_IFMT(change.old.mode):
        return "changed"
    if change.action and change.old is not None and stat.S_ISREG(now.st_mode):
        same = now.st_size == change.old.size and _same_number(ground, change.old, now)
        if not same or now.st_mtime_ns not in (change.old.mtime_ns, change.mtime_ns):
            return "changed"
    ground.set_outside(change.path, change.mode, change.mtime_ns)
    return ""


def _back_set(ground: ProjectTree, change: Change) -> None:
    if change.old is not None and (now := ground.look(change.path)) is not None:
        if stat.S_IFMT(now.st_mode) != stat.S_IFMT(change.old.mode):
            return
        if stat.S_ISDIR(now.st_mode) or _same_number(ground, change.old, now):
            ground.set_outside(change.path, stat.S_IMODE(change.old.mode), change.old.mtime_ns)


_MAKE = {
    "take": _make_take,
    "rmdir": _make_rmdir,
    "mkdir": _make_mkdir,
    "swap": _make_swap,
    "put": _make_put,
    "set": _make_set,
}
_TAKE_BACK = {
    "take": _back_take,
    "rmdir": _back_rmdir,
    "mkdir": _back_mkdir,
    "swap": _back_swap,
    "put": _back_put,
    "set": _back_set,
}
