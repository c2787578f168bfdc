"""`setup --dry-run`: the plan of a run, by the same choices that the run makes, and nothing is changed."""

from __future__ import annotations

from dataclasses import replace

from safekept.actions.offsite.destination import DestinationSetting, parse_destination
from safekept.actions.setup.plan import PLANNED, planned
from safekept.actions.setup.steps import SetupStep
from safekept.actions.setup.survey import AgentPlace, Survey
from safekept.actions.vault.keys.passphrase import easy_passphrase, secret_from_text
from safekept.core.errors import SafekeptError

from ...console import Console
from ...words.setup import show_plan
from .answers import Answers, Needs, take_defaults
from .protecting import Protecting

#: Stands in for a place that only the answer to a question will name.
_PLACE = "the place that you name"


def show_dry_run(
    console: Console, work: Protecting, needs: Needs, left: Needs, answers: Answers, kit: str, *, asks: bool
) -> None:
    """What a run would ask, save and do. `asks`: what options left open is asked."""
    steps = _planned(work, needs, left, answers, kit, asks=asks)
    found = work.found
    document = {"dry_run": True, **found.as_dict(), "missing": _missing(found, needs)}
    console.document({**document, "steps": [one.as_dict() for one in steps]})
    connects = [one for one in found.unconnected if answers.connect_to(one)]
    show_plan(console, work.settings.user_home, steps, left if asks else None, work.machine.no_host, connects)


def _planned(
    work: Protecting, needs: Needs, left: Needs, answers: Answers, kit: str, *, asks: bool
) -> list[SetupStep]:
    take_defaults(answers, left, work.settings.text("schedule.at"))
    if needs.passphrase:  # only that there will be one is looked at
        answers.passphrase = secret_from_text(easy_passphrase(), "The passphrase")
    saved = ", ".join(work.to_save(answers, needs))
    if answers.destination:
        work.add_destination(parse_destination(answers.destination))
    steps = planned(work.context, work.choices(answers, kit))
    if left.destination and asks:
        answers.destination = {"name": _PLACE}
        work.add_destination(DestinationSetting(_PLACE, _PLACE))
        more = planned(work.context, work.choices(answers, kit))
        steps = [one if one in steps else _if_named(one) for one in more]
    where = f" (config.toml in {work.settings.config_directory})"
    return [*([SetupStep("settings", PLANNED, saved + where)] if saved else []), *steps]


def _if_named(step: SetupStep) -> SetupStep:
    """A step that depends on an answer."""
    more = ", if any" if step.text == _PLACE else ", if you name a place for the second copy"
    return replace(step, text=step.text + more)


def _files(agent: AgentPlace) -> list[str]:
    """Which connecting would write into; none where they cannot be edited safely."""
    try:
        return list(agent.written())
    except SafekeptError:
        return []


def _missing(found: Survey, needs: Needs) -> dict[str, object]:
    return {
        "passphrase": needs.passphrase,
        "destination": needs.destination,
        "connect": [{**one.as_dict(), "files": _files(one)} for one in found.unconnected],
        "schedule": needs.schedule,
        "snapshot": [one.place.home for one in found.unkept],
        "proof": [one.place.home for one in found.unproven],
    }
