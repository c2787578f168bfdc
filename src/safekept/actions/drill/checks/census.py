"""Counting again what was counted when it was stored: sessions, messages, memories, skills, settings.

Unknown is unknown, never zero: a count that was not recorded, or that cannot be taken now, proves
nothing in either direction, and the row says so.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from safekept.core.entries import DatabaseFacts
from safekept.core.sqlite import is_database
from safekept.core.sqlite.check import count as ask
from safekept.core.sqlite.format import connect
from safekept.home.census import LARGEST, Census
from safekept.home.layout import Count, is_file

from ..receipts import LEFT_OUT, UNKNOWN
from .restored import Findings, Problems, RestoredHome, plural

CENSUS = "census"

Counts = Mapping[str, Mapping[str, int | None]]


def prove_census(restored: RestoredHome, findings: Findings) -> None:
    """The row `census`: what comes out of the copy against what was recorded."""
    if not restored.layout.counts:
        findings.add(CENSUS, LEFT_OUT, 0, "the layout counts nothing")
        return
    recorded = _recorded(restored)
    if not recorded:
        findings.add(CENSUS, UNKNOWN, 0, "no counts were recorded when it was stored")
        return
    now = count_again(restored)
    same, problems, unknown = 0, Problems(), []
    for profile, counts in sorted(recorded.items()):
        where = "" if profile == "default" else f" of {profile}"
        for name, then in counts.items():
            if is_file(name):
                continue  # files are proven by rows of their own
            found = now.get(profile, {}).get(name)
            if _not_restored(restored, profile, name):
                continue
            words = name.replace("_", " ")
            if then is None or found is None or _may_be_unreadable(restored, name):
                unknown.append(f"{words}{where}")
            elif then != found:
                problems.append((f"{words}{where}", f"{then:,} were stored, {found:,} came back"))
            else:
                same += 1
    total = same + len(problems)
    if problems:
        findings.judge(CENSUS, total, problems, "", "count")
    elif not same:
        findings.add(CENSUS, UNKNOWN, 0, f"none of {plural(len(unknown), 'count')} could be compared")
    else:
        rest = f"; unknown then or now: {', '.join(unknown)}" if unknown else ""
        findings.judge(CENSUS, total, [], f"{plural(same, 'count')} as recorded{rest}", "count")


def count_again(restored: RestoredHome) -> Counts:
    """The census of the restored copy, by profile."""
    layout = restored.layout
    matchers = [(count, layout.matcher((count.patterns, True))) for count in layout.counts]
    census = Census(layout)
    census.profile("default")
    for prefix in restored.homes():
        census.profile(prefix.rstrip("/") or "default")
    for path in restored.files():
        counts = tuple(count for count, matcher in matchers if matcher.covers(path))
        if not counts:
            continue
        profile = layout.profile_of(path)
        census.expect(profile, counts)
        if restored.there(path):  # what is lost stays expected and uncounted: unknown
            _count(census, profile, counts, restored, path)
    return census.result()


def _count(
    census: Census, profile: str, counts: tuple[Count, ...], restored: RestoredHome, path: str
) -> None:
    with restored.open(path) as file:
        head = file.read(16)
        small = os.fstat(file.fileno()).st_size <= LARGEST
        data = head + file.read() if small and not is_database(head) else None
    if not is_database(head):
        census.plain(profile, counts, data)
        return
    answers: dict[str, int | None] = {}
    with contextlib.closing(connect(restored.full(path), "mode=ro")) as connection:
        for count in counts:
            if count.kind == "query":
                answers[count.name] = ask(connection, count.query)
    facts = DatabaseFacts("unverified", "at-rest", counts=answers)
    census.captured(profile, counts, lambda: facts)


def _recorded(restored: RestoredHome) -> Counts:
    found = (restored.manifest or {}).get("census")
    if not isinstance(found, Mapping):
        return {}
    return {
        str(profile): {str(name): _number(value) for name, value in counts.items()}
        for profile, counts in found.items()
        if isinstance(counts, Mapping)
    }


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _may_be_unreadable(restored: RestoredHome, name: str) -> bool:
    """Whether something of this class may lie in a directory that cannot be read."""
    layout = restored.layout
    for count in layout.counts:
        if count.name == name:
            matcher = layout.matcher((count.patterns, True))
            return any(
                not place or matcher.reaches_below(place) or matcher.covers(place, directory=True)
                for place in restored.unreadable
            )
    return False


def _not_restored(restored: RestoredHome, profile: str, name: str) -> bool:
    """A small drill restores the state files: what it did not restore it cannot count."""
    if not restored.passed_over:
        return False
    layout = restored.layout
    for count in layout.counts:
        if count.name == name:
            matcher = layout.matcher((count.patterns, True))
            return any(
                matcher.covers(path) and layout.profile_of(path) == profile and path not in restored.items
                for path in restored.entries
            )
    return False
