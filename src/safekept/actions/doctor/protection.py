"""What the verdict of `status` rests on, in the same words and with the same weight.

Of a step that would restore a database that was not verified there, that is said as well.
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
        doubts = [doubt for step in one.fix if (doubt := _not_verified(case, one.home, step))]
        yield replace(one, evidence=(*one.evidence, *doubts))


def _not_verified(case: Case, home: str, step: Step) -> str:
    """Which databases a step would restore that were not verified there; "" where it does nothing like it."""
    if isinstance(step, str) or step.verb != "snapshot restore" or not step.arguments:
        return ""
    snapshot, *rest = step.arguments
    paths = [word for word in rest if not word.startswith("-")]
    doubtful = unverified_databases(case, home, snapshot, paths)
    if not doubtful:
        return ""
    return f"{', '.join(doubtful)} was not verified in {snapshot}; a drill of it would tell"
