"""A quick look at a home: does it still have what its last snapshot counted, and are its databases databases?

Names, sizes, small documents and the first bytes of databases are looked at, nothing else: this is done each
time somebody asks for the status. Unknown is never zero: what is a link, cannot be read or is too much for a
quick look says nothing about loss.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from safekept.core.files.small import read_regular, read_start
from safekept.core.sqlite.format import HEADER

from ..layout.layout import Layout
from ..layout.patterns import Matcher
from ..layout.rules import Count
from .home_loss import Counts, literal_places

#: So many names below one place are looked at.
_MOST = 4000


class _Unknown(Exception):
    """A quick look cannot tell."""


def count_now(home: str, layout: Layout, before: Counts, *, quick: bool = True) -> Counts:
    """What is left of each class of which there was any; without `quick` settings are counted, too.

    A profile that is gone is not in the answer. Rows of databases are counted by nobody here: where the file
    itself is gone they are 0.
    """
    found: dict[str, dict[str, int | None]] = {}
    for profile, counts in before.items():
        base = "" if profile == "default" else profile
        if base and _look(os.path.join(home, base)) is None:
            continue
        found[profile] = {
            count.name: _counted(home, base, count, matcher, quick)
            for count, matcher in layout.counted
            if counts.get(count.name)
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


def _counted(home: str, base: str, count: Count, matcher: Matcher, quick: bool) -> int | None:
    total = 0
    try:
        for path, facts in _files(home, base, count, matcher):
            if count.by_name:
                total += 1
            elif count.kind == "query":
                return None
            elif facts.st_size:
                total += _in_document(os.path.join(home, path), facts, count, quick)
    except (_Unknown, OSError):
        return None
    return total


def _in_document(full: str, facts: os.stat_result, count: Count, quick: bool) -> int:
    from ..census import LARGEST, count_document

    if facts.st_size > LARGEST or (quick and count.kind.startswith("yaml")):
        raise _Unknown  # reading YAML takes longer than a prompt may
    found = count_document(read_regular(full, LARGEST, follow=False), count)
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
