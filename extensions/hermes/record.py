"""Writes down that a call was not protected, where `safekept status` looks for it.

The helper does so itself for every call it hears of; this is for those that it never heard of. The file is
the same, and is written the same way: in turn, whole, under its name, for its owner only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator

from .link import client, read_document

_LONGEST = 500


def remember_failure(data: str, what: str) -> bool:
    """Whether it could be written; nothing is raised."""
    try:
        return _remember(data, what)
    except (OSError, ValueError):
        return False


def _remember(data: str, what: str) -> bool:
    place = os.path.join(data, "integrations")
    client.private_directory(place)
    with _in_turn(place):
        _write(os.path.join(place, "hermes.json"), what)
    return True


@contextlib.contextmanager
def _in_turn(place: str, wait: float = 2.0) -> Iterator[None]:
    """No other process changes a record there meanwhile; one that waits too long goes on all the same.

    The same as `in_turn` of safekept, of which nothing can be imported here.
    """
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        ends = time.monotonic() + wait
        while time.monotonic() < ends:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.002)
        yield
    finally:
        os.close(descriptor)


def _write(path: str, what: str) -> None:
    document = read_document(path)
    now = time.time()
    calls = document.get("calls")
    document |= {
        "host": "hermes",
        "last_call": now,
        "last_failure": {"time": now, "what": what[:_LONGEST]},
        "calls": (calls if isinstance(calls, int) else 0) + 1,
    }
    temporary = f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
