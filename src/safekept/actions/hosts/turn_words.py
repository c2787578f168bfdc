"""The person's own words for a turn: the first line of what was said, by which a list is recognised.

They are in private files of their own, one for each session, and nowhere else: not in the journal, in no
point, in no log. `hooks.prompts = false` keeps none, and what was kept before goes with the next turn.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Mapping

from safekept.core.files.small import read_fields, write_document

#: Turns of a session, and sessions, that are remembered; beyond that, and after so many seconds, none is.
_TURNS, _SESSIONS, _FORGOTTEN = 200, 500, 90 * 86400.0
#: Letters of a line.
_LONGEST = 200
#: Letters that are looked through for the first line: a prompt may be a whole book.
_LOOKED_THROUGH = 4_000
_changing = threading.Lock()


def first_line(text: str) -> str:
    """The first line with anything on it, of bounded length, of letters that can be shown."""
    for line in text[:_LOOKED_THROUGH].splitlines():
        words = line[: 2 * _LONGEST].encode("utf-8", "replace").decode()
        words = " ".join("".join(one if one.isprintable() else " " for one in words).split())
        if words:
            return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
    return ""


def keep_words(data_directory: str, session: str, turn: str, words: str) -> None:
    """Remember what a turn is called. Nothing is raised."""
    if not (session and turn and words):
        return
    with contextlib.suppress(OSError), _changing:
        path = _path(data_directory, session)
        known = turn_words(data_directory, session)
        turns = {**known, turn: first_line(words)}
        new = not os.path.exists(path)
        document = {"session": session, "turns": dict(list(turns.items())[-_TURNS:])}
        write_document(path, document, durable=False)
        if new:
            _forget(os.path.dirname(path))


def forget_words(data_directory: str) -> None:
    """None are wanted: those that were kept before go, too. Nothing is raised."""
    directory = _directory(data_directory)
    if os.path.isdir(directory):
        with _changing:
            shutil.rmtree(directory, ignore_errors=True)


def turn_words(data_directory: str, session: str) -> Mapping[str, str]:
    """What the turns of a session are called, by the host's names for them."""
    document = read_fields(_path(data_directory, session))
    turns = document.get("turns")
    if document.get("session") != session or not isinstance(turns, dict):
        return {}
    return {str(turn): first_line(words) for turn, words in turns.items() if isinstance(words, str)}


def _directory(data_directory: str) -> str:
    return os.path.join(data_directory, "turns", "words")


def _path(data_directory: str, session: str) -> str:
    name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return os.path.join(_directory(data_directory), f"{name}.json")


def _forget(directory: str) -> None:
    """Sessions that ended long ago must not pile up."""
    found: list[tuple[float, str]] = []
    with contextlib.suppress(OSError), os.scandir(directory) as listing:
        for item in listing:
            with contextlib.suppress(OSError):
                found.append((item.stat(follow_symlinks=False).st_mtime, item.path))
    for number, (when, path) in enumerate(sorted(found, reverse=True)):
        if number >= _SESSIONS or when < time.time() - _FORGOTTEN:
            with contextlib.suppress(OSError):
                os.unlink(path)
