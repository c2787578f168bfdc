"""What snapshots and archives share: what of a home is meant, what a way back would do, and consent to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .user import ApiUser, words
from .values import Missing, RestorePlan

if TYPE_CHECKING:
    from safekept.actions.restoring.import_ import PreparedImport
    from safekept.actions.restoring.restore import PreparedRestore
    from safekept.core.entries import Remark
    from safekept.home.scan import Selection


def selection(
    user: ApiUser, include: Sequence[str], exclude: Sequence[str], *, secrets: bool, profile: str, quick: bool
) -> Selection:
    from safekept.home.scan import Selection

    return Selection(
        include=words(include) or user.settings.texts("backup.include"),
        exclude=words(exclude) or user.settings.texts("backup.exclude"),
        secrets=secrets,
        profile=profile,
        quick=quick,
    )


def missing_of(remarks: Iterable[Remark]) -> tuple[Missing, ...]:
    """What ought to be there and is not, or is damaged; what a rule left out is no loss."""
    return tuple(Missing(one.path, one.reason) for one in remarks if one.incomplete)


def plan_of(prepared: PreparedRestore | PreparedImport) -> RestorePlan:
    plan = prepared.plan
    return RestorePlan(
        home=prepared.place.home,
        create=tuple(plan.create),
        replace=tuple(plan.replace),
        remove=tuple(plan.remove),
        same=len(plan.same),
        outside=tuple(prepared.writes_outside),
        obstacles=tuple(plan.obstacles),
        needs_consent=tuple(prepared.questions),
        missing=tuple(Missing(path, reason) for path, reason in prepared.losses),
    )


def need_consent(what: str, plan: RestorePlan, yes: bool) -> None:
    from safekept.core.errors import ConsentNeeded

    if plan.needs_consent and not yes:
        raise ConsentNeeded(
            f"This {what} needs your consent: " + "; ".join(plan.needs_consent),
            kept="Nothing was changed",
            next_steps=("See the plan with dry_run=True, and agree to it with yes=True",),
            reasons=plan.needs_consent,
        )
