"""What a snapshot may be called: one line that a list can show."""

from __future__ import annotations

import unicodedata

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

LONGEST = 200
#: Control characters, stray bytes, and what breaks a line or a paragraph.
_UNSHOWABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})


class BadLabel(SafekeptError):
    code, exit_code = "bad-label", 2


def check_label(label: str) -> None:
    """Raise BadLabel for a label that no list could show."""
    if len(label) > LONGEST:
        raise _bad(f"a label has at most {LONGEST} characters; this one has {len(label):,}")
    if any(unicodedata.category(sign) in _UNSHOWABLE for sign in label):
        raise _bad("a label is one line without control characters")


def tidy_label(label: str) -> str:
    """The same text as a label: for those that are made of other names."""
    shown = "".join(" " if unicodedata.category(sign) in _UNSHOWABLE else sign for sign in label)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _bad(what: str) -> BadLabel:
    return BadLabel(
        what,
        kept="No snapshot was taken, and nothing was changed",
        next_steps=(NextStep("snapshot", ("--label", "TEXT"), before="Choose a shorter one, on one line:"),),
    )
