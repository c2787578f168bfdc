"""Whether a project is still there: live, orphan, or unreachable, and how we know.

"Path not found" is no evidence of deletion: a drive may be unplugged, a share not mounted. A project
counts as an orphan only if the directory around it is provably the one that held it (same filesystem,
same inode, as seen while the project lived) and the project itself is gone from it. Everything
doubtful is `unreachable`, which nothing is ever deleted for. There is this one classifier; status,
prune and maintenance all show its words.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import dataclass

from safekept.core.files import durable_write

LIVE, ORPHAN, UNREACHABLE = "live", "orphan", "unreachable"
_NAME = "place.json"


@dataclass(frozen=True, slots=True)
class Presence:
    """What became of a project."""

    state: str
    reason: str


def remember_place(project_directory: str, project: str) -> None:
    """Write down where a living project lies, if that is not written down already."""
    seen = _identity(project)
    if seen is None or _remembered(project_directory) == seen:
        return
    with contextlib.suppress(OSError):  # a full disk or a read-only one: it is written down another time
        durable_write(os.path.join(project_directory, _NAME), json.dumps(seen).encode())


def is_remembered(project_directory: str) -> bool:
    return os.path.isfile(os.path.join(project_directory, _NAME))


def presence(project_directory: str, project: str) -> Presence:
    """What can be proven about a project's directory."""
    try:
        facts = os.lstat(project)
    except FileNotFoundError:
        return _absent(project_directory, project)
    except OSError as error:
        return Presence(UNREACHABLE, f"cannot be looked at: {error.strerror or error}")
    if stat.S_ISDIR(facts.st_mode):
        return Presence(LIVE, "")
    return Presence(UNREACHABLE, "something that is not a directory lies in its place")


def on_the_same_filesystem(project_directory: str, project: str) -> bool:
    """Whether what is left of the way to a project that is gone lies on the filesystem that held it: then
    nothing is unmounted, and the directories around it were deleted with it."""
    remembered = _remembered(project_directory)
    if remembered is None or remembered["device"] != remembered["parent_device"]:
        return False
    above = os.path.dirname(project)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    try:
        left = (os.lstat(above).st_dev, os.statvfs(above).f_fsid)
    except OSError:
        return False
    return left == (remembered["parent_device"], remembered["filesystem"]) and os.path.isdir(above)


def _absent(project_directory: str, project: str) -> Presence:
    parent = os.path.dirname(project)
    remembered = _remembered(project_directory)
    if remembered is None:
        return Presence(UNREACHABLE, "not there, and never seen by this store while it was")
    if remembered["device"] != remembered["parent_device"]:
        return Presence(UNREACHABLE, "not there; it was a mount point, so it may only be unmounted")
    try:
        around = os.stat(parent)
        filesystem = os.statvfs(parent).f_fsid
    except OSError:
        return Presence(UNREACHABLE, f"`{parent}` is not there either: unmounted, unplugged or moved")
    known = (remembered["parent_device"], remembered["parent_inode"], remembered["filesystem"])
    if (around.st_dev, around.st_ino, filesystem) != known:
        return Presence(UNREACHABLE, f"`{parent}` is not the directory that held it: unmounted or replaced")
    return Presence(ORPHAN, f"gone from `{parent}`, which is the directory that held it")


def _identity(project: str) -> dict[str, int] | None:
    parent = os.path.dirname(project)
    try:
        own, around = os.lstat(project), os.stat(parent)
        filesystem = os.statvfs(parent).f_fsid
    except OSError:
        return None
    if not stat.S_ISDIR(own.st_mode):
        return None
    return {
        "device": own.st_dev,
        "parent_device": around.st_dev,
        "parent_inode": around.st_ino,
        "filesystem": filesystem,
    }


def _remembered(project_directory: str) -> dict[str, int] | None:
    try:
        with open(os.path.join(project_directory, _NAME), "rb") as file:
            found = json.load(file)
        return {name: int(found[name]) for name in ("device", "parent_device", "parent_inode", "filesystem")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
