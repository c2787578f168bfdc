"""Check the vault, and say of every finding what to do about it."""

from __future__ import annotations

import time

from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep, Step, next_document
from safekept.core.records import dataclass
from safekept.vault.care import (
    GRACE,
    Pruned,
    PrunePlan,
    Repaired,
    RepairPlan,
    Report,
    carry_out,
    carry_out_repair,
    check,
    plan_prune,
    plan_repair,
)
from safekept.vault.repo import Repository

from ..base.context import UserContext
from ..base.operations.stores import VaultCheckFacts, VaultPruneFacts, VaultRepairFacts
from ..base.record import record, recording
from ..snapshots.stored_home import reading

_MEND = NextStep(
    "vault repair",
    before="Keep what is sound:",
    after=",",
    then=NextStep("snapshot", before="then store the rest again:"),
)
_COPY = "If another copy of the vault exists, bring the damaged file back from there"
_INDEX = NextStep("vault repair", before="Make the index again from the packs:")
_WHICH = NextStep("vault check", ("--read-data",), before="See every byte that is damaged:")
_STEPS: dict[str, tuple[Step, ...]] = {
    "index-unreadable": (_INDEX,),
    "index-disagrees": (_INDEX,),
    "pack-not-indexed": (_INDEX,),
    "snapshot-unreadable": (_COPY,),
    "mark-unreadable": (_COPY, "If there is none, delete that file, then pin again what was pinned"),
    "key-unreadable": (
        NextStep(
            "vault key list", before="Other keys still open the vault; remove this one:", after=" names it"
        ),
        "The kit holds a copy of the key file",
    ),
    "lock-left-behind": (NextStep("vault unlock", before="Remove it:"),),
    "pack-unreferenced": (NextStep("vault prune", before="Give its room back:"),),
    "pack-indexed-twice": (NextStep("vault prune", before="Tidy it up:"),),
    "pack-mixed": (NextStep("vault prune", before="Tidy it up:"),),
}
_DAMAGED_DATA = (_COPY, _MEND)


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check found, and what to do."""

    vault: str
    report: Report
    seconds: float
    next_steps: tuple[Step, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "vault": self.vault,
            "sound": self.report.sound,
            "snapshots": self.report.snapshots,
            "packs": self.report.packs,
            "blobs": self.report.blobs,
            "packs_read": self.report.packs_read,
            "bytes_read": self.report.bytes_read,
            "seconds": round(self.seconds, 3),
            "findings": [finding.as_dict() for finding in self.report.findings],
            **next_document(self.next_steps),
        }


def check_vault(
    context: UserContext,
    repository: Repository,
    read_data: float | None = None,
    listener: Listener = silent,
) -> Checked:
    """Check under a shared lock, so that no prune takes away what is being looked at."""
    began = time.monotonic()
    work = VaultCheckFacts(vault=context.places.reads_from, id=repository.id)
    with (
        recording(context, new_id(), work, listener),
        reading(repository, listener, 60.0),
    ):
        report = check(repository, read_data=read_data, listener=listener)
    seconds, place = time.monotonic() - began, context.places.reads_from
    copied = bool(context.places.source_vault)
    steps = _steps_for_a_copy(context, report) if copied else _next_steps(report, read_data)
    checked = Checked(place, report, seconds, steps)
    work.read_data, work.bytes_read = read_data, report.bytes_read
    work.seconds = round(checked.seconds, 3)
    work.damage = tuple(finding.what for finding in report.damage)[:100]
    record(context, work.line(new_id(), "done" if report.sound else "failed"), listener)
    return checked


def _steps_for_a_copy(context: UserContext, report: Report) -> tuple[Step, ...]:
    """A copy is not mended where it lies: a push from the vault sends again what is missing in it."""
    name = context.places.source_vault
    known = any(one.name == name for one in context.choices.destinations)
    if report.damage:
        return (
            NextStep(
                "push",
                (name,) if known else (),
                before="Delete the damaged files there, then send them again:",
                after="" if known else " where the vault itself is",
            ),
            NextStep(
                "pull",
                before="If this copy is all there is, keep what is sound: fetch it with",
                after=", then mend that",
            ),
        )
    if not any(finding.code == "pack-unreferenced" for finding in report.findings):
        return ()
    if not known:
        return ("The next push uses it, or `--prune` gives its room back",)
    return (NextStep("push", (name, "--prune"), "The next push uses it, or", " gives its room back"),)


def _next_steps(report: Report, read_data: float | None) -> tuple[Step, ...]:
    steps: dict[Step, None] = {}
    for finding in report.findings:
        for step in _STEPS.get(finding.code, _DAMAGED_DATA):
            steps[step] = None
    if report.damage and read_data is None:
        steps[_WHICH] = None
    return tuple(steps)


# Mend a damaged vault: read everything, keep every sound piece, and let the next snapshot fill the gaps.
# Nothing that can still be read is given up. A piece that is damaged stops counting as stored, so that a
# snapshot taken afterwards stores it again from the home, which makes older snapshots whole as well.

#: A damaged index hides the packs that it named: what they hold shows only once it was mended.
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class VaultRepair:
    """What was found, what was done, and what a check says now."""

    vault: str
    before: Report
    after: Report
    repaired: Repaired
    seconds: float

    def as_dict(self) -> dict[str, object]:
        return {
            "vault": self.vault,
            "found": [finding.as_dict() for finding in self.before.findings],
            "repaired": self.repaired.as_dict(),
            "left": [finding.as_dict() for finding in self.after.damage],
            "sound": self.after.sound,
            "seconds": round(self.seconds, 3),
        }


def plan_vault_repair(
    repository: Repository, *, wait: float = 60.0, listener: Listener = silent
) -> tuple[Report, RepairPlan]:
    """Read every byte, and say what could be mended. Nothing is changed."""
    with reading(repository, listener, wait):
        report = check(repository, read_data=1.0, listener=listener)
        return report, plan_repair(repository, report, listener=listener)


def repair_vault(
    context: UserContext,
    repository: Repository,
    report: Report,
    *,
    wait: float = 60.0,
    listener: Listener = silent,
) -> VaultRepair:
    """Mend what can be mended with the vault to ourselves, then check again."""
    began = time.monotonic()
    operation = new_id()
    total = Repaired()
    work = VaultRepairFacts(vault=context.places.vault)
    after = report
    with (
        recording(context, operation, work, listener),
        repository.lock(exclusive=True, wait=wait) as lock,
    ):
        for _ in range(_ROUNDS):
            plan = plan_repair(repository, after, listener=listener)
            if plan.empty:
                break
            done = carry_out_repair(repository, plan, lock, listener=listener)
            for name, count in done.as_dict().items():
                setattr(total, name, getattr(total, name) + int(str(count)))
            after = check(repository, read_data=1.0, listener=listener)
    result = VaultRepair(context.places.vault, report, after, total, time.monotonic() - began)
    work.seconds, work.sound = round(result.seconds, 3), after.sound
    work.add(total.as_dict())
    record(context, work.line(operation, "done" if after.sound else "incomplete"), listener)
    return result


# Give the room of forgotten snapshots back: a plan to look at, then the deed, both written down.


def plan_vault_prune(
    repository: Repository,
    *,
    now: bool = False,
    now_ns: int = 0,
    wait: float = 60.0,
    listener: Listener = silent,
) -> PrunePlan:
    """What would go; with `now`, forgotten snapshots go without their grace. Nothing is changed.

    `now_ns` is the time by the clock of a schedule; 0: what the clock says.
    """
    moment = now_ns or time.time_ns()
    with reading(repository, listener, wait):
        return plan_prune(repository, now_ns=moment, grace=0.0 if now else GRACE, listener=listener)


def prune_vault(
    context: UserContext,
    repository: Repository,
    plan: PrunePlan,
    *,
    wait: float = 60.0,
    listener: Listener = silent,
) -> Pruned:
    """Carry a plan out with the vault to ourselves; planned again where the vault changed meanwhile."""
    operation = new_id()
    began = time.monotonic()
    work = VaultPruneFacts(vault=context.places.vault, plan=plan.as_dict())
    with (
        recording(context, operation, work, listener),
        repository.lock(exclusive=True, wait=wait) as lock,
    ):
        pruned = carry_out(repository, plan, lock, listener=listener)
    done = VaultPruneFacts(vault=context.places.vault, seconds=round(time.monotonic() - began, 3))
    done.add(pruned.as_dict())
    record(context, done.line(operation, "done"), listener)
    return pruned
