"""A quick look at a home: does it still have what its last snapshot counted, and are its databases databases?

This is done each time the status is asked for. Settings and databases are read only where they changed
since the snapshot, and what takes too long for that, or is locked, is named as not read. Databases that
changed since they were last found sound are checked, or named as not checked. Unknown is never zero: what is
a link or cannot be read says nothing about loss.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from safekept.core.files.small import read_regular, read_start
from safekept.core.records import dataclass
from safekept.core.sqlite import look_quickly
from safekept.core.sqlite.format import HEADER

from ..layout.layout import Layout
from ..layout.patterns import Matcher
from ..layout.rules import FILE, Count
from .loss_rules import Counts, literal_places

if TYPE_CHECKING:
    from safekept.core.entries import DatabaseFacts

#: So much of a file that changed is read to see that there is something in it.
_START = 4096
#: So many names below one place are looked at.
_MOST = 4000
#: Seconds that all databases of a home may take: counting the rows of one takes a millisecond or two.
_SECONDS = 0.1
#: Seconds that the checks of all of them may take, and the size beyond which one would take longer.
_SECONDS_TO_CHECK, _LARGEST_CHECKED = 0.5, 64 << 20
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
    sound: Mapping[str, float] = field(default_factory=dict)  # database -> when it was last found sound
    unread: list[str] = field(default_factory=list)  # settings and databases that changed and were not read
    blank: list[str] = field(default_factory=list)  # counted files that changed and hold nothing now
    _left: float = _SECONDS
    _left_to_check: float = _SECONDS_TO_CHECK
    _facts: dict[str, DatabaseFacts | None] = field(default_factory=dict)

    def unchanged(self, path: str, since: float | None = None) -> bool:
        """Whether a file is as it was then. The time of its last change cannot be set back."""
        since = self.since if since is None else since
        found = (_look(os.path.join(self.home, name)) for name in (path, path + "-wal"))
        return not any(facts is not None and _changed(facts, since) for facts in found)

    def rows(self, path: str, name: str) -> int:
        """How many rows a class has in a database."""
        facts = self.look(path)
        if facts is not None and facts.state == "damaged":
            raise _Unknown(path)  # that is the news, and not how much of it can still be read
        count = facts.counts.get(name) if facts is not None else None
        if count is None:
            raise self.not_read(path)
        return count

    def look(self, path: str) -> DatabaseFacts | None:
        """What is to be had quickly of a database, asked for once; None: nothing."""
        if path not in self._facts:
            queries = {
                count.name: count.query
                for count, matcher in self.layout.counted
                if count.kind == "query" and matcher.covers(path)
            }
            full = os.path.join(self.home, path)
            check = not self._known_sound(path) and _size(full) <= _LARGEST_CHECKED
            check = check and self._left_to_check > 0
            left = self._left_to_check if check else self._left
            began = time.monotonic()
            may = not self.isolated and left > 0
            self._facts[path] = look_quickly(full, queries, left, check) if may else None
            if check:
                self._left_to_check -= time.monotonic() - began
            else:
                self._left -= time.monotonic() - began
        return self._facts[path]

    def check(self, paths: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """Those that are damaged now, with what is wrong, and those of which that is not known.

        One that is as it was when it was found sound is not looked at again.
        """
        damaged, unchecked = dict[str, str](), list[str]()
        for path in paths:
            facts = _look(os.path.join(self.home, path))
            if facts is None or not stat.S_ISREG(facts.st_mode) or not facts.st_size:
                continue
            if path not in self._facts and self._known_sound(path):
                continue
            found = self.look(path)
            if found is not None and found.state == "damaged":
                damaged[path] = damage_text(found.detail)
            elif (found is None or found.state != "sound") and not self._known_sound(path):
                unchecked.append(path)
        return damaged, unchecked

    def _known_sound(self, path: str) -> bool:
        return path in self.sound and self.unchanged(path, self.sound[path])

    def not_read(self, path: str) -> _Unknown:
        if path not in self.unread:
            self.unread.append(path)
        return _Unknown(path)


def count_now(
    home: str,
    layout: Layout,
    before: Counts,
    quick: QuickLook | None = None,
    *,
    blank: list[str] | None = None,
    since: float = 0.0,
) -> Counts:
    """What is left of each class of which there was any. A profile that is gone is not in the answer.

    Without `quick` settings are read however long that takes, and rows of databases are not counted
    here. Where the file itself is gone they are 0. `blank` gets the files of these classes that changed
    `since` a time and hold nothing now; with `quick`, that has them.
    """
    blank = [] if blank is None else blank
    blank, since = (quick.blank, quick.since) if quick is not None else (blank, since)
    found: dict[str, dict[str, int | None]] = {}
    for profile, counts in before.items():
        base = "" if profile == "default" else profile
        if base and _look(os.path.join(home, base)) is None:
            continue
        found[profile] = {
            count.name: _counted(
                home, base, count, matcher, quick, was, partial(_emptied, home, since, blank)
            )
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


def damage_text(detail: str) -> str:
    """What a check said of a damaged database, in one line."""
    lines = [line for line in detail.splitlines() if not line.startswith("***")]
    return "; ".join(lines[:2]) or detail


def _size(full: str) -> int:
    facts = _look(full)
    return facts.st_size if facts is not None else 0


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
    home: str,
    base: str,
    count: Count,
    matcher: Matcher,
    quick: QuickLook | None,
    was: int,
    emptied: Callable[[str, os.stat_result], bool],
) -> int | None:
    try:
        files = list(_files(home, base, count, matcher))
        empty = 0
        if count.kind != "query":
            empty = sum(emptied(path, facts) for path, facts in files)
        if count.by_name:
            return len(files) - (empty if count.kind == FILE else 0)
        if files and quick is not None and _costly(count):
            if all(quick.unchanged(path) for path, _ in files):
                return was
        elif files and count.kind == "query":
            return None
        return sum(_in_file(home, path, facts, count, quick) for path, facts in files)
    except (_Unknown, OSError):
        return None


def _emptied(home: str, since: float, blank: list[str], path: str, facts: os.stat_result) -> bool:
    """Whether a file changed since then and holds nothing; it is noted once. Only what changed is opened."""
    if not _changed(facts, since) or not _holds_nothing(os.path.join(home, path), facts):
        return False
    if path not in blank:
        blank.append(path)
    return True


def _holds_nothing(full: str, facts: os.stat_result) -> bool:
    from ..census import LARGEST, is_blank

    if not facts.st_size:
        return True
    try:
        if not is_blank(read_start(full, _START, follow=False)):
            return False
        return facts.st_size <= LARGEST and is_blank(read_start(full, LARGEST, follow=False))
    except OSError:
        return False  # unknown is not empty


def _changed(facts: os.stat_result, since: float) -> bool:
    changed = max(facts.st_mtime_ns, facts.st_ctime_ns)
    unsure = _UNSURE if facts.st_ctime_ns % 1_000_000_000 else _UNSURE_BY_SECONDS
    return changed > since * 1e9 - unsure


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
