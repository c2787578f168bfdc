"""Homes that are gone, or of which little is left: how each comes back, and what is in its way."""

from __future__ import annotations

import os

from safekept.core.events import Listener, silent
from safekept.core.records import dataclass

from ...base.context import UserContext
from ..prepared import LandingResult, files_text
from ..restore import PreparedRestore, RestoreRequest, prepare_restore
from .lost import LostHome


@dataclass(frozen=True, slots=True)
class HomePlan:
    """One home that comes back."""

    lost: LostHome
    snapshot: str
    taken: float
    files: int
    bytes: int
    question: str = ""  # what would be replaced; "": nothing is there

    def as_dict(self) -> dict[str, object]:
        return {
            "home": self.lost.home,
            "layout": self.lost.layout,
            "snapshot": self.snapshot,
            "taken": self.taken,
            "files": self.files,
            "bytes": self.bytes,
            "needs_consent": self.question or None,
            "forgotten": self.lost.forgotten or None,
        }


def plan_home(
    context: UserContext, request: RestoreRequest, lost: LostHome, listener: Listener = silent
) -> HomePlan:
    """What would come back, and what of it would replace something. Changes nothing."""
    with prepare_restore(context, request, listener) as prepared:
        plan, chosen = prepared.plan, prepared.chosen
        return HomePlan(
            lost,
            chosen.short,
            chosen.snapshot.time_ns / 1e9,
            len(plan.create),
            plan.bytes,
            _question(prepared),
        )


def bring_home(context: UserContext, request: RestoreRequest, listener: Listener = silent) -> LandingResult:
    """Stage, prove, put in place: the one landing; `undo` takes it back."""
    with prepare_restore(context, request, listener) as prepared:
        return prepared.carry_out(listener)


def _question(prepared: PreparedRestore) -> str:
    """What is there and would be another: asked about, and kept for `undo`."""
    plan = prepared.plan
    there = {*plan.replaced_for_sure, *plan.compared, *filter(os.path.lexists, plan.outside)}
    if not there:
        return ""
    return f"{files_text(len(there), 'file')} of `{prepared.place.home}` would be replaced, and kept"
