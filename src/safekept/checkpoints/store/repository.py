"""The bare repository itself: made once, looked at on every opening, mended where pieces are missing.

What is mended is only ever an empty shell: directories, `HEAD`, the few lines of configuration. No
opening deletes an object or a ref. It costs a handful of looks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from safekept.core.errors import SafekeptError
from safekept.core.files import durable_write, private_directory
from safekept.core.files.belt import Belt

from .refs import sweep_stale_lock

# Who is writing into the store at this moment. A take finds that an object is already there, does not
# write it again, and only later makes the ref that keeps it. A process that deletes unreachable objects in
# between would break a checkpoint that is about to be reported. So every writer holds a shared lock from
# its first look at an object until its ref is there, and maintenance deletes only what was out of reach
# before an instant without a writer. The kernel lets go of the lock of a writer that dies.


def _lock_file(directory: str) -> int:
    place = os.path.join(directory, "locks")
    private_directory(place)
    return os.open(os.path.join(place, "writers"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def writing(directory: str) -> Iterator[None]:
    """Be known as a writer into the store under `directory`; any number of writers at once.

    Waits for maintenance alone, which holds the lock only for the few instructions in which it
    sees that there is no writer.
    """
    descriptor = _lock_file(directory)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def no_writer_now(directory: str) -> bool:
    """Whether there was an instant, just now, without a writer."""
    descriptor = _lock_file(directory)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


_HEAD = b"ref: refs/heads/main\n"
_CONFIG = b"""\
[core]
\trepositoryformatversion = 0
\tbare = true
\tlogAllRefUpdates = false
\tfsync = all
[gc]
\tauto = 0
[maintenance]
\tauto = false
[receive]
\tautogc = false
"""
#: Bytes in are bytes out, whatever a project's own attributes say (`!` because `-` makes git die here).
_ATTRIBUTES = b"* -text -ident -filter !working-tree-encoding !eol\n"
#: A random name for the store; without it (or with another) no project's cache is believed.
IDENTITY = "info/safekept"
DIRECTORIES = ("objects/pack", "objects/info", "refs/heads", "refs/safekept", "info")
#: The directories that a seat belt closes, beside the root. What lies beside the repository only costs time.
_CLOSED = ("objects", "objects/*", "refs", "refs/*", "refs/safekept/*", "info")
_BELT = "info/safekept-belt"
_CLOSED_REPOSITORIES = ("*", "*/objects", "*/objects/pack", "*/objects/info", "*/refs", "*/info")


class StoreUnusable(SafekeptError):
    code = "checkpoint-store-unusable"


def belt_of(directory: str, wanted: bool | None = None) -> Belt:
    """The seat belt of the repository in that directory."""
    return Belt(directory, _CLOSED, _BELT, wanted)


def repositories_belt(directory: str, wanted: bool | None = None) -> Belt:
    """The seat belt of what is held of the projects' own repositories, beside the checkpoint store."""
    return Belt(os.path.join(directory, "repositories"), _CLOSED_REPOSITORIES, "belt", wanted)


def prepare_repository(directory: str, belt: Belt) -> list[str]:
    """Make or mend the repository; returns what was missing from one that was there before."""
    existed = os.path.isdir(os.path.join(directory, "objects"))
    mended: list[str] = []
    try:
        private_directory(directory)
        for name in DIRECTORIES:
            path = os.path.join(directory, name)
            if not os.path.isdir(path):
                belt.open_all()
                _make_directory(directory, name)
                mended.append(name)
        files = {"HEAD": _HEAD, "config": _CONFIG, "info/attributes": _ATTRIBUTES}
        for name, content in (*files.items(), (IDENTITY, os.urandom(16).hex().encode())):
            path = os.path.join(directory, name)
            if not _has_content(path):
                belt.open(os.path.dirname(path))
                durable_write(path, content)
                mended.append(name)
    except OSError as error:
        raise StoreUnusable(
            f"The checkpoint store at `{directory}` cannot be used: {error.strerror or error}",
            kept="The project was not touched, and no checkpoint was changed",
            next_steps=("Make room or make the place writable; the next command tries again",),
            path=directory,
        ) from error
    for name in ("packed-refs.lock", "HEAD.lock", "config.lock", "shallow.lock", "gc.pid.lock"):
        path = os.path.join(directory, name)
        if not os.path.lexists(path):
            continue
        belt.open(directory)
        if sweep_stale_lock(path):
            mended.append(name)
    return mended if existed else []


def _make_directory(base: str, name: str) -> None:
    path = base
    for part in name.split("/"):
        path = os.path.join(path, part)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                # Something that is no directory stands where one must be: it is kept, beside.
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path, f"{path}.displaced-{os.getpid()}")
                os.mkdir(path, 0o700)


def _has_content(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False
