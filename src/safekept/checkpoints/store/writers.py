"""Who is writing into the store at this moment.

A take finds that an object is already there, does not write it again, and only later makes the ref
that keeps it. Whoever deletes unreachable objects in between would break a checkpoint that is about
to be reported. So every writer holds a shared lock from its first look at an object until its ref is
there, and maintenance deletes only what was out of reach before an instant at which nobody wrote.
The kernel lets go of the lock of a writer that dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from safekept.core.files import private_directory


def _lock_file(directory: str) -> int:
    place = os.path.join(directory, "locks")
    private_directory(place)
    return os.open(os.path.join(place, "writers"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def writing(directory: str) -> Iterator[None]:
    """Be known as a writer into the store under `directory`; any number of writers at once.

    Waits for nobody but maintenance, which holds the lock only for the few instructions in which it
    sees that there is no writer.
    """
    descriptor = _lock_file(directory)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def nobody_writes(directory: str) -> bool:
    """Whether there was an instant, just now, at which nobody was writing."""
    descriptor = _lock_file(directory)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
