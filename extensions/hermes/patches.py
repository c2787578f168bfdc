"""Which files a patch text names: every header, both ends of a move."""

from __future__ import annotations

import re

# As lenient as Hermes's own reader, and a little more: a file too many costs nothing, one too few is lost.
# Blanks that end no line, and nothing that could be matched in two ways: a text of any size is read once.
_HEADER = re.compile(
    r"^[^\S\n]*\*\*\*[^\S\n]*((?:Update|Add|Delete|Move)[^\S\n]+File|Move[^\S\n]+to):(.*)$",
    re.MULTILINE | re.IGNORECASE,
)


def named_in(text: str) -> list[str]:
    """The paths of a patch text, each once, in its order and as they stand there."""
    found: dict[str, None] = {}
    for match in _HEADER.finditer(text):
        kind, rest = match[1].lower(), match[2]
        moved = kind.startswith("move") and kind.endswith("file")
        for name in rest.split("->") if moved else [rest]:
            if name.strip():
                found[name.strip()] = None
    return list(found)
