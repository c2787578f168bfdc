"""The verdict: the rung of the ladder that was reached, every reason against a better one, and what to do.

Every fact is a `Finding`, made in `findings/`: of homes, of stores, of what works by itself. Here they are
only put in order.
What a person declined is not there.
"""

from __future__ import annotations

from collections.abc import Iterable

from safekept.core.ages import seconds_text
from safekept.core.finding import MACHINE_LOST, THIS_MACHINE, Finding, exit_code, head_of, in_order, reached
from safekept.core.next_step import NextStep, Step, next_document
from safekept.core.records import dataclass

#: What the first line says of an `rm -rf ~`, on each rung where it is the next question. A copy elsewhere is
#: not reached by it, whatever happens here.
_SURVIVES = {
    (THIS_MACHINE, True): " and from rm -rf ~",
    (THIS_MACHINE, False): ", not from rm -rf ~",
    (MACHINE_LOST, True): ", rm -rf ~ too",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The one answer."""

    level: str  # a rung of the ladder
    text: str
    findings: tuple[Finding, ...] = ()  # everything that was found, the worst first, notes last
    next: tuple[Step, ...] = ()  # what to do first

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """Those that keep a user from the next rung, the worst first."""
        return tuple(one for one in self.findings if one.counts)

    @property
    def exit_code(self) -> int:
        """What `status --check` returns."""
        return exit_code(self.findings)

    @property
    def alarm(self) -> bool:
        return any(one.alarm for one in self.findings)

    def as_dict(self) -> dict[str, object]:
        return {
            "level": self.level,
            "alarm": self.alarm,
            "exit_code": self.exit_code,
            "text": self.text,
            **next_document(self.next),
            "reasons": [one.as_dict() for one in self.reasons],
        }


def judge(
    found: Iterable[Finding],
    *,
    declined: Iterable[str] = (),
    age: float | None = None,
    copy: tuple[str, float] | None = None,
    begun: bool = True,
    survives: bool | None = None,
) -> Verdict:
    """Put everything that was found in order. `age`: seconds since the oldest of the newest snapshots.

    `copy`: the copy elsewhere that would be counted on, and the seconds since what is in it was taken.

    `begun` is false where nothing was ever kept: then one command does all that the findings ask for.
    `survives`: whether an `rm -rf ~` would leave a copy; None where that is not known.
    """
    left = frozenset(declined)
    counted = (one for one in found if not one.declinable or one.declinable not in left)
    findings = tuple(in_order(counted))
    level, head = reached(findings), head_of(findings)
    head += _SURVIVES.get((level, survives), "") if survives is not None else ""
    if level == MACHINE_LOST and copy is not None:
        text = f"{head}: the copy in {copy[0]} is {seconds_text(max(0.0, copy[1]))} old"
    elif level in (THIS_MACHINE, MACHINE_LOST):
        text = head if age is None else f"{head}: the last snapshot is {seconds_text(max(0.0, age))} old"
    else:
        text = f"{head}: {findings[0].text}"
    steps = findings[0].fix if findings and findings[0].counts else ()
    if not begun and steps and not any(one.alarm for one in findings):
        steps = (NextStep("setup", before="Protect this machine:"),)
    return Verdict(level, text, findings, steps)
