"""Send what git hides in projects to a destination whose `takes` names it, and to no other.

It is a repository of its own, so its copy is one, too: `hidden-<first 16 digits of its id>/` beside the
vault, whose key and passphrases open it. No list of vaults or snapshots shows it. Whatever goes wrong with
it, the vault has arrived.
"""

from __future__ import annotations

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener
from safekept.core.objects.base import ObjectStore
from safekept.core.records import dataclass
from safekept.vault.mirror import Mirrored, MirrorPlan
from safekept.vault.storage import FileKind, ObjectStorage

from ...base.context import UserContext
from ...projects.hidden.record import hidden_exists
from ...projects.hidden.repository import open_hidden
from .copying import RepositoryCopy

#: Seconds for which it waits for a process that drops hidden halves here.
_WAIT = 60.0


@dataclass(slots=True)
class HiddenPushed:
    """What was sent of it, and why not."""

    copy: RepositoryCopy | None = None
    trouble: str = ""

    @property
    def plan(self) -> MirrorPlan | None:
        return self.copy.plan if self.copy else None

    @property
    def mirrored(self) -> Mirrored | None:
        return self.copy.mirrored if self.copy else None

    @property
    def deleting(self) -> int:
        """Files there that a prune deletes."""
        return self.copy.deleting if self.copy else 0

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
            target = ObjectStorage(objects.below(f"hidden-{repository.id[:16]}/"))
            copy = done.copy = RepositoryCopy(context, repository, target)
            with repository.lock(wait=_WAIT) as lock:
                plan = copy.compare(listener, _once_here if prune else None)
                if not dry_run:
                    copy.carry_out(plan, lanes or objects.lanes, lock.check, listener)
                    done.trouble = copy.undeleted
    except SafekeptError as error:
        done.trouble = f"what git hides was not sent: {error.clause}"
    return done


def _once_here(plan: MirrorPlan) -> set[str]:
    """Everything there was once here: the place is named after this very repository."""
    return set(plan.surplus[FileKind.SNAPSHOT])
