"""Where the git repositories of a project keep their data.

A project may be hostile: a `.git` that is a file can name any directory, and going back writes there. So it
is believed only where that directory names the work tree in turn, as git's own worktrees and submodules do.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterable
from dataclasses import replace

from safekept.core.files.small import read_start
from safekept.core.files.stable import settled
from safekept.core.records import dataclass

#: Path, inode, size and time of something that was looked at.
Look = tuple[str, int, int, int]
#: Of the repositories inside one project so many are kept.
MOST = 50
_LARGEST_SETTINGS = 1 << 20
_WORK_TREE = re.compile(rb"(?im)^[ \t]*worktree[ \t]*=[ \t]*(\S[^\n]*)$")
_HEAD = re.compile(rb"ref:\s*refs/\S|[0-9a-f]{40}(?:[0-9a-f]{24})?\s*$")
_SHA256 = re.compile(rb"(?im)^[ \t]*objectformat[ \t]*=[ \t]*sha256[ \t]*$")


@dataclass(frozen=True, slots=True)
class Located:
    """One repository of a project."""

    path: str  # its work tree, relative to the project; empty: the project itself
    git: str  # its own directory: HEAD, index
    common: str  # refs and objects; another one in a linked worktree
    dot_git: bytes = b""  # the `.git` that leads there, where it is a file

    @property
    def linked(self) -> bool:
        return self.git != self.common

    @property
    def objects(self) -> str:
        return os.path.join(self.common, "objects")

    @property
    def settings(self) -> bytes:
        """The first part of its configuration, as bytes; they are not obeyed."""
        with contextlib.suppress(OSError):
            return read_start(os.path.join(self.common, "config"), _LARGEST_SETTINGS, follow=False)
        return b""

    @property
    def format(self) -> str:
        return "sha256" if _SHA256.search(self.settings) else "sha1"


def locate_all(project: str, nested: Iterable[str] = ()) -> list[Located]:
    """The repositories of a project that can be read. `nested`: `.git` names inside it, of a full pass."""
    paths = ["", *(os.path.dirname(name) for name in nested)]
    found = (locate(project, path) for path in paths[: MOST + 1])
    return [one for one in found if one is not None]


def locate(project: str, path: str = "") -> Located | None:
    """The repository whose work tree is `path` of a project; None where there is none that can be trusted."""
    work = os.path.join(project, path) if path else project
    place = os.path.join(work, ".git")
    with contextlib.suppress(OSError, ValueError):
        kind = stat.S_IFMT(os.lstat(place).st_mode)
        if kind == stat.S_IFDIR:
            return _whole(Located(path, place, place))
        if kind == stat.S_IFREG:
            line = read_start(place, 4096, follow=False)
            if line.startswith(b"gitdir:"):
                found = _elsewhere(path, work, place, _named(work, line[7:]))
                return replace(found, dot_git=line) if found is not None else None
    return None


def is_whole(git: str, common: str) -> bool:
    """Whether git itself would take it for a repository."""
    return (
        is_head(os.path.join(git, "HEAD"))
        and os.path.isdir(os.path.join(common, "objects"))
        and os.path.isdir(os.path.join(common, "refs"))
    )


def is_head(path: str) -> bool:
    """Whether a file is what git calls a HEAD."""
    with contextlib.suppress(OSError):
        return _HEAD.match(read_start(path, 4096, follow=False)) is not None
    return False


def _whole(one: Located) -> Located | None:
    return one if is_whole(one.git, one.common) else None


def _elsewhere(path: str, work: str, place: str, git: str) -> Located | None:
    """The data of a linked worktree or a submodule, where it names the work tree in turn."""
    common = _line(os.path.join(git, "commondir"))
    if common:
        shared = os.path.normpath(os.path.join(git, common))
        back = _line(os.path.join(git, "gitdir"))
        around = os.path.dirname(os.path.dirname(git))
        if not _same(os.path.join(git, back), place) or not _same(around, shared):
            return None
        return _whole(Located(path, git, shared))
    one = Located(path, git, git)
    named = _WORK_TREE.search(one.settings)
    if named is None or not _same(_named(git, named[1].strip(b'" \t')), work):
        return None
    return _whole(one)


def _line(path: str) -> str:
    with contextlib.suppress(OSError):
        return os.fsdecode(read_start(path, 4096, follow=False).split(b"\n")[0].strip())
    return ""


def _named(directory: str, printed: bytes) -> str:
    name = os.fsdecode(printed.strip().split(b"\n")[0])
    if not name or "\0" in name:
        raise ValueError("no name")
    return os.path.normpath(os.path.join(directory, name))


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


# Whether something may have moved since it was read: a few looks, however many refs there are.


def look(path: str) -> Look:
    """What something looks like; it changes when git moves anything there."""
    try:
        facts = os.lstat(path)
    except OSError:
        return path, 0, 0, 0
    return path, facts.st_ino, facts.st_size, facts.st_mtime_ns


def all_settled(looks: list[Look]) -> bool:
    """Whether nothing that was looked at is so new that its next change could look the same."""
    now = time.time_ns()
    return all(one[3] == 0 or settled(one[3], now) for one in looks)
