"""Groups of settings as the plain values that the actions take."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.files.small import read_regular
from safekept.core.owner import foreign_owner

from .loading import SYSTEM_USER, Settings
from .table import BY_NAME, BadSetting, is_kind, parsed

if TYPE_CHECKING:
    from safekept.actions.alarms.notify import NotifyTargets
    from safekept.actions.base.context import UserContext
    from safekept.actions.projects.checkpoint import CheckpointPolicy
    from safekept.checkpoints.take import TakeSettings
    from safekept.schedule.tasks import Plan


def with_hermes(settings: Settings, home: str) -> Settings:
    """The same, with the caps and retention of a Hermes home's `config.yaml` where ours are silent.

    What is not there or makes no sense is passed over: it is Hermes's file and not ours to refuse.
    """
    from safekept.core.agents import compose, text_at

    try:
        text = read_regular(os.path.join(home, "config.yaml")).decode("utf-8")
        if "checkpoints" not in text:
            return settings  # most have no such section, and to parse YAML costs more than the rest of this
        document = compose(text)
    except (OSError, ValueError):
        return settings
    found: dict[str, object] = {}
    for key in HERMES_CHECKPOINT_KEYS:
        name = f"checkpoints.{key}"
        raw = text_at(document, name)
        if raw is None or name in settings.given:
            continue
        value = parsed(BY_NAME[name], raw.replace("_", ""))
        if not is_kind(BY_NAME[name], value) or (isinstance(value, int | float) and value < 0):
            continue
        # Hermes keeps at least one; for us 0 would mean all.
        found[name] = 1 if name == "checkpoints.max_snapshots" and value == 0 else value
    return replace(settings, values={**settings.values, **found})


def checkpoint_policy(settings: Settings, home: str = "") -> CheckpointPolicy:
    """What holds for checkpoints; `home` is a Hermes home whose section is honoured where ours is silent."""
    from safekept.actions.projects.checkpoint import CheckpointPolicy
    from safekept.checkpoints.upkeep import Limits, MaintenanceSettings

    if home:
        settings = with_hermes(settings, home)
    return CheckpointPolicy(
        take=_take_settings(settings),
        maintenance=MaintenanceSettings(
            limits=Limits(
                max_snapshots=settings.whole("checkpoints.max_snapshots"),
                max_total_bytes=settings.whole("checkpoints.max_total_size_mb") * 1_000_000,
                retention_days=settings.number("checkpoints.retention_days"),
            ),
            auto_prune=settings.flag("checkpoints.auto_prune"),
            min_interval_seconds=settings.number("checkpoints.min_interval_hours") * 3600,
        ),
        delete_orphans=settings.flag("checkpoints.delete_orphans"),
        hidden_total=int(settings.number("checkpoints.hidden_total") * 1_000_000_000),
    )


#: The keys of Hermes's section `checkpoints` that we take. Its `enabled` governs its own store only.
HERMES_CHECKPOINT_KEYS = (
    "max_snapshots",
    "max_total_size_mb",
    "max_file_size_mb",
    "auto_prune",
    "retention_days",
    "delete_orphans",
    "min_interval_hours",
)


def _take_settings(settings: Settings) -> TakeSettings:
    from safekept.checkpoints.take import TakeSettings

    budget = int(settings.number("checkpoints.hidden_budget") * 1_000_000_000)
    hidden = None
    if budget > 0:
        from safekept.checkpoints.scan import HiddenLimits

        hidden = HiddenLimits(
            budget,
            settings.whole("checkpoints.hidden_files"),
            budget // 2,
            settings.texts("checkpoints.remakeable"),
        )
    return TakeSettings(
        hidden=hidden,
        max_file_size=int(settings.number("checkpoints.max_file_size_mb") * (1 << 20)),
        max_files=settings.whole("checkpoints.max_files"),
        exclusions=settings.texts("checkpoints.exclude"),
        seat_belt=settings.flag("seat_belt"),
    )


def take_settings_from(
    settings: Settings, context: UserContext, home: str = "", layout: str = ""
) -> TakeSettings:
    """How points are taken, for callers that need no more of the policy than that."""
    home = _hermes_home(context, home, layout)
    return _guarded(_take_settings(with_hermes(settings, home) if home else settings), context)


def policy_from(
    settings: Settings, context: UserContext, home: str = "", layout: str = ""
) -> CheckpointPolicy:
    """What holds: ours, and where ours is silent what the Hermes home's own file says."""
    return guarded(checkpoint_policy(settings, _hermes_home(context, home, layout)), context)


def guarded(policy: CheckpointPolicy, context: UserContext) -> CheckpointPolicy:
    """The same, and no agent's home or secret comes into the checkpoint store."""
    return replace(policy, take=_guarded(policy.take, context))


def _guarded(take: TakeSettings, context: UserContext) -> TakeSettings:
    from safekept.actions.base.own_places import own_places
    from safekept.actions.projects.guarding import HomeGuard

    hidden = take.hidden and replace(take.hidden, avoid=tuple(own_places(context)))
    return replace(take, guard=HomeGuard(context), hidden=hidden)


def _hermes_home(context: UserContext, home: str, layout: str) -> str:
    """The home whose `config.yaml` counts; as root, no other user's."""
    try:
        found, name = context.home_and_layout_name(home, layout)
    except SafekeptError:
        return ""
    return found if name == "hermes" and foreign_owner(found) is None else ""


# The settings `schedule.*` and `notify.*` as the plain values that the actions take.

#: Where the sealed archives of a system timer lie, a directory for each kind of agent.
SYSTEM_ARCHIVES = "/var/backups"


def notify_targets(settings: Settings) -> NotifyTargets | None:
    """Who is notified; None where none is set up, which most commands learn without importing anything."""
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
            kept="Nothing changed",
            next_steps=("Write it as in a shell, with every quotation mark closed",),
        ) from error


def schedule_plan(settings: Settings) -> Plan | None:
    """What is done how often; None: all of it as the defaults say."""
    system = SYSTEM_USER in settings.environment
    if not system and not any(name.startswith("schedule.") for name in settings.given):
        return None
    from safekept.schedule.tasks import HOUR, Cadence, Plan

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
