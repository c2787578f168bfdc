"""Which project a path belongs to.

A project is the work tree of the nearest git repository above a file, with all packages in it: one
project, one history, one set of ignore rules. Where there is no repository it is the nearest directory
with another marker, and where there is none of those, the directory around it that an agent works in. Else
it is the directory that the file is in or will be in, of which only named files are taken. Directories that
hold everything (the root, a home, a shared temporary directory, an agent's home) are never one, marker or
not: a `package.json` in `/tmp` does not make a project of it. All of it is judged on resolved
paths, so a link cannot lead around the rule.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Collection, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.files import durable_write
from safekept.core.files.small import read_document
from safekept.core.next_step import NextStep
from safekept.core.owner import foreign_owner
from safekept.core.records import dataclass

from .scan.rules import SECRET_DIRECTORIES

MARKERS = (
    ".git pyproject.toml setup.py package.json Cargo.toml go.mod Makefile CMakeLists.txt pom.xml "
    "build.gradle build.gradle.kts .hg .svn Gemfile composer.json mix.exs deno.json Package.swift "
    "pubspec.yaml flake.nix requirements.txt"
).split()
#: Never a project, on any machine.
SHARED = (
    "/ /tmp /var/tmp /dev/shm /home /root /usr /etc /var /opt /srv /mnt /media /run /Users /private/tmp "
    "/private/var/tmp"
).split()


#: Scratch places of all users: what lies there is somewhere, and is not the machine's.
SCRATCH = "/tmp /var/tmp /dev/shm /private/tmp /private/var/tmp".split()  # noqa: S108 - not written to
#: The machine's own; below those of the second list nothing is a project.
SYSTEM = (
    "/bin /lib /lib32 /lib64 /sbin /usr/bin /usr/lib /usr/lib64 /usr/local /usr/sbin /usr/share /usr/src "
    "/var/lib /var/log /var/cache /var/spool /System /Library /Applications /Volumes"
).split()
KERNEL = "/proc /sys /dev /boot".split()


#: In place of a marker: an agent works there.
WORKED_IN = "worked in"


@dataclass(frozen=True, slots=True)
class Root:
    """A project's directory, and what was found in it. Without a marker only named files are taken."""

    path: str  # resolved
    marker: str  # "" where there is none

    @property
    def walked(self) -> bool:
        return bool(self.marker)


def project_id(path: str) -> str:
    """First 16 hexadecimal digits of the SHA-256 of the resolved path, as Hermes has it."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def find_root(path: str, *, forbidden: Collection[str] = (), workplaces: Sequence[str] = ()) -> Root | None:
    """The project of a file or directory, which need not exist. None where nothing may be taken at all.

    `forbidden`: homes and other directories that are never a project; what lies below them may be.
    `workplaces`: directories that an agent works in; the first that may be one and holds the path is its
    project where no marker is above it.
    """
    never = {os.path.realpath(place) for place in (*SHARED, *forbidden) if place}
    start = os.path.realpath(path)
    if not os.path.isdir(start):  # a file, or a link to one: it belongs where it lies
        start = os.path.realpath(os.path.dirname(path) or ".")
    existing = start
    while not os.path.isdir(existing):  # a file in a directory that is yet to be made
        existing = os.path.dirname(existing)
    if existing != start and existing in _elsewhere(forbidden):
        return None  # nothing of it is on this machine: a path of a container, say
    nearest: Root | None = None
    current = existing
    while True:
        if current not in never:
            if os.path.lexists(os.path.join(current, ".git")):
                return Root(current, ".git")
            if nearest is None:
                found = next((m for m in MARKERS if os.path.lexists(os.path.join(current, m))), "")
                nearest = Root(current, found) if found else None
        above = os.path.dirname(current)
        if above == current:
            break
        current = above
    if nearest is not None:
        return nearest
    for place in map(os.path.realpath, filter(None, workplaces)):
        if f"{start}/".startswith(f"{place.rstrip('/')}/") and _may_be_whole(place, forbidden):
            return Root(place, WORKED_IN)
    return Root(existing if os.path.lexists(start) else start, "")


def _may_be_whole(place: str, forbidden: Collection[str]) -> bool:
    """Whether a directory without a marker may be taken whole; one for secrets may not."""
    if any(part in SECRET_DIRECTORIES for part in place.split("/")):
        return False
    return os.path.isdir(place) and not holds_too_much(place, forbidden)


def _elsewhere(forbidden: Collection[str]) -> set[str]:
    """Directories that every machine has, so that finding one of them says nothing of what is in it."""
    here = {os.path.realpath(place) for place in (*SCRATCH, *forbidden) if place}
    return {os.path.realpath(place) for place in SHARED} - here


def holds_too_much(path: str, forbidden: Collection[str] = ()) -> bool:
    """Whether a directory is never one project, even if a person names it; `path` is resolved.

    The root, any user's home, shared, temporary and system directories, and the `forbidden`: an agent's
    home, our own data.
    """
    if path in {os.path.realpath(place) for place in (*SHARED, *SYSTEM, *KERNEL, *forbidden) if place}:
        return True
    if path.startswith(tuple(place + "/" for place in KERNEL)) and not path.startswith("/dev/shm/"):  # noqa: S108
        return True
    return os.path.dirname(path) in ("/home", "/Users") or path in _homes_of_people()


def _homes_of_people() -> set[str]:
    """Of root and everybody who is no service, as far as this machine knows them."""
    try:
        import pwd

        people = [entry for entry in pwd.getpwall() if entry.pw_uid == 0 or entry.pw_uid >= 500]
        return {os.path.realpath(entry.pw_dir) for entry in people if entry.pw_dir.startswith("/")}
    except (ImportError, OSError):
        return set()


# Whether a project is still there: live, orphan, or unreachable, and how we know. "Path not found" is no
# evidence of deletion: a drive may be unplugged, a share not mounted. A project counts as an orphan only
# if the directory around it is provably the one that held it (same filesystem, same inode, as seen while
# the project lived) and the project itself is gone from it. Everything doubtful is `unreachable`, which
# nothing is ever deleted for. There is this one classifier; status, prune and maintenance all show its
# words.

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
    names = ("device", "parent_device", "parent_inode", "filesystem")
    path = os.path.join(project_directory, _NAME)
    return read_document(path, lambda found: {name: int(found[name]) for name in names}, None)


class ProjectOfAnother(SafekeptError):
    code = "project-of-another"


def refuse_others(project: str) -> None:
    """Raise where root would have to work in another user's project. Costs other users one comparison.

    Whatever reads or changes a project asks here, so that no face can forget it. Before that, a command line
    begins again as the owner (`core/owner/handover.py`), and a hook leaves its part to a child (`as_owner`).
    """
    owner = foreign_owner(project)
    if owner is None:
        return
    raise ProjectOfAnother(
        f"`{project}` belongs to `{owner.name}`, and this runs as root",
        kept="Nothing there was read or changed",
        next_steps=(
            f"Run the same command with `{owner.in_front}` in front of it",
            NextStep("rollback", ("--dir", project), before="Or begin with what is kept there already:"),
        ),
        project=project,
        owner=owner.name,
    )
