"""One repository and its copy in a destination: what is missing is sent, a prune deletes what went here.

The vault and what git hides are copied alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from safekept.core.events import Event, Listener
from safekept.core.objects.errors import PlaceRefused
from safekept.core.records import dataclass
from safekept.vault.mirror import (
    Mirrored,
    MirrorPlan,
    carry_out,
    lost_packs,
    plan_mirror,
    refuse_other_vault,
)
from safekept.vault.repo import Repository
from safekept.vault.storage import ObjectStorage

from ...base.context import UserContext
from ...vault.keys.keys import removed_keys

if TYPE_CHECKING:
    from safekept.vault.mirror import MirrorPrune


@dataclass(slots=True)
class RepositoryCopy:
    """What was planned for a copy, and what became of it."""

    context: UserContext
    repository: Repository
    target: ObjectStorage
    plan: MirrorPlan | None = None
    pruning: MirrorPrune | None = None
    mirrored: Mirrored | None = None
    undeleted: str = ""  # why what a prune would delete is still there

    @property
    def deleting(self) -> int:
        """Files there that a prune deletes."""
        return len(self.pruning.files) if self.pruning else 0

    def compare(
        self, listener: Listener, once_here: Callable[[MirrorPlan], Collection[str]] | None = None
    ) -> MirrorPlan:
        """Plan; nothing is changed. `once_here` is for a prune: the snapshots that were in the vault here."""
        listener(Event("compare"))
        plan = self.plan = plan_mirror(self.repository.storage, self.target)
        refuse_other_vault(self.repository, plan, self.target)
        if once_here is not None:
            from safekept.vault.mirror import plan_mirror_prune

            self.pruning = plan_mirror_prune(
                self.repository,
                plan,
                self.target,
                once_here=once_here(plan),
                removed_keys=removed_keys(self.context),
            )
        return plan

    def carry_out(
        self, plan: MirrorPlan, lanes: int, check: Callable[[], None] | None, listener: Listener
    ) -> Mirrored:
        """Send what is missing, then delete what the prune planned, where everything has arrived."""
        repository, target = self.repository, self.target
        mirrored = carry_out(plan, repository.storage, target, lanes=lanes, check=check, listener=listener)
        self.mirrored = mirrored
        mirrored.problems += lost_packs(repository, plan.packs)
        if mirrored.stray_keys:
            gone, found = removed_keys(self.context), mirrored.stray_keys
            mirrored.stray_keys = tuple(key for key in found if key in gone)
            mirrored.other_keys = tuple(key for key in found if key not in gone)
        if self.pruning is not None and not mirrored.problems:
            from safekept.vault.mirror import prune_mirror

            try:
                mirrored.deleted = prune_mirror(self.pruning, target, check=check, listener=listener)
                mirrored.stray_keys = ()
            except PlaceRefused as error:
                # Everything has arrived, and what is left is a whole copy: only the room is not given back.
                self.undeleted = f"what was forgotten here stays there: {error.what}"
        return mirrored
