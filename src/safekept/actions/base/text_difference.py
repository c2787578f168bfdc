"""The lines that differ between two texts, as `diff -u` writes them."""

from __future__ import annotations

import difflib

#: More lines than this are cut: a screen is no place for them, and nobody reads them.
MOST_LINES = 4000


def patch(path: str, before: str | None, after: str | None) -> list[str]:
    """A unified diff; one sentence where one side is no text."""
    if before is None or after is None:
        return ["(not a text, or too large: no lines to show)"]
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"before/{path}", f"after/{path}", lineterm=""
    )
    found: list[str] = []
    for line in lines:
        if len(found) >= MOST_LINES:
            return [*found, f"(cut after {MOST_LINES:,} lines)"]
        found.append(line)
    return found
