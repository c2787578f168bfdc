"""Give the room of forgotten snapshots back: a plan to look at, then the deed, both written down."""

from __future__ import annotations

import time

from safekept.core.events import Listener, silent
from safekept.core.journal import new_id
from safekept.vault.care import GRACE, Pruned, PrunePlan, carry_out, plan_prune
from safekept.vault.repo import Repository

from ..base.context import UserContext
from ..base.operations.vault import VaultPruneFacts
from ..base.record import record, recording
from ..snapshots.stored_home import reading


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
    """Carry a plan out with the vault to ourselves; planned anew where the vault changed meanwhile."""
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
