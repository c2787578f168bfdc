"""A quick look at a home: does it still have what its last snapshot counted, and are its databases databases?

This is done each time the status is asked for. Settings and databases are read only where they changed
since the snapshot, and what takes too long for that, or is locked, is named as not read. Unknown is never
zero: what is a link or cannot be read says nothing about loss.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import field

from safekept.core.files.small import read_regular, read_start
from safekept.core.records import dataclass
from safekept.core.sqlite import count_rows
from safekept.core.sqlite.format import HEADER

from ..layout.layout import Layout
from ..layout.patterns import Matcher
from ..layout.rules import Count
from .loss_rules import Counts, literal_places

#: So many names below one place are looked at.
_MOST = 4000
#: Seconds that all databases of a home may take: counting the rows of one takes a millisecond or two.
_SECONDS = 0.1
#: Settings beyond this take longer to understand than a quick look may.
_LARGEST_SETTINGS = 64 << 10
#: Clocks of files tick slowly, some once a second: what changed shortly before a snapshot may be younger.
_UNSURE, _UNSURE_BY_SECONDS = 50_000_000, 2_000_000_000


class _Unknown(Exception):
    """A quick look cannot tell."""


@dataclass(slots=True)
class QuickLook:
    """What a look that must be fast may do, and what it did not read."""

    home: str
    layout: Layout
    since: float  # what did not change after that has the counts that it had
    isolated: bool = False  # this process may have databases open: none is opened here
    unread: list[str] = field(default_factory=list)  # settings and databases that changed and were not read
    _left: float = _SECONDS
    _rows: dict[str, dict[str, int] | None] = field(default_factory=dict)

    def unchanged(self, path: str) -> bool:
        """Whether a file is as it was then. The time of its last change cannot be set back."""
        for name in (path, path + "-wal"):
            facts = _look(os.path.join(self.home, name))
            if facts is None:
                continue
            changed = max(facts.st_mtime_ns, facts.st_ctime_ns)
            unsure = _UNSURE if facts.st_ctime_ns % 1_000_000_000 else _UNSURE_BY_SECONDS
            if changed > self.since * 1e9 - unsure:
                return False
        return True

    def rows(self, path: str, name: str) -> int:
        """How many rows a class has in a database; all classes of one are asked for at once."""
        if path not in self._rows:
            queries = {
                count.name: count.query
                for count, matcher in self.layout.counted
                if count.kind == "query" and matcher.covers(path)
            }
            began = time.monotonic()
            may = not self.isolated and self._left > 0
            full = os.path.join(self.home, path)
            self._rows[path] = count_rows(full, queries, self._left) if may else None
            self._left -= time.monotonic() - began
        found = self._rows[path]
        if found is None:
            raise self.not_read(path)
        return found[name]

    def not_read(self, path: str) -> _Unknown:
        if path not in self.unread:
            self.unread.append(path)
        return _Unknown(path)


def count_now(home: str, layout: Layout, before: Counts, quick: QuickLook | None = None) -> Counts:
    """What is left of each class of which there was any. A profile that is gone is not in the answer.

    Without `quick` settings are read however long that takes, and rows of databases are not counted
    here. Where the file itself is gone they are 0.
    """
    found: dict[str, dict[str, int | None]] = {}
    for profile, counts in before.items():
        base = "" if profile == "default" else profile
        if base and _look(os.path.join(home, base)) is None:
            continue
        found[profile] = {
            count.name: _counted(home, base, count, matcher, quick, was)
            for count, matcher in layout.counted
            if (was := counts.get(count.name))
        }
    return found


def no_databases(
    home: str, layout: Layout, paths: Iterable[str], *, isolated: bool = False
) -> dict[str, str]:
    """Which of these files are no databases any more, and what they are. Those that are gone are not here.

    `isolated`: by another process, where this one may hold locks on them.
    """
    found = {}
    for path in paths:
        full = os.path.join(home, path)
        facts = _look(full)
        if facts is None or not stat.S_ISREG(facts.st_mode):
            continue
        if facts.st_size == 0 and not layout.tables_of(path):
            continue  # one that nothing was ever written to has no bytes, and is sound
        try:
            head = _beginning(full, isolated) if facts.st_size else b""
        except OSError:
            continue  # the doctor says why
        if head != HEADER:
            from .databases import not_a_database  # loads much, and hardly ever is anything wrong

            found[path] = not_a_database(path, facts.st_size, head).text
    return found


def _beginning(full: str, isolated: bool) -> bytes:
    if isolated:
        from .databases import beginning

        return beginning(full, isolated=True)[1]
    return read_start(full, len(HEADER), follow=False)


def _look(full: str) -> os.stat_result | None:
    """None where nothing is there; where that cannot be known, as if something were."""
    try:
        return os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return os.stat_result((0,) * 10)


def _counted(
    home: str, base: str, count: Count, matcher: Matcher, quick: QuickLook | None, was: int
) -> int | None:
    try:
        files = list(_files(home, base, count, matcher))
        if count.by_name:
            return len(files)
        if files and quick is not None and _costly(count):
            if all(quick.unchanged(path) for path, _ in files):
                return was
        elif files and count.kind == "query":
            return None
        return sum(_in_file(home, path, facts, count, quick) for path, facts in files)
    except (_Unknown, OSError):
        return None


def _costly(count: Count) -> bool:
    return count.kind == "query" or count.kind.startswith("yaml")


def _in_file(home: str, path: str, facts: os.stat_result, count: Count, quick: QuickLook | None) -> int:
    from ..census import LARGEST, count_document

    if quick is not None and count.kind == "query":
        return quick.rows(path, count.name)
    if not facts.st_size:
        return 0
    if quick is not None and _costly(count) and facts.st_size > _LARGEST_SETTINGS:
        raise quick.not_read(path)
    if facts.st_size > LARGEST:
        raise _Unknown
    found = count_document(read_regular(os.path.join(home, path), LARGEST, follow=False), count)
    if found is None:
        raise _Unknown
    return found


def _files(home: str, base: str, count: Count, matcher: Matcher) -> Iterator[tuple[str, os.stat_result]]:
    """The files that a class counts, in one profile."""
    places = literal_places(count)
    if len(places) < len(count.patterns):
        raise _Unknown  # it may be anywhere
    looked = 0
    for place in dict.fromkeys(places):
        top = f"{base}/{place}" if base else place
        waiting = [top]
        while waiting:
            path = waiting.pop()
            facts = _look(os.path.join(home, path))
            looked += 1
            if looked > _MOST:
                raise _Unknown
            if facts is None:
                continue
            if stat.S_ISDIR(facts.st_mode):
                waiting += [f"{path}/{name}" for name in os.listdir(os.path.join(home, path))]
            elif not stat.S_ISREG(facts.st_mode):
                if path == top or matcher.covers(path):
                    raise _Unknown  # a link: what is behind it is not looked at
            elif matcher.covers(path):
                yield path, facts
