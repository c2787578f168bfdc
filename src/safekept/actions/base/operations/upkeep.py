"""What is written down of alarms, the schedule, doctor, and hosts that were connected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from .facts import Facts


@dataclass(kw_only=True, slots=True)
class AlarmFacts(Facts):
    """Something that a person has to know."""

    verb: ClassVar[str] = "alarm"

    kind: str | None = None
    about: str | None = None
    text: str | None = None
    restore: tuple[str, ...] | None = None
    pinned: str | None = None
    losses: tuple[Mapping[str, object], ...] | None = None
    paths: tuple[str, ...] | None = None


@dataclass(kw_only=True, slots=True)
class AlarmEndFacts(Facts):
    """Alarms that are over."""

    verb: ClassVar[str] = "alarm-over"

    alarms: tuple[str, ...] | None = None
    texts: tuple[str, ...] | None = None
    snapshot: str | None = None


@dataclass(kw_only=True, slots=True)
class AcknowledgeFacts(AlarmEndFacts):
    """Alarms that a person has seen to."""

    verb: ClassVar[str] = "alarm-acknowledged"


@dataclass(kw_only=True, slots=True)
class DeclineFacts(Facts):
    """Findings that a person means to leave as they are."""

    verb: ClassVar[str] = "decline"

    declined: tuple[str, ...] | None = None


@dataclass(kw_only=True, slots=True)
class NotifyFacts(Facts):
    """Who was told, and whether it arrived."""

    verb: ClassVar[str] = "notify"

    kind: str | None = None
    title: str | None = None
    targets: tuple[Mapping[str, object], ...] | None = None


@dataclass(kw_only=True, slots=True)
class ScheduleFacts(Facts):
    """A run of what was due."""

    verb: ClassVar[str] = "schedule"

    steps: tuple[Mapping[str, object], ...] | None = None


@dataclass(kw_only=True, slots=True)
class ScheduleInstallFacts(Facts):
    """What wakes us from now on."""

    verb: ClassVar[str] = "schedule-install"

    host: str | None = None
    files: tuple[str, ...] | None = None
    user: str | None = None


@dataclass(kw_only=True, slots=True)
class ScheduleRemoveFacts(ScheduleInstallFacts):
    """What no longer does."""

    verb: ClassVar[str] = "schedule-remove"


@dataclass(kw_only=True, slots=True)
class DoctorFacts(Facts):
    """What was repaired."""

    verb: ClassVar[str] = "doctor"

    fixes: tuple[Mapping[str, object], ...] | None = None


@dataclass(kw_only=True, slots=True)
class ConnectFacts(Facts):
    """A host that calls us."""

    verb: ClassVar[str] = "connect"

    agent: str | None = None
    scope: str | None = None
    files_changed: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None


@dataclass(kw_only=True, slots=True)
class DisconnectFacts(ConnectFacts):
    """A host that no longer does."""

    verb: ClassVar[str] = "disconnect"
