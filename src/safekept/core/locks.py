"""Locks that belong to a living process.

The kernel lets go of them when it dies, so no leftover can wedge anything, whatever the file on disk says.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator

from .errors import SafekeptError
from .files import private_directory
from .owner import ours

#: Bytes for the name of the holder of a lock.
_HOLDER = 200


class AlreadyRunning(SafekeptError):
    code, exit_code, retry = "already-running", 11, True


class LockNotOurs(SafekeptError):
    code = "lock-not-ours"


@contextlib.contextmanager
def process_lock(path: str, doing: str, wait: float = 0.0, *, remove: bool = False) -> Iterator[None]:
    """Hold a lock that dies with this process.

    Raises AlreadyRunning, naming the holder, when another living process has it after `wait` seconds.
    With `remove` the file goes while the lock is still held; one that was waiting for it sees that what it
    got is no longer what the name means, and takes the lock again.
    """
    private_directory(os.path.dirname(path))
    deadline = time.monotonic() + wait
    descriptor = _open_own(path)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_named(descriptor, path):
                    break
                os.close(descriptor)
                descriptor = -1
                descriptor = _open_own(path)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise _held(descriptor, path) from None
                time.sleep(0.05)
        # Who holds it is a courtesy: on a full disk the lock holds all the same.
        with contextlib.suppress(OSError):
            holder = json.dumps({"pid": os.getpid(), "doing": doing, "since": time.time()}).encode()
            # Padded and written over: emptying it first would make ext4 write it out at every close.
            os.pwrite(descriptor, holder.ljust(_HOLDER), 0)
            if os.fstat(descriptor).st_size > max(len(holder), _HOLDER):
                os.ftruncate(descriptor, max(len(holder), _HOLDER))
        try:
            yield
        finally:
            if remove:
                with contextlib.suppress(OSError):
                    os.unlink(path)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _open_own(path: str) -> int:
    """The lock's file, made where there is none. It is written into, so it must be our own: no link,
    no second name of another file, no pipe."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _not_ours(path) from error
        raise
    if not ours(descriptor):
        os.close(descriptor)
        raise _not_ours(path)
    return descriptor


def _not_ours(path: str) -> LockNotOurs:
    return LockNotOurs(
        f"`{path}` is not a lock of ours: it is a link, no plain file, or others can write it",
        kept="It was neither written nor followed, and nothing was changed",
        next_steps=("Find out who put it there, move it away, then run the command again",),
        lock=path,
    )


def _is_named(descriptor: int, path: str) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def sweep_locks(directory: str, prefix: str) -> None:
    """Take away lock files of this name that no process holds."""
    with contextlib.suppress(OSError):
        for item in os.listdir(directory):
            if item.startswith(prefix) and item.endswith(".lock"):
                with (
                    contextlib.suppress(OSError, AlreadyRunning),
                    process_lock(os.path.join(directory, item), "sweep", remove=True),
                ):
                    pass


def _held(descriptor: int, path: str) -> AlreadyRunning:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        who = f"Process {holder['pid']} ({holder['doing']})"
    except (ValueError, KeyError, TypeError):
        who = "Another process"
    return AlreadyRunning(
        f"{who} is at work here",
        kept="Nothing was changed by this command",
        next_steps=("Wait for it to finish, then run the command again",),
        lock=path,
    )


def lock_is_held(path: str) -> bool:
    """Whether a living process holds the lock on this file; asking changes nothing, and makes no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def in_turn(directory: str, wait: float = 2.0) -> Iterator[None]:
    """Read and write again what lies in a directory, one process after the other.

    For small records, of which the last one written must not undo the one before it. A caller whose turn
    does not come in time goes on all the same: a stopped process stops no other.
    """
    descriptor = -1
    with contextlib.suppress(OSError):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(directory, flags)
        deadline = time.monotonic() + wait
        while not _locked(descriptor) and time.monotonic() < deadline:
            time.sleep(0.002)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
