"""What `safekept status` shows of the work: projects, agents, the schedule and the journal."""

from __future__ import annotations

import datetime

from safekept.actions.status.schedule_status import ScheduleStatus
from safekept.actions.status.status import Status
from safekept.core.ages import ago_text, seconds_text
from safekept.core.next_step import NextStep

from ..console import count_text, size_text
from ..screen import Screen
from ..words.connecting import host_lines
from ..words.remarks import not_kept_text

_TROUBLED = 3  # projects


def show_projects(screen: Screen, status: Status) -> None:
    kept = status.projects
    if not kept.projects:
        waiting = [] if any(host.places for host in status.hosts) else [host.host for host in status.hosts]
        command = screen.console.command("connect", *(waiting if len(waiting) == 1 else []))
        advice = f": `{command}`" if waiting else ""
        screen.fact("Projects", f"no checkpoints yet{advice}", top=True)
        return
    last = f", the last checkpoint {ago_text(kept.last, status.time)}" if kept.last else ""
    names = count_text(len(kept.projects), "project")
    screen.fact("Projects", f"{names}{last}, {size_text(kept.bytes)}", top=True)
    troubled = [one for one in kept.projects if one.failing or one.unprotected or one.limited]
    for one in troubled[:_TROUBLED]:
        what = one.failure if one.failing else one.unprotected or one.limited
        word = "FAILING" if one.failing else "limited"
        screen.fact("", f"{screen.path(one.project)} {word}: {what}")
    if len(troubled) > _TROUBLED:
        screen.fact("", NextStep("checkpoint status", before=f"… and {len(troubled) - _TROUBLED:,} more:"))
    gone = [one for one in kept.projects if one.gone]
    for one in gone[:_TROUBLED]:
        back = NextStep("rollback", ("--dir", one.project), before=f"{screen.path(one.project)}:")
        screen.fact("Gone", back)
    if len(gone) > _TROUBLED:
        screen.fact("", NextStep("rebuild", ("--dry-run",), before=f"… and {len(gone) - _TROUBLED:,} more:"))
    exposed = [one for one in kept.projects if one.here and (one.left_out or one.hidden_trouble)]
    for one in exposed[:_TROUBLED]:
        what = one.hidden_trouble or (not_kept_text(one.left_out) if one.left_out else "")
        screen.fact("Not kept", f"of {screen.path(one.project)}: {what}")
    if len(exposed) > _TROUBLED:
        screen.fact("", f"… and of {count_text(len(exposed) - _TROUBLED, 'more project')}")


def show_agents(screen: Screen, status: Status) -> None:
    """Who calls safekept, and who could; what the verdict has said is not said again."""
    if not status.projects.projects and not any(host.places for host in status.hosts):
        return  # said beside the projects
    reasons = {reason.text for reason in status.verdict.reasons}
    label = "Agents"
    for host in status.hosts:
        first, *more = host_lines(screen.console, host, status.time)
        screen.fact(label, f"{host.host} {screen.text(first)}", top=bool(label))
        label = ""
        for line, (_, text, _) in zip(more, host.troubles, strict=True):
            if text not in reasons:
                screen.fact("", screen.text(line))


def show_schedule(screen: Screen, status: Status) -> None:
    schedule, now = status.schedule, status.time
    if not schedule.looked and not schedule.installed:
        screen.fact("Schedule", "none: nothing happens by itself", top=True)
    elif schedule.trouble:
        screen.fact("Schedule", f"will not run: {schedule.trouble}", top=True)
    else:
        screen.fact("Schedule", _runs(schedule, now), top=True)
        if schedule.other_times:
            screen.fact("", NextStep("schedule install", before=f"{schedule.other_times}:"))


def show_journal(screen: Screen, status: Status) -> None:
    journal = status.journal
    if journal.problem:
        screen.fact("Journal", f"{screen.path(journal.path)} cannot be read: {journal.problem}", top=True)
    elif journal.newer:
        screen.fact("Journal", "written by a later safekept, too; understood as far as possible", top=True)
    elif journal.unreadable:
        screen.fact("Journal", f"{count_text(journal.unreadable, 'line')} cannot be read", top=True)


def _runs(schedule: ScheduleStatus, now: float) -> str:
    """When it ran and runs again."""
    if not schedule.last:
        return f"first run {clock_text(schedule.next, now)}" if schedule.next else "no run yet"
    last = f"last run {ago_text(schedule.last, now)}, {schedule.state}"
    return f"{last}; next {clock_text(schedule.next, now)}" if schedule.next else last


def clock_text(when: float, now: float) -> str:
    """`tonight at 03:30`, `tomorrow at 12:00`, `in 3 d`. The host looks every hour for what is due."""
    if when <= now:
        return "within the hour"
    then, today = datetime.datetime.fromtimestamp(when), datetime.datetime.fromtimestamp(now)
    days = (then.date() - today.date()).days
    if days > 1:
        return f"in {seconds_text(when - now)}"
    # Before six in the morning is still the night before, to a reader.
    night = then.hour < 6 and (days == 1 or today.hour < 6)
    return f"{'tonight' if night else 'tomorrow' if days else 'today'} at {then:%H:%M}"
