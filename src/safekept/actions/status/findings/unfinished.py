"""A rebuild or a setup that was cut off: said before what follows from it."""

from __future__ import annotations

from collections.abc import Iterable

from safekept.core.ages import seconds_text
from safekept.core.finding import PARTLY, Finding

from ...base.unfinished import Unfinished

#: What is found because the vault is not whole yet; the command that makes it whole is shown instead.
_FOLLOWS = frozenset({"vault-shut", "vault-lost"})


def with_unfinished(findings: Iterable[Finding], work: Unfinished, now: float) -> list[Finding]:
    """The same findings with this one before them, and without those that only repeat it."""
    what = "a rebuild" if work.verb == "rebuild" else "setup"
    text = f"{what} was begun {seconds_text(max(0.0, now - work.since))} ago and is not finished"
    first = Finding("unfinished", PARTLY, text, (work.stands,), (work.again,))
    making = "vault" in work.left or "history" in work.left
    return [first, *(one for one in findings if not (making and one.code in _FOLLOWS))]
