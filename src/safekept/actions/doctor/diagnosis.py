"""Look at everything that can go wrong around a user's protection, and say what to do about each of it.

Nothing is changed by looking. A family that fails to look is a remark, never an end: the others go on.
"""

from __future__ import annotations

import time
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.finding import STALE, Finding, exit_code, in_order
from safekept.core.next_step import PROGRAM, NextStep, next_document, spelled
from safekept.core.records import dataclass

from ..alarms.meant import declined_for_good
from ..base.context import UserContext
from ..status.findings.doctor_memory import remember
from ..status.status import Status, look
from .case import Case, DoctorRequest, Family
from .databases import look_at_databases
from .essentials import look_at_essentials
from .interrupted import look_at_interrupted
from .leftover_copies import look_at_clutter
from .machine_checks import look_at_clock, look_at_journal, look_at_programs, look_at_room
from .permissions import look_at_permissions, mode_of
from .protection import look_at_protection

#: In the order in which people should read them, within a level.
FAMILIES: tuple[tuple[str, Family], ...] = (
    ("what was cut off", look_at_interrupted),
    ("databases", look_at_databases),
    ("protection", look_at_protection),
    ("what every agent has", look_at_essentials),
    ("permissions", look_at_permissions),
    ("room", look_at_room),
    ("programs", look_at_programs),
    ("clock", look_at_clock),
    ("journal", look_at_journal),
    ("copies of other tools", look_at_clutter),
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found, the serious first."""

    findings: tuple[Finding, ...]
    status: Status
    remarks: tuple[str, ...] = ()  # what could not be looked at
    seconds: float = 0.0
    looked: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0: nothing to do; 3: findings; 4: an alarm, exactly where `status --check` has one."""
        return exit_code(self.findings) or (STALE if self.findings else 0)

    @property
    def repairs(self) -> list[Finding]:
        """The findings that `--fix` mends."""
        return [one for one in self.findings if one.repair is not None]

    @property
    def first(self) -> tuple[NextStep, ...]:
        """The one command that does all of it, where nothing was ever kept here: what `status` says, too."""
        printed = [one for finding in self.findings for one in finding.fix]
        return tuple(
            one
            for one in self.status.verdict.next
            if isinstance(one, NextStep) and one.verb == "setup" and one not in printed
        )

    def as_dict(self, program: str = PROGRAM) -> dict[str, object]:
        """Everything, with the commands in it as `program` is called."""
        document = {
            "exit_code": self.exit_code,
            "homes": [one.home for one in self.status.homes],
            "vault": self.status.vault.place,
            **next_document(self.first),
            "findings": [one.as_dict() for one in self.findings],
            "remarks": list(self.remarks),
            "seconds": round(self.seconds, 3),
        }
        return spelled(document, program)


def examine(
    context: UserContext, request: DoctorRequest | None = None, listener: Listener = silent
) -> Diagnosis:
    """Look at everything; of one home where it is named. Raises only where no home can be chosen."""
    request = request or DoctorRequest()
    began, now = time.monotonic(), time.time()
    key_mode = mode_of(context.places.vault_key_file)  # opening the vault closes a key to others
    status = look(
        context,
        request.home,
        request.layout,
        stale_hours=request.stale_hours,
        now=now,
        hosts=request.hosts,
    )
    case = Case(context, request, status, now, listener, key_mode)
    findings: list[Finding] = []
    own: list[Finding] = []
    for name, family in FAMILIES:
        listener(Event("look", path=name))
        try:
            found = list(family(case))
            findings += found
            own += [] if family is look_at_protection else found
        except (SafekeptError, OSError) as error:
            case.remarks.append(f"{name} could not be looked at: {error}")
    remember(context, own, now)
    left = declined_for_good(context)
    findings = [one for one in findings if not one.declinable or one.declinable not in left]
    findings = in_order(findings)
    remarks = tuple(dict.fromkeys(case.remarks))
    return Diagnosis(tuple(findings), status, remarks, time.monotonic() - began)
