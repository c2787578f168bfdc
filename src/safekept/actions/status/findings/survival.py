"""Whether an `rm -rf ~` of the agent would be survived, and by which step: by having tried it.

The steps, the weakest first: the seat belt, which an ordinary `rm` does not get through; a keeper, which
belongs to another owner; a destination that lets nothing be deleted with this machine's credential; one that
keeps every version besides. What gets through one of them is stopped by the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from safekept.core.ages import iso_time, seconds_text
from safekept.core.records import dataclass

from ...base.context import UserContext
from ...base.kept_copies import KEY, copies_directory
from ...base.own_places import within
from ...keeper.keeper_status import KeeperStatus
from ...vault.place import is_remote
from ..destination_status import DestinationStatus
from ..vault_status import NONE, VaultStatus

NOTHING, BELT, KEEPER, APPEND_ONLY, OBJECT_LOCK = "none", "belt", "keeper", "append-only", "object-lock"
#: The weakest first.
STEPS = (NOTHING, BELT, KEEPER, APPEND_ONLY, OBJECT_LOCK)


@dataclass(frozen=True, slots=True)
class SurvivedBy:
    """The strongest step that holds. `tried`: when that was found out; 0 where nothing holds."""

    step: str = NOTHING
    tried: float = 0.0
    name: str = ""  # of a destination
    why: str = ""  # of what does not hold, what stands against it

    @property
    def held(self) -> bool:
        return self.step != NOTHING

    def text(self, now: float) -> str:
        """`survived by the seat belt; tried just now`."""
        if not self.held:
            return f"not survived{': ' + self.why if self.why else ''}"
        by = {
            BELT: "the seat belt",
            KEEPER: "the keeper",
            APPEND_ONLY: f"{self.name}, where nothing can be deleted from here",
            OBJECT_LOCK: f"{self.name}, which keeps every version",
        }[self.step]
        age = now - self.tried
        when = "just now" if age < 1 else f"{seconds_text(age)} ago"
        return f"survived by {by}; tried {when}"

    def as_dict(self) -> dict[str, object]:
        return {
            "survived": self.held,
            "step": self.step,
            "name": self.name or None,
            "tried": iso_time(self.tried) if self.tried else None,
            "why_not": self.why or None,
        }


def survival(
    context: UserContext,
    vault: VaultStatus,
    copies: Iterable[DestinationStatus],
    keeper: KeeperStatus | None,
    now: float,
) -> SurvivedBy | None:
    """What holds now; None where nothing is kept yet."""
    if vault.state == NONE:
        return None
    steps = [_belt(context, vault, now)]
    if keeper is not None and keeper.counts and not is_remote(context, context.places.vault):
        steps.append(SurvivedBy(KEEPER, keeper.confirmed))
    # A copy that could not be opened again is none.
    steps += [_destination(one) for one in copies if one.keeps and one.last and vault.recovery_access]
    return max(steps, key=lambda one: (STEPS.index(one.step), one.tried))


def _belt(context: UserContext, vault: VaultStatus, now: float) -> SurvivedBy:
    """Every store below the home directory is closed, or lies elsewhere: what is closed is tried."""
    from ...vault.seat_belt import look

    home = os.path.realpath(context.places.user_home)
    found = [one for one in look(context) if within(os.path.realpath(one.path), home)]
    open_ = [one for one in found if not one.closed]
    if open_:
        first = open_[0]
        why = first.why or ("opened by `vault open`" if first.state == "open" else "the seat belt is off")
        return SurvivedBy(why=f"it would take {' and '.join(one.what for one in open_)} ({why})")
    if _only_key(context, vault, home):
        return SurvivedBy(why="it would take the only key of the vault")
    return SurvivedBy(BELT, now)


def _only_key(context: UserContext, vault: VaultStatus, home: str) -> bool:
    """Whether what opens the vault lies where an `rm` finds it, and nowhere else."""
    if not vault.key_file or vault.recovery_access or not within(os.path.realpath(vault.key_file), home):
        return False
    return not os.path.isfile(os.path.join(copies_directory(context), KEY))


def _destination(one: DestinationStatus) -> SurvivedBy:
    return SurvivedBy(OBJECT_LOCK if one.versions else APPEND_ONLY, one.tried, one.name)
