"""Groups of settings as the plain values that the actions take."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.owner import foreign_owner
from safekept.core.regular import read_regular

from .checking import is_kind, parsed
from .loading import Settings
from .table import BY_NAME

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.projects.checkpoint import CheckpointPolicy
    from safekept.checkpoints.take import TakeSettings


def with_hermes(settings: Settings, home: str) -> Settings:
    """The same, with the caps and retention of a Hermes home's `config.yaml` where ours are silent.

    What is not there or makes no sense is passed over: it is Hermes's file and not ours to refuse.
    """
    from safekept.core.agents.yaml_nodes import compose, text_at

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

    return TakeSettings(
        max_file_size=int(settings.number("checkpoints.max_file_size_mb") * (1 << 20)),
        max_files=settings.whole("checkpoints.max_files"),
        exclusions=settings.texts("checkpoints.exclude"),
    )


def take_settings_from(
    settings: Settings, context: UserContext, home: str = "", layout: str = ""
) -> TakeSettings:
    """How points are taken, for whoever needs no more of the policy than that."""
    home = _hermes_home(context, home, layout)
    return _take_settings(with_hermes(settings, home) if home else settings)


def policy_from(
    settings: Settings, context: UserContext, home: str = "", layout: str = ""
) -> CheckpointPolicy:
    """What holds: ours, and where ours is silent what the Hermes home's own file says."""
    return checkpoint_policy(settings, _hermes_home(context, home, layout))


def _hermes_home(context: UserContext, home: str, layout: str) -> str:
    """The home whose `config.yaml` counts; as root, none of somebody else."""
    try:
        found, name = context.whereabouts(home, layout)
    except SafekeptError:
        return ""
    return found if name == "hermes" and foreign_owner(found) is None else ""
