"""One finding: what is wrong, how that is known, what mends it, and whether safekept may do so unasked.

Two levels. *Serious*: something is lost, or would be if this machine died tonight without anybody
looking. *Advice*: nothing is lost, and it could be better. Every code is in `docs/reference/doctor.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from safekept.core.events import Listener, silent
from safekept.core.spelling import shell_line

if TYPE_CHECKING:
    from ..base.context import UserContext
    from ..status.host_status import HostStatus
    from ..status.status import Status

SERIOUS, ADVICE = "serious", "advice"


@dataclass(frozen=True, slots=True)
class Repair:
    """What `--fix` does about a finding: what can be undone, or what the next command would do anyway."""

    kind: str  # "mode", "vault-locks", "landing", "rollback", "git-lock"
    path: str
    text: str  # what is done, in words
    before: int = 0  # of a mode
    after: int = 0

    def as_dict(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "path": self.path,
            "text": self.text,
            **({"before": f"{self.before:04o}", "after": f"{self.after:04o}"} if self.kind == "mode" else {}),
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to do something about."""

    code: str  # kebab-case; stable
    level: str  # SERIOUS or ADVICE
    text: str  # one sentence, a fact
    evidence: tuple[str, ...] = ()
    fix: tuple[str, ...] = ()  # as in an error: sentences, or commands in backticks that run as printed
    repair: Repair | None = None
    home: str = ""

    def as_dict(self) -> dict[str, object]:
        return {
            "code": self.code,
            "level": self.level,
            "text": self.text,
            "evidence": list(self.evidence),
            "fix": list(self.fix),
            "repair": self.repair.as_dict() if self.repair else None,
            "home": self.home or None,
        }


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

    def command(self, *words: str, home: str = "") -> str:
        """A command of ours in backticks, with the home named where it is not the default one."""
        shown = next((one for one in self.status.homes if one.home == home), None)
        named = ["--home", home] if home and (shown is None or not shown.default) else []
        return f"`{shell_line(['safekept', *words, *named])}`"


Family = Callable[[Case], Iterator[Finding]]
