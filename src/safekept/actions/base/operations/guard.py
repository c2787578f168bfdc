"""What is written down of risky commands: before them, and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from .facts import Facts


@dataclass(kw_only=True, slots=True)
class GuardFacts(Facts):
    """A command that ran between a snapshot and a look at the home."""

    verb: ClassVar[str] = "guard"

    command: str | None = None
    kind: str | None = None
    protection: str | None = None
    snapshot: str | None = None
    raised: str | None = None
    status: int | None = None
    command_seconds: float | None = None
    findings: tuple[Mapping[str, object], ...] | None = None
    notes: tuple[str, ...] | None = None
    unchecked: str | None = None
    restored: tuple[str, ...] | None = None
    restore: str | None = None  # the operation that brought it back


@dataclass(kw_only=True, slots=True)
class PreUpdateFacts(Facts):
    """What was taken before an update, as Hermes's own settings say."""

    verb: ClassVar[str] = "pre-update"

    mode: str | None = None
    snapshot: str | None = None
    files: int | None = None
    bytes: int | None = None
    zip: str | None = None
    rotated: tuple[str, ...] | None = None
    problems: tuple[Mapping[str, object], ...] | None = None


@dataclass(kw_only=True, slots=True)
class PreMigrationFacts(PreUpdateFacts):
    """The same before a migration."""

    verb: ClassVar[str] = "pre-migration"
