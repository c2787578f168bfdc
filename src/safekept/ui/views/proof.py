"""Proof: what drills restored and checked, how the vault is, and what is not kept and why."""

from __future__ import annotations

from starlette.responses import Response

from safekept.actions.base.context import UserContext
from safekept.actions.drill.receipts import read_receipts
from safekept.core.entries import Outcome

from ..visit import Visit
from ..watching import Sight
from .today import AGAIN

_RECEIPTS = 30
_GAPS = 40


def show(visit: Visit) -> Response:
    """Receipts first."""
    sight = visit.office.watch.look(visit.settings, visit.context)
    values = values_of(visit.context, sight)
    return visit.page("proof.html", "Proof", values, again=AGAIN if sight.late else 0)


def values_of(context: UserContext, sight: Sight) -> dict[str, object]:
    """What the template prints; also in a file that is sent on."""
    receipts = read_receipts(context)
    homes = []
    for home in sight.status.homes if sight.status else ():
        gaps = home.coverage.gaps if home.coverage else ()
        rules = [gap for gap in gaps if gap.outcome == Outcome.EXCLUDED.value]
        other = [gap for gap in gaps if gap.outcome != Outcome.EXCLUDED.value]
        size = sum(gap.bytes for gap in rules)
        homes.append((home, other, sorted(rules, key=lambda gap: -gap.bytes)[:_GAPS], len(rules), size))
    return {
        "late": sight.late,
        "status": sight.status,
        "receipts": receipts[:_RECEIPTS],
        "more_receipts": len(receipts) - _RECEIPTS,
        "uncovered": homes,
    }
