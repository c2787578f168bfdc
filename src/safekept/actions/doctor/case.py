"""What the doctor is asked, and what every family of checks is given to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.events import Listener, silent
from safekept.core.finding import Finding
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

if TYPE_CHECKING:
    from ..base.context import UserContext
    from ..status.host_status import HostStatus
    from ..status.status import Status


@dataclass(frozen=True, slots=True)
class DoctorRequest:
    """What the doctor is asked to look at, and what only a face knows of the settings."""

    home: str = ""
    layout: str = ""
    config_directory: str = ""
    recipients: tuple[str, ...] = ()  # whom archives are sealed to
    passphrase_command: str = ""
    stale_hours: float = 26.0
    deadline: float = 30.0  # for a database that is locked
    hosts: tuple[HostStatus, ...] = ()  # agent programs on this machine, and what stands in their settings


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that the families look at."""

    context: UserContext
    request: DoctorRequest
    status: Status
    now: float
    listener: Listener = silent
    key_mode: int = 0  # of the vault's key file, before anything was opened
    remarks: list[str] = field(default_factory=list)  # what could not be looked at: unknown is no finding

    def command(self, verb: str, *arguments: str, home: str = "", before: str = "") -> NextStep:
        """A command of ours, with the home named where it is not the default one."""
        shown = next((one for one in self.status.homes if one.home == home), None)
        named = ("--home", home) if home and (shown is None or not shown.default) else ()
        return NextStep(verb, (*arguments, *named), before)


Family = Callable[[Case], Iterator[Finding]]
