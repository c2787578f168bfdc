"""What the journal says of alarms, the schedule, setup, doctor, and hosts that were connected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from safekept.core.records import dataclass

from .facts import Facts, documented


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
    reason: str | None = None  # why it is over: it was done, it arrived


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
    """Who was documented, and whether it arrived."""

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
class SetupFacts(Facts):
    """A machine that was set up. Each step has a line of its own, too, by the verb that did it."""

    verb: ClassVar[str] = "setup"

    homes: tuple[str, ...] | None = None
    steps: tuple[Mapping[str, object], ...] | None = None  # `step`, `state` and `text` of each


@dataclass(kw_only=True, slots=True)
class DoctorFacts(Facts):
    """What was repaired."""

    verb: ClassVar[str] = "doctor"

    fixes: tuple[Mapping[str, object], ...] | None = documented("repairs")


@dataclass(kw_only=True, slots=True)
class ConnectFacts(Facts):
    """A host that calls us."""

    verb: ClassVar[str] = "connect"

    agent: str | None = documented("host")
    scope: str | None = documented()
    files_changed: tuple[str, ...] | None = None  # documents have every file, with what changes
    command: tuple[str, ...] | None = documented()


@dataclass(kw_only=True, slots=True)
class DisconnectFacts(ConnectFacts):
    """A host that no longer does."""

    verb: ClassVar[str] = "disconnect"

    left: Mapping[str, object] | None = None  # the digest of each file that was changed; "": it was removed


# What is written down of drills.


@dataclass(kw_only=True, slots=True)
class DrillFacts(Facts):
    """A drill: what was restored, where, and whether it passed."""

    verb: ClassVar[str] = "drill"

    subject: str | None = documented()
    name: str | None = documented()
    small: bool | None = documented()
    destination: str | None = None
    store: str | None = documented()
    snapshot: str | None = None
    projects: tuple[str, ...] | None = None
    rebuild: str | None = None  # the rebuild that it belongs to
    scratch: str | None = None  # while it works
    ok: bool | None = documented()
    files: int | None = documented()
    bytes: int | None = documented()
    failed: tuple[str, ...] | None = None  # the checks; documents have a row of each
    receipt: str | None = documented()


# What is written down of risky commands: before them, and after.


@dataclass(kw_only=True, slots=True)
class GuardFacts(Facts):
    """A command that ran between a snapshot and a look at the home."""

    verb: ClassVar[str] = "guard"

    seconds: float | None = None  # of all of it
    command: str | None = None  # without its options
    kind: str | None = documented()
    protection: str | None = None
    snapshot: str | None = None
    raised: str | None = None
    status: int | None = documented()
    command_seconds: float | None = documented("seconds")
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
