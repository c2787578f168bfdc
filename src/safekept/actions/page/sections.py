"""Entries of a memory file one by one: which came, which went, which were put in other words.

What parts the entries of a file from each other is known to the layout of its agent, where they are counted.
"""

from __future__ import annotations

import difflib

from safekept.core.records import dataclass
from safekept.home.layout import Layout

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
#: Entries beyond which a file is shown as lines.
_MOST = 2_000


@dataclass(frozen=True, slots=True)
class SectionChange:
    """One entry that differs; `before` or `after` is empty where there was or is none."""

    how: str
    before: str
    after: str


def delimiter_of(layout: Layout, path: str) -> str:
    """What stands between the entries of this file; empty where it has none."""
    for count, places in layout.counted:
        if count.kind == "sections" and places.covers(path):
            return count.delimiter
    return ""


def sections_of(text: str, delimiter: str) -> list[str]:
    """The entries of a file, without those that are empty."""
    found = [part.strip() for part in f"\n{text}\n".split(delimiter)]
    return [part for part in found if part]


def section_changes(before: str, after: str, delimiter: str) -> list[SectionChange] | None:
    """From one version to the next; None where there are too many to compare."""
    old, new = sections_of(before, delimiter), sections_of(after, delimiter)
    if max(len(old), len(new)) > _MOST:
        return None
    found: list[SectionChange] = []
    for how, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if how == "equal":
            continue
        both = min(b - a, d - c)
        found += [SectionChange(CHANGED, old[a + at], new[c + at]) for at in range(both)]
        found += [SectionChange(REMOVED, text, "") for text in old[a + both : b]]
        found += [SectionChange(ADDED, "", text) for text in new[c + both : d]]
    return found
