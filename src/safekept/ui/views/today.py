"""Today: am I protected, what to do next, the last thirty days, and where the copies are."""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup
from starlette.responses import Response

from safekept.actions.page.copies import DANGERS, together
from safekept.actions.page.days import BEFORE, Day
from safekept.actions.page.sizes import SizeClass
from safekept.actions.status.home_status import HomeStatus
from safekept.actions.status.status import Status
from safekept.core.ages import seconds_text
from safekept.core.finding import MACHINE_LOST, NOT_PROTECTED, PARTLY, THIS_MACHINE
from safekept.core.next_step import NextStep, Step
from safekept.core.records import dataclass

from ..pictures.bars import duration_picture, duration_words
from ..pictures.growth import GrowthPicture, growth_picture
from ..pictures.strip import LEGEND, strip_picture, strip_words
from ..rendering import query, step_markup
from ..visit import Visit
from ..watching import Sight

#: How the first line looks: by the rung of the ladder, and red for an alarm.
TONES = {NOT_PROTECTED: "bad", PARTLY: "warn", THIS_MACHINE: "good", MACHINE_LOST: "good"}
#: Seconds until a page that could not see everything looks again.
AGAIN = 4
_PROJECTS = 8
#: Verbs that the page can do by itself, and what their buttons are called.
_BUTTONS = {"snapshot": "Take a snapshot now", "drill": "Prove it now", "push": "Copy it now"}
_REASONS = 6


@dataclass(frozen=True, slots=True)
class ShownStep:
    """What to do next: a sentence, and its command by itself where it is one."""

    text: Markup
    command: str = ""
    address: str = ""  # where a button goes that does it; nothing: only the command does
    fields: tuple[tuple[str, str], ...] = ()
    button: str = ""
    link: str = ""  # in place of an address: the plan of it, to be seen first


@dataclass(frozen=True, slots=True)
class ShownHome:
    """One home on the page."""

    status: HomeStatus
    days: tuple[Day, ...]
    picture: Markup
    words: str
    proven: str
    sizes: tuple[SizeClass, ...]
    durations: Markup | None
    duration_words: str
    began: bool  # something happened in these days


def show(visit: Visit) -> Response:
    """The first page."""
    sight = visit.office.watch.look(visit.settings, visit.context)
    office = visit.office
    home = visit.context.places.user_home
    values = values_of(sight, office.program, home, office.allow_changes)
    return visit.page("today.html", "Today", values, again=AGAIN if sight.late else 0)


def values_of(sight: Sight, program: str, user_home: str, allow_changes: bool = False) -> dict[str, object]:
    """What the template prints; also in a file that is sent on."""

    values: dict[str, object] = {
        "late": sight.late,
        "status": sight.status,
        "error": sight.error,
        "error_steps": [shown_step(step, program, home=user_home) for step in sight.error.next_steps]
        if sight.error
        else [],
    }
    status = sight.status
    if status is None:
        return values
    head, _, rest = status.verdict.text.partition(": ")
    reasons = status.verdict.reasons[1:]
    return values | {
        "head": head,
        "rest": rest,
        "tone": "bad" if status.verdict.alarm else TONES[status.verdict.level],
        "steps": [shown_step(step, program, allow_changes, user_home) for step in status.verdict.next[:3]],
        "reasons": [
            (one.text, [shown_step(step, program, allow_changes) for step in one.fix[:1]])
            for one in reasons[:_REASONS]
        ],
        "more_reasons": len(reasons) - _REASONS,
        "homes": [_home(home, sight, status) for home in status.homes],
        "legend": LEGEND,
        "copies": sight.copies,
        "together": together(sight.copies) if len(sight.copies) > 1 else (),
        "dangers": DANGERS,
        "destinations": {one.name for one in status.destinations},
        "growth": _growth(status),
        "schedule": _schedule(status),
        "projects": sorted(status.projects.projects, key=lambda one: -one.last)[:_PROJECTS],
        "more_projects": len(status.projects.projects) - _PROJECTS,
    }


def shown_step(step: Step, program: str, allow_changes: bool = False, home: str = "") -> ShownStep:
    """A button's worth of advice: the words around a command lose its name, which stands below them."""
    if not isinstance(step, NextStep) or step.then is not None or step.after:
        return ShownStep(step_markup(step, program, home))
    words = step.before.rstrip(":").rstrip() if step.before else ""
    text, command = Markup("{}").format(words), replace(step, before="").line(program)
    if allow_changes and (link := _plan_link(step)):
        return ShownStep(text, command, button="See what comes back …", link=link)
    button = _BUTTONS.get(step.verb)
    named = step.arguments[1] if step.arguments[:1] == ("--home",) else ""
    if button is None or not allow_changes or (step.arguments and not named and step.verb != "push"):
        return ShownStep(text, command)
    fields = (("destination", step.arguments[0]),) if step.verb == "push" and step.arguments else ()
    if step.verb == "push" and not fields:
        return ShownStep(text, command)
    return ShownStep(
        text, command, f"/do/{step.verb}", fields or ((("home", named),) if named else ()), button
    )


def _plan_link(step: NextStep) -> str:
    """Where the page shows the plan of a command that brings something back; empty where it has none."""
    words, home = list(step.arguments), ""
    if "--home" in words[:-1]:
        at = words.index("--home")
        home, words = words[at + 1], words[:at] + words[at + 2 :]
    if not words or any(word.startswith("-") for word in words):
        return ""
    if step.verb == "undo" and len(words) == 1:
        return f"/undo?{query({'id': words[0]})}"
    if step.verb != "snapshot restore":
        return ""
    paths = "".join(f"&{query({'path': path})}" for path in words[1:])
    return f"/restore?{query({'home': home, 'id': words[0]})}{paths}"


def _home(home: HomeStatus, sight: Sight, status: Status) -> ShownHome:
    days = sight.days.get(home.home, ())
    drill, proof, now = home.drill, home.proof, status.time
    proven = "Never"
    if proof is not None:
        proven = f"{seconds_text(max(0.0, now - proof.started))} ago"
    if drill is not None and not drill.ok:
        proven = f"Failed {seconds_text(max(0.0, now - drill.started))} ago"
    return ShownHome(
        home,
        days,
        strip_picture(days),
        strip_words(days),
        proven,
        sight.sizes.get(home.home, ()),
        duration_picture(days),
        duration_words(days),
        any(day.state != BEFORE or day.alarms or day.failed for day in days),
    )


def _growth(status: Status) -> GrowthPicture | None:
    return growth_picture(status.vault.growth, status.time)


def _schedule(status: Status) -> tuple[str, str]:
    """When it happens by itself next: few words, and a sentence."""
    schedule, now = status.schedule, status.time
    if not schedule.looked and not schedule.installed:
        return "Never", "Nothing happens by itself yet."
    if schedule.trouble:
        return "Will not run", schedule.trouble
    last = f"Last run {seconds_text(now - schedule.last)} ago, {schedule.state}." if schedule.last else ""
    if not schedule.next:
        return "Not known", last
    if schedule.next <= now:
        return "Within the hour", last
    return f"In {seconds_text(schedule.next - now)}", last
