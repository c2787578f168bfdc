"""A settings file of another program: read with care, written whole or not at all.

A link is written through, so that it stays one. Mode, owner and extended attributes stay. A file that
cannot be read, is marked read-only, or is no ordinary file is left alone, and the reason is reported.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

from safekept.core.errors import SafekeptError
from safekept.core.files import durable_file, fsync_directory, write_all
from safekept.core.files.small import read_start
from safekept.core.owner import foreign_owner
from safekept.core.platform.attributes import copy_labels
from safekept.core.records import dataclass

#: No settings file is this large; something else lies there.
LARGEST = 1 << 20


class SettingsLeftAlone(SafekeptError):
    """The file is as it was. `facts["lines"]` has what a person can put in by hand."""

    code = "settings-left-alone"


class SettingsChanged(SafekeptError):
    code, retry = "settings-changed", True


class SettingsNotWritten(SafekeptError):
    code, retry = "settings-not-written", True


class Unfit(Exception):
    """Why a file cannot be edited, in words that go on after its name: "is a directory"."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What is there, and where a write would go."""

    path: str  # as the host names it
    target: str  # where a link leads
    content: bytes | None  # None: there is none


def read_settings(path: str) -> SettingsFile:
    """The file as it is. Raises Unfit where it is not an ordinary file that we may read."""
    if (owner := foreign_owner(path)) is not None:
        raise Unfit(f"belongs to `{owner.name}`, and this runs as root: `{owner.in_front}` is the way")
    try:
        target = os.path.realpath(path, strict=False)
        if os.path.islink(target):  # what is still a link after all links were followed leads to itself
            raise Unfit("is a link that leads in a circle")
        facts = os.stat(target)
    except FileNotFoundError:
        return SettingsFile(path, target, None)
    except NotADirectoryError:
        raise Unfit("cannot be there: what should be a directory above it is a file") from None
    except OSError as error:
        raise Unfit(f"cannot be looked at: {error.strerror or error}") from None
    if stat.S_ISDIR(facts.st_mode):
        raise Unfit("is a directory")
    if not stat.S_ISREG(facts.st_mode):
        raise Unfit("is not an ordinary file")
    if facts.st_size > LARGEST:
        raise Unfit(f"is {facts.st_size:,} bytes long, which no settings file is")
    try:
        content = read_start(target, LARGEST + 1)
    except OSError as error:
        raise Unfit(f"cannot be read: {error.strerror or error}") from None
    return SettingsFile(path, target, content)


def check_writable(file: SettingsFile) -> None:
    """Raises Unfit where a write would fail, or would override what the user decided."""
    if file.content is not None:
        facts = os.stat(file.target)
        if not facts.st_mode & stat.S_IWUSR or not os.access(file.target, os.W_OK):
            raise Unfit("is read-only")
        if facts.st_nlink > 1:
            raise Unfit("has another name (a hard link), and a new file would part the two")
        if facts.st_uid != os.geteuid():
            raise Unfit("belongs to another user")
    above = os.path.dirname(file.target)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise Unfit(f"cannot be made: `{above}` is not a directory")
    if not os.access(above, os.W_OK | os.X_OK):
        raise Unfit(f"cannot be written: `{above}` is read-only")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def missing_directories(target: str) -> list[str]:
    """The directories that would have to be made, outermost first."""
    missing: list[str] = []
    above = os.path.dirname(target)
    while not os.path.lexists(above):
        missing.insert(0, above)
        above = os.path.dirname(above)
    return missing


def write_settings(file: SettingsFile, content: bytes, new_mode: int = 0o600) -> None:
    """Replace what was read by `content`; SettingsChanged where it was written in between."""
    for directory in missing_directories(file.target):
        os.mkdir(directory, 0o700 if new_mode == 0o600 else 0o755)
    if file.content is None:
        mode, owner = new_mode, os.stat(os.path.dirname(file.target))
    else:
        owner = os.stat(file.target)
        mode = stat.S_IMODE(owner.st_mode)
    with durable_file(file.target, mode) as new:
        if file.content is not None and owner.st_gid != os.fstat(new.fileno()).st_gid:
            with contextlib.suppress(OSError):  # a group that we are not in
                os.fchown(new.fileno(), -1, owner.st_gid)
        if file.content is not None:
            copy_labels(file.target, new.fileno())
        write_all(new.fileno(), content)
        check_unchanged(file)


def remove_settings(file: SettingsFile) -> None:
    """Take away a file that connecting made."""
    check_unchanged(file)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(file.target)
        fsync_directory(os.path.dirname(file.target))


def check_unchanged(file: SettingsFile) -> None:
    try:
        now = read_settings(file.path)
    except Unfit:
        now = None
    if now is None or now.content != file.content or now.target != file.target:
        raise SettingsChanged(
            f"`{file.path}` was changed by another program in the meantime",
            kept="The file is as they left it; nothing of ours was written over it",
            next_steps=("Run the command again",),
        )
