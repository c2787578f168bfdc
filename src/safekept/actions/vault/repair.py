"""Mend a damaged vault: read everything, keep every sound piece, and let the next snapshot fill the gaps.

Nothing that can still be read is given up. A piece that is damaged stops counting as stored, so that a
snapshot taken afterwards stores it again from the home, which makes older snapshots whole as well.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.vault.care import Repaired, RepairPlan, Report, carry_out_repair, check, plan_repair
from safekept.vault.repo import Repository

from ..base.context import UserContext
from ..base.operations.vault import VaultRepairFacts
from ..base.record import record, recording
from ..snapshots.stored_home import reading

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
        return report, plan_repair(repository, report)


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
            plan = plan_repair(repository, after)
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
