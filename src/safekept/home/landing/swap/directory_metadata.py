"""The outside of directories: their modes and times, opened up for the work and set at its end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from ..landing_trees import LandingTrees
from ..record import DirectoryBefore
from ..tree import Tree

_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_up(ground: LandingTrees, directories: Iterable[DirectoryBefore]) -> dict[tuple[int, str], int]:
    """Let the owner write into read-only directories; returns the modes to put back."""
    opened: dict[tuple[int, str], int] = {}
    if os.geteuid() == 0:
        return opened
    for before in directories:
        if before.mode & 0o300 != 0o300:
            set_directory(ground.targets[before.root], before.path, before.mode | 0o300, None)
            opened[before.root, before.path] = before.mode
    return opened


def set_directory(tree: Tree, path: str, mode: int, mtime_ns: int | None) -> None:
    """Set mode and time of a directory; one that is gone meanwhile is passed over."""
    try:
        descriptor = tree.directory(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    # The walking descriptor cannot be changed through; its name in /proc can, and is not a link.
    name = f"/proc/self/fd/{descriptor}"
    if not os.path.exists(name):
        parent, last = tree.parent(path)
        descriptor = os.open(last, _READ, dir_fd=parent)
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
