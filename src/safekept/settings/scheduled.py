"""The settings `schedule.*` and `notify.*` as the plain values that the actions take."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from .checking import BadSetting
from .loading import SYSTEM_USER, Settings

if TYPE_CHECKING:
    from safekept.actions.alarms.notify import NotifyTargets
    from safekept.schedule.plan import Plan

#: Where the sealed archives of a system timer lie, a directory for each kind of agent.
SYSTEM_ARCHIVES = "/var/backups"


def notify_targets(settings: Settings) -> NotifyTargets | None:
    """Who is told; None where nobody is set up, which most commands learn without importing anything."""
    names = ("notify.ping", "notify.ntfy", "notify.webhook", "notify.email", "notify.command")
    if not any(settings.values[name] for name in names):
        return None
    from safekept.actions.alarms.notify import EVENTS, NotifyTargets

    return NotifyTargets(
        ping=settings.text("notify.ping"),
        ntfy=settings.text("notify.ntfy"),
        webhook=settings.text("notify.webhook"),
        email=settings.texts("notify.email"),
        sendmail=settings.path("notify.sendmail", "/usr/sbin/sendmail"),
        command=_words(settings.text("notify.command")),
        events=settings.texts("notify.events") or EVENTS,
        deadline=settings.number("notify.deadline"),
    )


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise BadSetting(
            f"`notify.command` cannot be taken apart into words: {error}",
            kept="Nothing was read or changed",
            next_steps=("Write it as in a shell, with every quotation mark closed",),
        ) from error


def schedule_plan(settings: Settings) -> Plan | None:
    """What is done how often; None: all of it as the defaults say."""
    system = SYSTEM_USER in settings.environment
    if not system and not any(name.startswith("schedule.") for name in settings.given):
        return None
    from safekept.schedule.cadence import HOUR, Cadence
    from safekept.schedule.plan import Plan

    usual = f"{SYSTEM_ARCHIVES}/{settings.text('layout')}" if system else ""
    return Plan(
        cadence=Cadence.parse(settings.text("schedule.at")),
        homes=settings.texts("schedule.homes"),
        archives=settings.path("schedule.archives", usual) if settings.text("schedule.archives") else usual,
        keep=settings.whole("schedule.keep"),
        prune_days=settings.number("schedule.prune_days"),
        checkpoint_days=settings.number("schedule.checkpoint_days"),
        small_drill_days=settings.number("schedule.small_drill_days"),
        drill_days=settings.number("schedule.drill_days"),
        time_limit=settings.number("schedule.time_limit") * HOUR,
        overdue_hours=settings.number("schedule.overdue_hours"),
        push_overdue_days=settings.number("schedule.push_overdue_days"),
        battery=settings.text("schedule.battery"),
        metered=settings.text("schedule.metered"),
    )
