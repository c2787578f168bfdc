"""The one screen of `safekept status`: the verdict first, then what it rests on.

What it shows of a home: `homes.py`; of the vault and the keeper: `stores.py`; of projects, agents and the
schedule: `work.py`.
"""

from __future__ import annotations

from safekept.actions.status.home_status import HomeStatus
from safekept.actions.status.status import Status
from safekept.core.ages import ago_text
from safekept.core.finding import MACHINE_LOST, NOT_PROTECTED, PARTLY, THIS_MACHINE
from safekept.core.next_step import NextStep

from ..console import count_text, path_text
from ..screen import Screen
from .homes import show_fewer, show_home, snapshot_text
from .stores import show_keeper, show_vault
from .work import show_agents, show_journal, show_projects, show_schedule

_COLOURS = {NOT_PROTECTED: "red", PARTLY: "yellow", THIS_MACHINE: "green", MACHINE_LOST: "green"}
_REASONS = 6  # beside the first; the doctor has all
_STEPS = 3  # of the first; the doctor has all
_IN_FULL = 1  # homes with a block of their own; beyond it, those that are well have a line


def show_verdict(screen: Screen, status: Status) -> None:
    """The answer and what to do; also all that `--check` says."""
    verdict = status.verdict
    screen.headline(verdict.text, fg="red" if verdict.alarm else _COLOURS[verdict.level])
    screen.facts("Next", verdict.next[:_STEPS])
    for home in status.homes:
        _show_unseen(screen, home)
    # On the third rung the first reason is what is missing for the fourth, and is reported by its step.
    # Of a kit, no step says what is wrong with it.
    more = verdict.reasons[1:]
    if verdict.level == THIS_MACHINE and verdict.reasons and verdict.reasons[0].code == "kit-outdated":
        more = verdict.reasons
    for number, reason in enumerate(more[:_REASONS]):
        screen.one_line("Also" if number == 0 else "", reason.text)
    if len(more) > _REASONS:
        screen.fact("", f"… and {len(more) - _REASONS:,} more")
    if more:
        screen.fact("", NextStep("doctor", before="What to do about each:"))


def _show_unseen(screen: Screen, home: HomeStatus) -> None:
    """What the verdict does not rest on stands beside it: it may be as well as it was, or not."""
    for paths, how in (
        (home.now.unread, "not looked at"),
        (home.now.unchecked, "not checked since it changed"),
    ):
        if paths:
            more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
            before = f"of {path_text(paths[0])}{more} in {screen.path(home.home)} {how}:"
            screen.fact("Contents", NextStep("doctor", home.named, before=before))


def show(screen: Screen, status: Status) -> None:
    """Everything; on a terminal no more than fits it, so that the verdict never scrolls away."""
    with screen.first_lines(f"… more: `{screen.console.command('status')} | less`"):
        _show_all(screen, status)


def _show_all(screen: Screen, status: Status) -> None:
    show_verdict(screen, status)
    with_reasons = {reason.home for reason in status.verdict.reasons if reason.code != "not-proven"}
    gone = [home for home in status.homes if not home.exists and not home.default]
    here = [home for home in status.homes if home not in gone]
    short = [home for home in here[_IN_FULL:] if home.home not in with_reasons]
    for home in here[_IN_FULL:]:
        show_fewer(screen, home, alone=True)  # whatever is shown of the first home, these are not cut off
    for number, home in enumerate(here):
        if home not in short:
            screen.line()
            show_home(screen, status, home, fewer=number < _IN_FULL)
    if short or gone or status.unkept:
        screen.line()
    for home in short:
        if home.last is None:
            continue  # that is a reason, and reported above
        screen.fact(
            "Also kept", f"{screen.path(home.home)}: {snapshot_text(home.last, status.time)}", top=True
        )
    for home in gone:
        last = f", the last {ago_text(home.last.time, status.time)}" if home.last else ""
        screen.fact(
            "Gone",
            f"{screen.path(home.home)} is not here any more: {count_text(home.snapshots, 'snapshot')}{last}",
            top=True,
        )
    for path, layout in status.unkept:
        command = screen.console.command("snapshot", "--home", path)
        screen.fact("Never kept", f"{screen.path(path)} ({layout}): `{command}`", top=True)
    screen.line()
    show_vault(screen, status)
    show_keeper(screen, status)
    show_projects(screen, status)
    for text in status.off:
        screen.fact("", text)
    show_agents(screen, status)
    show_schedule(screen, status)
    show_journal(screen, status)
