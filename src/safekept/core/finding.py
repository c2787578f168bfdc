"""One thing that is wrong, what it does to protection, and what to do about it; and the ladder they stand on.

The ladder has four rungs. A finding names the highest rung that is left while it is so; the worst finding
decides. Status, `--short`, `--check`, doctor, fleet and the metrics all climb this one ladder, so that no
two of them can give different answers.
"""

from __future__ import annotations

from collections.abc import Iterable

from .next_step import Step, commands_of
from .records import dataclass

NOT_PROTECTED, PARTLY, THIS_MACHINE, MACHINE_LOST = (
    "not-protected",
    "partly",
    "this-machine",
    "machine-lost",
)
#: Worst first.
LADDER = (NOT_PROTECTED, PARTLY, THIS_MACHINE, MACHINE_LOST)
#: The level of what could be better and takes no protection away.
NOTE = "note"
RUNGS = {
    NOT_PROTECTED: "not protected",
    PARTLY: "partly protected",
    THIS_MACHINE: "protected on this machine",
    MACHINE_LOST: "protected if the machine is lost",
}
#: What a monitor is given: all is well, something is missing or too old, something is lost or broken.
WELL, STALE, ALARM = 0, 3, 4


@dataclass(frozen=True, slots=True)
class Repair:
    """What `doctor --fix` does about a finding: what can be undone, or what the next command does anyway."""

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


#: What a person may mean to leave as it is: how such a name begins, before its colon. A finding with another
#: one could not be declined.
DECLINABLE = frozenset(
    {
        *("no-schedule", "not-connected", "profile-not-connected", "unkept-command", "home-unkept"),
        *("clock", "journal-torn", "essential-missing", "updates-not-guarded", "lost-since"),
        *("leads-out", "schedule-until-logout", "hidden-left-out"),
    }
)
#: What stands before the command by which a person says so: the same words on every screen.
MEANT = "If it is meant to be so:"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to do something about."""

    code: str  # kebab-case; stable
    level: str  # a rung of the ladder below the highest, or NOTE
    text: str  # one sentence, a fact
    evidence: tuple[str, ...] = ()
    fix: tuple[Step, ...] = ()  # as in an error: sentences, and commands of ours
    repair: Repair | None = None
    home: str = ""
    alarm: bool = False  # something is lost or broken already: act now
    #: By what name a person may say that they mean to leave it so; "" where that cannot be said.
    declinable: str = ""
    path: str = ""  # in the home, where it is about one file of it

    @property
    def counts(self) -> bool:
        """Whether it keeps the user from a rung of the ladder."""
        return self.level in LADDER

    @property
    def rank(self) -> tuple[int, bool]:
        """Sorts the worst first; notes come last."""
        return (LADDER.index(self.level) if self.counts else len(LADDER)), not self.alarm

    def as_dict(self) -> dict[str, object]:
        return {
            "code": self.code,
            "level": self.level,
            "alarm": self.alarm,
            "text": self.text,
            "evidence": list(self.evidence),
            "fix": list(self.fix),
            "commands": commands_of(self.fix),
            "repair": self.repair.as_dict() if self.repair else None,
            "home": self.home or None,
            "declinable": self.declinable or None,
        }


#: Work that was begun and has not ended. What else is found is often its consequence, so it is read first.
UNFINISHED = "unfinished"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first. Within a rung the order in which they were found stays."""
    return sorted(findings, key=lambda one: (one.code != UNFINISHED, one.rank))


def reached(findings: Iterable[Finding]) -> str:
    """The rung that these findings leave: the worst that any of them names."""
    rungs = [LADDER.index(one.level) for one in findings if one.counts]
    return LADDER[min(rungs, default=len(LADDER) - 1)]


def head_of(findings: Iterable[Finding]) -> str:
    """How every screen begins: the rung, and whether something is lost or broken already."""
    found = list(findings)
    words = RUNGS[reached(found)]
    return f"ALARM, {words}" if any(one.alarm for one in found) else words[0].upper() + words[1:]


def exit_code(findings: Iterable[Finding]) -> int:
    """What `--check` returns: 4 for an alarm, 3 below "protected on this machine", else 0."""
    found = list(findings)
    if any(one.alarm for one in found):
        return ALARM
    return STALE if reached(found) in (NOT_PROTECTED, PARTLY) else WELL
