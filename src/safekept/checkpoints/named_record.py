"""The names that tools named in a project lately, present or absent.

A file that the rules hide, or in a directory that is not walked, is looked at because somebody named it.
One that was absent then leaves no row to look at again, so marks and undo points would not see that it
was made. This list is what they look at beside. It can be lost: then it is gathered from the checkpoints.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable

from safekept.core.errors import SafekeptError
from safekept.core.files import quick_write, write_all

from .meta import escape, unescape
from .store import Store

NAME = "named"
#: So many names are remembered, the newest.
MOST = 4096


class NamedRecord:
    """The list of one project; `names` are relative to it."""

    def __init__(self, store: Store, project: str, directory: str) -> None:
        self._path = os.path.join(directory, NAME)
        self.names: dict[bytes, None] = {}
        self._lines = 0
        try:
            with open(self._path, "rb") as file:
                lines = [line for line in file.read().split(b"\n") if line]
        except OSError:
            self.add(_gathered(store, project), anew=True)
            return
        self._lines = len(lines)
        for line in lines[-MOST:]:
            self.names[unescape(line)] = None

    def add(self, names: Iterable[bytes], *, anew: bool = False) -> None:
        """Remember more. Told before the checkpoint is made: one too many, never one too few."""
        fresh = [name for name in dict.fromkeys(names) if name not in self.names]
        self.names.update(dict.fromkeys(fresh))
        if anew or self._lines + len(fresh) > 2 * MOST:
            self.names = dict.fromkeys(list(self.names)[-MOST:])
            quick_write(self._path, b"".join(escape(name) + b"\n" for name in self.names))
            self._lines = len(self.names)
        elif fresh:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            try:
                # A name that a killed process left torn is ended by the line feed in front.
                write_all(descriptor, b"\n" + b"".join(escape(name) + b"\n" for name in fresh))
            finally:
                os.close(descriptor)
            self._lines += len(fresh)


def _gathered(store: Store, project: str) -> list[bytes]:
    """What the checkpoints themselves say that was named, oldest first."""
    found: dict[bytes, None] = {}
    for point in reversed(store.checkpoints(project)):
        with contextlib.suppress(SafekeptError, json.JSONDecodeError):
            named = store.about(point).get("named")
            for name in named if isinstance(named, list) else ():
                found[os.fsencode(str(name))] = None
    return list(found)
