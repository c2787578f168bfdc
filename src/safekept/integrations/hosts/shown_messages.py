"""What a session was already told: hooks are a process per call, and nobody wants a sentence twice.

What comes up on an event on which nothing can be said waits for the next one. Losing all of it costs a
repeated sentence, so nothing here is synced and nothing raises.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time

from safekept.core.files import private_directory

#: A session that was told nothing for so long is over (seconds).
_OVER = 7 * 86400
#: Of what waits, in characters.
_WAITING = 20_000


class Said:
    """The memory of one session: the marks of what was said, and the sentences that wait."""

    def __init__(self, data_directory: str, host: str, session: str) -> None:
        self.directory = os.path.join(data_directory, "integrations", "said")
        self._marks = os.path.join(self.directory, f"{host}-{_mark(session)}")
        self._waiting = self._marks + ".later"

    def not_said_yet(self, sentences: list[str]) -> list[str]:
        """What waited and what came up, without what this session has heard; it counts as said now."""
        waiting = _read(self._waiting).splitlines()
        if not sentences and not waiting:
            return []
        known = set(_read(self._marks).split())
        new = {mark: one for one in (*waiting, *sentences) if (mark := _mark(one)) not in known}
        if new:
            self._append(self._marks, new)
        if waiting:
            with contextlib.suppress(OSError):
                os.unlink(self._waiting)
        return list(new.values())

    def keep_for_later(self, sentences: list[str]) -> None:
        """For the next event on which something can be said."""
        if sentences and len(_read(self._waiting)) < _WAITING:
            self._append(self._waiting, sentences)

    def _append(self, path: str, lines: dict[str, str] | list[str]) -> None:
        with contextlib.suppress(OSError):
            private_directory(self.directory)
            _sweep(self.directory)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                file.write("".join(f"{line}\n" for line in lines))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def _sweep(directory: str) -> None:
    """Sessions end without saying so: a crash, a closed terminal."""
    now = time.time()
    with os.scandir(directory) as found:
        for entry in found:
            with contextlib.suppress(OSError):
                if now - entry.stat(follow_symlinks=False).st_mtime > _OVER:
                    os.unlink(entry.path)


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
