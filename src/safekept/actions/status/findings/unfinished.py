"""A rebuild or a setup that was cut off: said before what follows from it."""

from __future__ import annotations

from collections.abc import Iterable

from safekept.core.ages import seconds_text
from safekept.core.finding import PARTLY, Finding

from ...base.unfinished import Unfinished

#: What is found because a step is not done yet, by its kind; the command that goes on is shown instead.
_FOLLOWS = {
    "vault": ("vault-shut", "vault-lost"),
    "history": ("vault-shut", "vault-lost"),
    "connect": ("host-not-connected", "profile-not-connected", "connection-partly", "connection-gone"),
    "schedule": ("no-schedule",),
}


def with_unfinished(findings: Iterable[Finding], work: Unfinished, now: float) -> list[Finding]:
    """The same findings with this one before them, and without those that only repeat it."""
    what = "a rebuild" if work.verb == "rebuild" else "setup"
    text = f"{what} was begun {seconds_text(max(0.0, now - work.since))} ago and is not finished"
    first = Finding("unfinished", PARTLY, text, (work.stands,), (work.again,))
    follows = {code for kind, codes in _FOLLOWS.items() if work.is_left(kind) for code in codes}
    return [first, *(one for one in findings if one.code not in follows)]
