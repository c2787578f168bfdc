"""A private place for copies that live as long as one command: beside our own data, never in a home.

It may hold a whole database, so it is not in `/tmp`, which is often memory. What a killed command left
there is swept by the next one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator

from safekept.core.events import Event, Listener
from safekept.core.files import private_directory
from safekept.core.processes.process import left_behind, owner_mark

from .context import UserContext


@contextlib.contextmanager
def scratch(context: UserContext) -> Iterator[str]:
    """An empty directory, 0700, that is gone afterwards."""
    base = os.path.join(context.places.data_directory, "scratch")
    private_directory(base)
    _sweep(base)
    place = os.path.join(base, f"{owner_mark()}-{secrets.token_hex(4)}")
    os.mkdir(place, 0o700)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def usable_cache(directory: str, listener: Listener) -> str:
    """The same directory, made where it is missing; empty, and said so, where it cannot be used."""
    if not directory:
        return ""
    try:
        private_directory(directory)
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
        reason = "it cannot be written"
    except OSError as error:
        reason = error.strerror or str(error)
    listener(
        Event("cache", text=f"Note: the cache `{directory}` cannot be used: {reason}; all files are read")
    )
    return ""


def copies_directory(context: UserContext, cache: str) -> str:
    """Where private copies of databases go while they are read: never into the home."""
    directory = cache or os.path.join(context.places.data_directory, "scratch")
    private_directory(directory)
    return directory


def _sweep(base: str) -> None:
    for name in os.listdir(base):
        place = os.path.join(base, name)
        with contextlib.suppress(OSError):
            if left_behind(name, os.lstat(place).st_mtime):
                shutil.rmtree(place, ignore_errors=True)
