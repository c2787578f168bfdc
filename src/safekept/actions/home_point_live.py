"""The files of a home as they are, looked at without following a link: what a home point is compared with."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from safekept.core.entries import Entry
from safekept.core.sqlite import HEADER, SIDECARS, is_database


class LiveFiles:
    """One look at a home; what lies behind a link is not there."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._links: dict[str, bool] = {"": False}

    def full(self, path: str) -> str:
        return os.path.join(self._home, path)

    def look(self, path: str) -> os.stat_result | None:
        """What is at a path, or nothing."""
        if self._behind_link(os.path.dirname(path)):
            return None
        try:
            return os.lstat(self.full(path))
        except OSError:
            return None

    def below(self, paths: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
        """Everything that lies at or in these paths, directories before what is in them."""
        waiting = list(reversed(paths))
        while waiting:
            path = waiting.pop()
            facts = self.look(path)
            if facts is None:
                continue
            yield path, facts
            if stat.S_ISDIR(facts.st_mode):
                try:
                    names = sorted(os.listdir(self.full(path)), reverse=True)
                except OSError:
                    continue
                waiting += [f"{path}/{name}" for name in names]

    def same(self, entry: Entry, facts: os.stat_result) -> bool:
        """Whether a file has the stored bytes and mode; equal size and time will do for the bytes."""
        if facts.st_size != entry.size or (facts.st_mode ^ entry.mode) & 0o777:
            return False
        if facts.st_mtime_ns == entry.mtime_ns:
            return True
        if entry.equals is None:
            return False
        try:
            descriptor = os.open(self.full(entry.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return bool(entry.equals(descriptor))
        finally:
            os.close(descriptor)

    def holds_database(self, path: str, facts: os.stat_result, whole: bool = True) -> bool:
        """Whether it is a SQLite database, a file beside one, or with `whole` a directory with one in it."""
        if stat.S_ISDIR(facts.st_mode):
            inside = self.below((path,)) if whole else ()
            return any(self._is_database(one, found) for one, found in inside)
        return self._is_database(path, facts)

    def has_log(self, path: str) -> bool:
        """Whether a database has something in its log: then its own size and time say little."""
        log = self.look(path + "-wal")
        return log is not None and log.st_size > 0

    def _is_database(self, path: str, facts: os.stat_result) -> bool:
        """By its header, where its size is one that a database can have."""
        for suffix in SIDECARS:
            if path.endswith(suffix) and self.look(path.removesuffix(suffix)) is not None:
                return True
        if not stat.S_ISREG(facts.st_mode) or facts.st_size < 512 or facts.st_size % 512:
            return False
        try:
            with open(self.full(path), "rb") as file:
                return is_database(file.read(len(HEADER)))
        except OSError:
            return False

    def _behind_link(self, directory: str) -> bool:
        if directory not in self._links:
            above = self._behind_link(os.path.dirname(directory))
            self._links[directory] = above or os.path.islink(self.full(directory))
        return self._links[directory]
