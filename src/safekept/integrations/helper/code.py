"""Which code this is: a helper that was started before an update must not answer for what is on disk now."""

from __future__ import annotations

import os
import sys
import time

from .client import code_identity

#: A look at all loaded files costs about half a millisecond; it is not done more often than this.
_SECONDS = 1.0
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def code_on_disk() -> str:
    """The identity of the code that this process runs, as it is on disk now."""
    return code_identity(_PACKAGE)


class CodeWatch:
    """Whether any file that this process loaded was changed since it began; for a checkout that is
    worked on. What is loaded later must be as it was then, or it may not fit to the rest."""

    def __init__(self) -> None:
        self.code = code_on_disk()
        self._began = _modified_times()
        self._looked = 0.0
        self._changed = False

    def changed(self) -> bool:
        """Looks at most once in a second."""
        now = time.monotonic()
        if not self._changed and now - self._looked >= _SECONDS:
            self._looked = now
            self._changed = any(_modified(path) != self._began.get(path, -1) for path in _loaded())
        return self._changed


def _modified_times() -> dict[str, int]:
    return {
        path: _modified(path)
        for directory, _, names in os.walk(_PACKAGE)
        for name in names
        if name.endswith(".py")
        for path in (os.path.join(directory, name),)
    }


def _loaded() -> list[str]:
    """The files of our package that this process runs."""
    inside = _PACKAGE + os.sep
    paths = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return [path for path in paths if path and path.startswith(inside)]


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
