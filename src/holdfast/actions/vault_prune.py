"""Give the room of forgotten snapshots back: a plan to look at, then the deed, both written down."""

from __future__ import annotations

import time

from holdfast.actions.record import record
from holdfast.actions.stored_home import reading
from holdfast.actions.surroundings import Surroundings
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Listener, silent
from holdfast.core.journal import Record, new_id
from holdfast.vault.prune import GRACE, Pruned, PrunePlan, carry_out, plan_prune
from holdfast.vault.repo import Repository


def plan_vault_prune(
    repository: Repository, *, now: bool = False, wait: float = 60.0, listener: Listener = silent
) -> PrunePlan:
    """What would go; with `now`, forgotten snapshots go without their grace. Nothing is changed."""
    with reading(repository, listener, wait):
        return plan_prune(repository, now_ns=time.time_ns(), grace=0.0 if now else GRACE, listener=listener)


def prune_vault(
    surroundings: Surroundings,
    repository: Repository,
    plan: PrunePlan,
    *,
    wait: float = 60.0,
    listener: Listener = silent,
) -> Pruned:
    """Carry a plan out with the vault to ourselves; planned anew where the vault changed meanwhile."""
    operation = new_id()
    facts: dict[str, object] = {"vault": surroundings.vault, "plan": plan.as_dict()}
    try:
        with repository.lock(exclusive=True, wait=wait) as lock:
            pruned = carry_out(repository, plan, lock, listener=listener)
    except HoldfastError as error:
        failure = {**facts, "error": error.as_dict()}
        record(surroundings, Record(operation, "vault-prune", "failed", facts=failure), listener)
        raise
    done = {"vault": surroundings.vault, **pruned.as_dict()}
    record(surroundings, Record(operation, "vault-prune", "done", facts=done), listener)
    return pruned
