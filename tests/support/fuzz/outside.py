"""Whether anything is changed outside one directory: calls are watched, and a tree beside it is compared.

Landing works by descriptors of directories, and Python's audit of `os.open` does not say to which one a name
belongs. So `os.open` tells it here, every name is taken to where it really leads, and beside the directory
lies a small tree of which every name, byte, mode and time must stay.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

#: Calls that change something: which arguments are names, each with the argument that is its directory.
NAMES: dict[str, tuple[tuple[int, int], ...]] = {
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "shutil.rmtree": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.truncate": ((0, -1),),
    "os.setxattr": ((0, -1),),
    "os.removexattr": ((0, -1),),
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_opening = threading.local()


class Outside(BaseException):
    """A change of something that is not below the directory."""


def watch(directory: str) -> None:
    """From now on, raise Outside at every call of this process that would change something elsewhere."""
    inside = (os.path.realpath(directory) + "/", "/dev/null/")
    os.open = _told_apart(os.open)  # type: ignore[assignment]

    def refuse(event: str, path: Any, parent: Any, follows: bool) -> None:
        where = place_of(path, parent, follows)
        if not (where + "/").startswith(inside):
            raise Outside(f"{event} {where}")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int) or not isinstance(flags, int) or not flags & WRITING:
                return  # what a descriptor stands for was looked at when it was opened
            refuse(event, path, getattr(_opening, "parent", None), not flags & os.O_NOFOLLOW)
        elif event in NAMES:
            for name, parent in NAMES[event]:
                # Whether a link is followed is not told. Where it was, the tree outside shows it.
                refuse(event, arguments[name], arguments[parent] if parent >= 0 else None, False)

    sys.addaudithook(hook)


def place_of(path: str | bytes | int, parent: int | None, follows: bool) -> str:
    """Where a name really leads: an open file, a name below an open directory, or below the current one."""
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}").removesuffix(" (deleted)")
    base = os.getcwd() if parent is None or parent < 0 else os.readlink(f"/proc/self/fd/{parent}")
    full = os.path.join(base, os.fsdecode(path))
    if full.startswith("/proc/self/fd/") and "/" not in full[14:]:
        return os.path.realpath(full)
    if follows:
        return os.path.realpath(full)
    head, name = os.path.split(full.rstrip("/"))
    if name in ("", ".", ".."):
        return os.path.realpath(full)
    return os.path.join(os.path.realpath(head), name)


def _told_apart(real: Callable[..., int]) -> Callable[..., int]:
    def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        before = getattr(_opening, "parent", None)
        _opening.parent = dir_fd
        try:
            return real(path, flags, mode, dir_fd=dir_fd)
        finally:
            _opening.parent = before

    return opened


class TreeOutside:
    """Something precious beside the directory. `changed()` says what became of it."""

    def __init__(self, place: str) -> None:
        self.place = place
        os.makedirs(os.path.join(place, "precious"), mode=0o750, exist_ok=True)
        for name in ("secret", "precious/one", "precious/state.db"):
            with open(os.path.join(place, name), "wb") as file:
                file.write(name.encode() * 50)
            os.chmod(os.path.join(place, name), 0o640)
        self.look()

    def look(self) -> None:
        """Take what is there now for how it should be."""
        self.before = dict(self._seen())

    def changed(self) -> str:
        """Names of which something is not as it was; empty where all is."""
        now = dict(self._seen())
        return " ".join(sorted(name for name in now | self.before if now.get(name) != self.before.get(name)))

    def _seen(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        # The time of the last change (ctime) is set by every change, also by one that is taken back.
        for parent, directories, files in os.walk(self.place):
            for name in (".", *directories, *files):
                path = os.path.join(parent, name)
                facts = os.lstat(path)
                content = b""
                if stat.S_ISREG(facts.st_mode):
                    with open(path, "rb") as file:
                        content = file.read()
                yield path, (facts.st_mode, facts.st_uid, facts.st_nlink, facts.st_ctime_ns, content)
