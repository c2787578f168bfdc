"""Send what git hides in projects to a destination whose `takes` names it, and to no other.

It is a repository of its own, so its copy is one, too: `hidden-<first 16 digits of its id>/` beside the
vault, whose key and passphrases open it. No list of vaults or snapshots shows it. Whatever goes wrong with
it, the vault has arrived.
"""

from __future__ import annotations

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.objects.base import ObjectStore
from safekept.core.records import dataclass
from safekept.vault.mirror import (
    Mirrored,
    MirrorPlan,
    carry_out,
    lost_packs,
    plan_mirror,
    plan_mirror_prune,
    prune_mirror,
    refuse_other_vault,
)
from safekept.vault.repo import Repository
from safekept.vault.storage import FileKind, ObjectStorage

from ..base.context import UserContext
from ..projects.hidden.record import hidden_exists
from ..projects.hidden.repository import open_hidden
from ..vault.keys.keys import removed_keys

#: Seconds for which it waits for a process that drops hidden halves here.
_WAIT = 60.0


@dataclass(slots=True)
class HiddenPushed:
    """What was sent of it, and why not."""

    plan: MirrorPlan | None = None
    mirrored: Mirrored | None = None
    deleting: int = 0  # files there that a prune deletes
    trouble: str = ""

    @property
    def complete(self) -> bool:
        return not self.trouble and (self.mirrored is None or not self.mirrored.problems)

    def as_dict(self) -> dict[str, object]:
        return {
            "plan": self.plan.as_dict() if self.plan else None,
            "mirrored": self.mirrored.as_dict() if self.mirrored else None,
            "trouble": self.trouble or None,
        }


def push_hidden(
    context: UserContext,
    objects: ObjectStore,
    *,
    lanes: int,
    prune: bool,
    dry_run: bool,
    listener: Listener,
) -> HiddenPushed | None:
    """Send what is missing there; None where nothing hidden was ever kept. Nothing is raised."""
    if not hidden_exists(context):
        return None
    done = HiddenPushed()
    try:
        # It follows the keys of the vault first: what was taken from one must not open the copy of the other.
        with open_hidden(context, create=True, listener=listener) as repository:
            _send(context, repository, objects, done, lanes, prune, dry_run, listener)
    except SafekeptError as error:
        done.trouble = f"what git hides was not sent: {error.clause}"
    return done


def _send(
    context: UserContext,
    repository: Repository,
    objects: ObjectStore,
    done: HiddenPushed,
    lanes: int,
    prune: bool,
    dry_run: bool,
    listener: Listener,
) -> None:
    target = ObjectStorage(objects.below(f"hidden-{repository.id[:16]}/"))
    with repository.lock(wait=_WAIT) as lock:
        listener(Event("compare"))
        plan = done.plan = plan_mirror(repository.storage, target)
        refuse_other_vault(repository, plan, target)
        pruning = None
        if prune:
            # Everything there was once here: the place is named after this very repository.
            pruning = plan_mirror_prune(
                repository,
                plan,
                target,
                once_here=plan.surplus[FileKind.SNAPSHOT],
                removed_keys=removed_keys(context),
            )
            done.deleting = len(pruning.files)
        if dry_run:
            return
        done.mirrored = carry_out(
            plan,
            repository.storage,
            target,
            lanes=lanes or objects.lanes,
            check=lock.check,
            listener=listener,
        )
        done.mirrored.problems += lost_packs(repository, plan.packs)
        if pruning is not None and not done.mirrored.problems:
            done.mirrored.deleted = prune_mirror(pruning, target, check=lock.check, listener=listener)
