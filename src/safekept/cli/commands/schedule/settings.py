"""How the work of a scheduled run is done, as the settings say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from safekept.settings import Settings
from safekept.settings.policies import policy_from

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.schedule.steps import RunRequest


def run_request(
    settings: Settings,
    context: UserContext,
    *,
    home: str = "",
    layout: str = "",
    everything: bool = False,
) -> RunRequest:
    """How the work of a run is done, as the settings say it."""
    from safekept.actions.schedule.steps import RunRequest
    from safekept.home.scan import Selection

    return RunRequest(
        selection=Selection(
            include=settings.texts("backup.include"), exclude=settings.texts("backup.exclude")
        ),
        deadline=settings.number("database.deadline"),
        form=settings.text("backup.format"),
        seal=settings.texts("backup.seal"),
        policy=policy_from(settings, context, home, layout),
        everything=everything,
    )
