"""Whose a place is, and so in whose name root may work there.

The owner of a directory decides where every path through it leads. So the first directory or link on the
way that does not belong to root decides: from there on the path is that user's. No one can
change this answer from below, because everything before it is root's.
"""

from __future__ import annotations

import contextlib
import os
import stat

from ..records import dataclass
from ..spelling import shell_word

MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class Owner:
    """A user that a child of root becomes."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str  # for people and for `sudo -u`; `#1000` where the number has no name
    home: str  # as the machine knows it, or "/"

    @property
    def login(self) -> str:
        """The name for a command that is printed: a bare `#` would begin a comment there."""
        return shell_word(self.name)

    @property
    def in_front(self) -> str:
        """What root puts before a command to have it run by this user; many a machine has no `sudo`."""
        if self.name.startswith("#") or any(map(os.path.exists, _SUDO)):
            return f"sudo -u {self.login}"
        return f"runuser -u {self.login} --"


_SUDO = ("/usr/bin/sudo", "/bin/sudo", "/usr/local/bin/sudo")


def by_root(command: str) -> str:
    """A command that only root may run, as the reader types it."""
    return command if os.geteuid() == 0 else f"sudo {command}"


def foreign_owner(path: str) -> Owner | None:
    """Who has to do what is done at `path`; None where this process may do it itself.

    None for everybody but root: another user can only do what that user may do anyway.
    """
    if os.geteuid() != 0:
        return None
    for facts in _way(path):
        if facts.st_uid != 0:
            return user_of(facts)
    return None


def open_to_others(path: str) -> bool:
    """Whether other users can put things into a directory on the way to this place, or into it."""
    return any(facts.st_uid not in (0, os.geteuid()) or _written_by_others(facts) for facts in _way(path))


def _written_by_others(facts: os.stat_result) -> bool:
    """Whether everybody may write there, or a group that is not ours alone."""
    shared = facts.st_mode & 0o020 and facts.st_gid not in (0, os.getegid())
    return bool(facts.st_mode & 0o002 or shared) and not stat.S_ISLNK(facts.st_mode)


def chosen_by(path: str, uid: int) -> bool:
    """Whether only root and this user decide what a path leads to: what is there may be run by that user."""
    return all(facts.st_uid in (0, uid) and not _anybody_can_swap(facts) for facts in _way(path))


def _anybody_can_swap(facts: os.stat_result) -> bool:
    """Whether everybody may rename what is in it: open to all, and without the sticky bit of /tmp."""
    open_to_all = facts.st_mode & 0o002 and not facts.st_mode & stat.S_ISVTX
    return bool(open_to_all) and not stat.S_ISLNK(facts.st_mode)


def owned_by_us(facts: os.stat_result) -> bool:
    """Whether no other user made this, and so no other chose what it says or where it leads.

    What root made counts for everybody. For root, what others can write does not count: some filesystems
    have no rights to show, but root's own records lie on none of them.
    """
    me = os.geteuid()
    return facts.st_uid in (0, me) and not (me == 0 and facts.st_mode & 0o022)


def ours(descriptor: int) -> bool:
    """Whether an open file is one that we may act on: a plain file of ours, under one name."""
    facts = os.fstat(descriptor)
    return stat.S_ISREG(facts.st_mode) and owned_by_us(facts) and facts.st_nlink <= 1


def _way(path: str) -> list[os.stat_result]:
    """The facts of every directory and link that is met on the way, as the kernel would go."""
    # Where we stand may be gone; it does not matter to a whole path.
    waiting = parts_of(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))
    place, links, found = "/", 0, []
    while waiting:
        part = waiting.pop()
        if part == "..":
            place = os.path.dirname(place)
            continue
        here = os.path.join(place, part)
        try:
            facts = os.lstat(here)
        except OSError:
            break  # not there: the owner of what is above it decides
        found.append(facts)
        if stat.S_ISLNK(facts.st_mode):
            links += 1
            if links > MOST_LINKS:
                break
            target = os.readlink(here)
            place = "/" if target.startswith("/") else place
            waiting += parts_of(target)
        else:
            place = here
    return found


def parts_of(path: str) -> list[str]:
    """The names of a path, the last one first."""
    return [part for part in path.split("/") if part not in ("", ".")][::-1]


def user_of(facts: os.stat_result) -> Owner:
    """Whose a file is."""
    return _user(facts.st_uid, facts.st_gid)


def _user(uid: int, gid: int) -> Owner:
    import pwd

    with contextlib.suppress(KeyError):
        entry = pwd.getpwuid(uid)
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        return Owner(uid, entry.pw_gid, groups, entry.pw_name, entry.pw_dir)
    return Owner(uid, gid or uid, (), f"#{uid}", "/")
