"""Words of `setup` and `uninstall`: what is here, each step in a line, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.actions.schedule.host_start import CRON_STOPPED, start_cron
from safekept.actions.setup.steps import SetupStep
from safekept.actions.setup.survey import Survey
from safekept.actions.vault.keys.kit_record import kept_beside
from safekept.core.ages import seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ..console import Console, path_text
from ..screen import Screen
from ..status.screen import show_verdict
from .connecting import written_lines
from .kit import gone_kit_text

if TYPE_CHECKING:
    from safekept.actions.base.unfinished import Unfinished
    from safekept.actions.setup.survey import AgentPlace
    from safekept.actions.status.status import Status

    from ..commands.setup.answers import Needs
    from ..commands.setup.protecting import MachineFacts

_LABELS = {
    "vault": "Vault",
    "passphrase": "Passphrase",
    "connect": "Connected",
    "updates": "Updates",
    "schedule": "Schedule",
    "snapshot": "Snapshot",
    "push": "Copied to",
    "proof": "Proven",
    "kit": "Kit",
}
#: What is not done yet.
_PLANNED = {"settings": "Save", "connect": "Connect", "push": "Copy to", "proof": "Prove"}


#: With systemd, by `loginctl enable-linger`.
LOGGED_OUT = "also while you are logged out"


def when_words(at: str, host: str) -> str:
    """`every night at 03:30, with cron`: the same words for a plan, a step and what is there."""
    if at == "hourly":
        return f"every hour, with {host}"
    return f"every {'day' if ',' in at else 'night'} at {at}, with {host}"


def host_words(machine: MachineFacts) -> list[str]:
    """What is to be known of what wakes us, before it is asked when."""
    if machine.cron_stopped:
        return [f"{CRON_STOPPED}, so nothing would happen by itself. {start_cron()}"]
    if machine.until_logout:
        return [f"It runs {LOGGED_OUT}: for that, `loginctl enable-linger` is called."]
    return []


def show_found(
    console: Console, user_home: str, found: Survey, at: str, before: Unfinished | None = None
) -> None:
    """The homes, and what is there already. `at`: when the schedule runs, as the settings say it.

    `before`: a setup that was cut off, where no passphrase is asked for.
    """
    screen = Screen(console, user_home)
    console.line("Found on this machine", bold=True)
    for one in found.homes:
        count = len(one.profiles)
        many = f", the default profile and {count} more: {', '.join(one.profiles)}" if count else ""
        text = f"{one.place.layout.title} in {screen.path(one.place.home)}{path_text(many)}"
        console.line(f"  {text}")
    for label, text in _there(screen, found, at):
        screen.fact(label, text)
    if before is not None and before.made:
        ago = seconds_text(max(0.0, time.time() - before.since))
        screen.fact("Passphrase", f"the one that was made and shown {ago} ago; it cannot be shown again")
        screen.fact(
            "", NextStep("vault key add", ("--recovery",), before="If you do not have it, add another:")
        )


def _there(screen: Screen, found: Survey, at: str) -> list[tuple[str, str]]:
    """What needs no question any more."""
    status, lines = found.status, []
    if found.has_vault:
        opened = {
            "passphrase": "a recovery passphrase opens it too",
            "kit": "its kit is kept elsewhere",
            "escrow": "its kit is in escrow",
        }
        more = opened.get(found.recovery_access, "")
        lines.append(("Vault", screen.path(status.vault.place) + (f"; {more}" if more else "")))
    for place in status.destinations:
        lines.append(("Copy", f"{path_text(place.name)} ({path_text(place.url)})"))
    connected = [one.name for one in found.agents if one.connected]
    if connected:
        lines.append(("Connected", path_text(", ".join(connected))))
    if status.schedule.installed:
        trouble = f"; {status.schedule.trouble}" if status.schedule.trouble else ""
        trouble += "; it ends when you log out" if found.ends_at_logout else ""
        lines.append(("Schedule", when_words(at, status.schedule.installed) + trouble))
    return lines


def show_plan(
    console: Console,
    user_home: str,
    steps: Sequence[SetupStep],
    asks: Needs | None,
    no_host: SafekeptError | None,
    connects: Sequence[AgentPlace] = (),
) -> None:
    """What a run would ask and do, in its order; `asks` None: it asks nothing."""
    console.line("Dry run. Would do:", bold=True)
    screen = Screen(console, user_home)
    questions = _questions(asks) if asks is not None else ()
    if questions:
        screen.fact("Ask", ", ".join(questions))
    for name in dict.fromkeys(step.name for step in steps):
        texts = [path_text(step.text) for step in steps if step.name == name]
        for text in [", ".join(texts)] if name == "connect" else texts:
            screen.fact(_PLANNED.get(name, _LABELS.get(name, name)), text)
        for line in written_lines(screen, connects) if name == "connect" else ():
            screen.fact("", line)
        _show_next(screen, *(step for step in steps if step.name == name))
    if no_host is not None:
        _show_no_host(console, no_host)
    if not (questions or steps):
        console.line("  Nothing is missing")
    console.line("Nothing was changed")


def _questions(asks: Needs) -> tuple[str, ...]:
    return tuple(
        text
        for wanted, text in (
            (asks.passphrase, "a recovery passphrase"),
            (asks.destination, "a place for the second copy"),
            (asks.connect, "whether to connect the agents"),
            (asks.schedule, "when to run every night"),
        )
        if wanted
    )


def show_step(console: Console, user_home: str, step: SetupStep) -> None:
    """One line for each thing that was done; a few more where it did not work."""
    screen = Screen(console, user_home)
    if step.good:
        more = " and .html, the same to print" if step.name == "kit" else ""
        screen.fact(_LABELS.get(step.name, step.name), path_text(step.text) + more)
        _show_next(screen, step)
        return
    console.line(f"  {_LABELS.get(step.name, step.name):<11}did not work", fg="yellow")
    screen.fact("", path_text(step.text))
    _show_next(screen, step)


def _show_next(screen: Screen, *steps: SetupStep) -> None:
    for one in [one for step in steps for one in step.next_steps]:
        screen.fact("", one)


def show_end(
    console: Console,
    user_home: str,
    status: Status,
    steps: Sequence[SetupStep],
    no_host: SafekeptError | None,
    generated: str = "",
    *,
    connected: bool,
) -> None:
    """The verdict, and what only a person can do now. `connected`: agents were, maybe by a run before."""
    if console.as_json:
        return
    screen = Screen(console, user_home)
    console.line()
    show_verdict(screen, status)
    if no_host is not None and not status.schedule.installed:
        _show_no_host(console, no_host)
    kit = next((step.text for step in steps if step.name == "kit" and step.good), "")
    if kit:
        page = screen.path(kit.removesuffix(".txt") + ".html")
        text = f"Print {page} or copy {screen.path(kit)}, and keep it elsewhere"
        screen.fact("Your part", f"{text}: each of the two files holds the key, and opens everything")
        if older := kept_beside(kit):
            text = "was not written by this machine and stays as it is; keep the new one"
            screen.fact("", f"{screen.path(older)} {text}")
    elif kit := gone_kit_text(console, status):
        screen.fact("Your part", kit)
    if connected:
        screen.fact("" if kit else "Your part", "Restart your agents: they load safekept when they start")
    if generated:
        screen.fact("" if kit else "Your part", f"Write down the passphrase: {generated}")
    screen.fact("Any time", NextStep("", after=" says how it stands"))
    screen.fact("", NextStep("uninstall", after=" takes it out again; your copies, key and kit stay"))


def _show_no_host(console: Console, no_host: SafekeptError) -> None:
    """Nothing here can start us by itself: what then."""
    screen = Screen(console)
    screen.fact("Schedule", f"none: {no_host.clause}")
    for step in no_host.next_steps:
        screen.fact("", step)
