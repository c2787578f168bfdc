"""What root writes where others can write, too: through directories that are held open, never over a link.

Users who can write to a directory on the way can put a link there, or exchange one while root looks away.
So root goes to the place one directory at a time, follows only its own links, and writes by the directory
that is open.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from ..errors import SafekeptError
from ..platform.descriptors import name_of, path_of
from .ownership import MOST_LINKS, open_to_others, parts_of, user_of

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutputOfAnother(SafekeptError):
    code = "output-of-another"


@contextlib.contextmanager
def held_output(path: str) -> Iterator[str]:
    """The name under which a file is to be written: `path`, or for root the same place by an open directory.

    Raises OutputOfAnother where a link of another user is in the way, or something of theirs has
    the name already. A file of root's is replaced as ever.
    """
    path = os.path.abspath(path)
    directory, name = os.path.split(path)
    if os.geteuid() != 0 or not name or not open_to_others(directory):
        yield path
        return
    place = _held(path, directory)
    try:
        _refuse_taken(path, name, place)
        # Where an open directory has no name of its own, its path at this moment has to do.
        yield os.path.join(name_of(place) or path_of(place) or directory, name)
    finally:
        os.close(place)


def _held(path: str, directory: str) -> int:
    """The directory, open; every step is the one that was looked at."""
    place, waiting, links = os.open("/", _DIRECTORY), parts_of(directory), 0
    try:
        while waiting:
            part = waiting.pop()
            facts = os.lstat(part, dir_fd=place) if part != ".." else os.stat("..", dir_fd=place)
            if stat.S_ISLNK(facts.st_mode):
                links += 1
                if facts.st_uid != 0 or links > MOST_LINKS:
                    raise _of_another(path, facts, "a link on the way to it")
                target = os.readlink(part, dir_fd=place)
                waiting += parts_of(target)
                part = "/" if target.startswith("/") else "."
            following = os.open(part, _DIRECTORY, dir_fd=place)
            os.close(place)
            place = following
        return place
    except BaseException:
        os.close(place)
        raise


def _refuse_taken(path: str, name: str, place: int) -> None:
    try:
        facts = os.lstat(name, dir_fd=place)
    except FileNotFoundError:
        return
    several = stat.S_ISREG(facts.st_mode) and facts.st_nlink > 1
    if facts.st_uid != 0 or several:
        raise _of_another(path, facts, "what has that name")


def _of_another(path: str, facts: os.stat_result, what: str) -> OutputOfAnother:
    owner = user_of(facts)
    return OutputOfAnother(
        f"`{path}`: {what} belongs to `{owner.name}` or leads elsewhere, and this command runs as root",
        kept="Nothing was written there",
        next_steps=(
            "Name a place in a directory of root's, `/var/backups/` say",
            f"Or run it as that user: put `{owner.in_front}` in front of it",
        ),
        path=path,
        owner=owner.name,
    )
