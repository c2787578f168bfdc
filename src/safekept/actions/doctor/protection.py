"""What the verdict of `status` rests on, in the same words and with the same weight.

A step that would restore a database is looked at more closely: one that was not verified is proven first.
What the doctor looks at with its own eyes (databases, clocks) it says itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from safekept.core.finding import Finding
from safekept.core.next_step import Step

from .case import Case
from .databases import unverified_databases

#: Findings of the verdict that have a look of their own here.
_OWN = frozenset({"database-damaged", "damaged-when-stored", "clock"})


def look_at_protection(case: Case) -> Iterator[Finding]:
    for one in case.status.verdict.findings:
        if one.code in _OWN or (one.evidence and one.evidence[0].startswith("the doctor found this")):
            continue
        yield replace(one, fix=tuple(_verified(case, one.home, step) for step in one.fix))


def _verified(case: Case, home: str, step: Step) -> Step:
    """The same step, unless it would restore a database that was not verified: that is proven first."""
    if isinstance(step, str) or step.verb != "snapshot restore" or not step.arguments:
        return step
    snapshot, *rest = step.arguments
    paths = [word for word in rest if not word.startswith("-")]
    doubtful = unverified_databases(case, home, snapshot, paths)
    if not doubtful:
        return step
    names = ", ".join(doubtful)
    before = f"{names} was not verified in {snapshot}; prove it before you restore it:"
    return case.command("drill", snapshot, home=home, before=before)
