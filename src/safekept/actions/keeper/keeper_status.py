"""What the keeper holds of this user, and whether that counts: asked of it, and tried."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from safekept.core.errors import BAD_SHAPE, SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.owner import chosen_by
from safekept.core.records import dataclass

from ..base.context import UserContext

if TYPE_CHECKING:
    from safekept.keeper.history import Manifest

#: Seconds for an answer about how it is.
_PATIENCE = 10.0
#: Seconds within which what was stored is with the keeper.
_ON_ITS_WAY = 900.0
_BEHIND = "it does not have the last snapshot"


class NoKeeper(SafekeptError):
    code, exit_code = "no-keeper", 10


@dataclass(frozen=True, slots=True)
class KeeperStatus:
    """One look. `why_not`: the copy does not count, and why; `wrong`: it does not answer, and why."""

    socket: str
    wrong: str = ""
    why_not: str = ""
    used: int = 0
    quota: int = 0
    keep_days: float = 0.0
    newest: Manifest | None = None
    confirmed: float = 0.0  # when the newest was last said to be so
    manifests: int = 0
    pinned: int = 0  # the manifest that an alarm keeps: the stores shrank to less than half of it
    shrunk: float = 0.0  # since when
    acknowledged: int = 0  # up to this manifest a person has looked
    full: float = 0.0  # since when nothing new fits
    behind: float = 0.0  # when a snapshot was stored that it should have by now, and has not
    failure: str = ""  # why the last transfer failed

    @property
    def counts(self) -> bool:
        """Whether an `rm -rf` of all that is this user's leaves this copy, with what was stored last."""
        return not self.wrong and not self.why_not and self.newest is not None and not self.behind

    def as_dict(self) -> dict[str, object]:
        newest = self.newest
        return {
            "socket": self.socket,
            "answers": not self.wrong,
            "counts": self.counts,
            "why_not": self.wrong or self.why_not or (_BEHIND if self.behind else None),
            "used": self.used,
            "quota": self.quota,
            "keep_days": self.keep_days,
            "manifests": self.manifests,
            "newest": {
                "number": newest.number,
                "time": newest.time,
                "confirmed": self.confirmed,
                "files": newest.files,
                "bytes": newest.bytes,
                "points": newest.points,
            }
            if newest is not None
            else None,
            "pinned": self.pinned or None,
            "full": bool(self.full),
        }


def keeper_status(context: UserContext) -> KeeperStatus | None:
    """How it is; None where this machine has no keeper. Never an error, and never a long wait."""
    path = context.choices.keeper_socket
    if not path or not os.path.exists(path):
        return None
    from safekept.keeper.client import Keeper

    try:
        with Keeper(path, _PATIENCE) as keeper:
            found = keeper.hello()
            return _understood(context, path, keeper.owner, found)
    except SafekeptError as error:
        return KeeperStatus(path, wrong=error.what)
    except BAD_SHAPE:
        return KeeperStatus(path, wrong="The keeper answers what this safekept does not understand")


def compared(
    context: UserContext, keeper: KeeperStatus | None, stored: Iterable[float], now: float
) -> KeeperStatus | None:
    """The same, with whether the newest of what was `stored` should be there by now, and is not."""
    last = max((one for one in stored if now - one > _ON_ITS_WAY), default=0.0)
    if keeper is None or keeper.newest is None or last <= keeper.confirmed:
        return keeper
    from .transfer import last_failure

    return replace(keeper, behind=last, failure=last_failure(context.places.cache_directory))


def _understood(context: UserContext, path: str, owner: int, found: dict[str, Any]) -> KeeperStatus:
    from safekept.keeper.history import read_manifest

    newest, alarm = found["newest"], found["alarm"]
    confirmed = float(newest["confirmed"]) if newest else 0.0
    return KeeperStatus(
        path,
        why_not=_why_not(context, path, owner),
        used=int(found["used"]),
        quota=int(found["quota"]),
        keep_days=float(found["keep_days"]),
        newest=read_manifest(newest) if newest else None,
        confirmed=confirmed,
        manifests=int(found["manifests"]),
        pinned=int(alarm["pinned"]),
        shrunk=float(alarm["since"]),
        acknowledged=int(alarm["acknowledged"]),
        full=float(alarm["full"]),
    )


def _why_not(context: UserContext, path: str, owner: int) -> str:
    """Why what it holds is no safer than the rest; empty where it is."""
    from .becoming_root import way_to_root

    if way := way_to_root(context.places.cache_directory):
        return f"this user can become root ({way}), and delete what the keeper holds"
    if owner == os.geteuid():
        return "it runs as this very user"
    directory = os.path.dirname(path)
    if not chosen_by(directory, 0) or os.stat(directory).st_mode & 0o022:
        return f"others than root can write where it listens, `{directory}`"
    return ""


def asked(context: UserContext) -> KeeperStatus:
    """The same for a person who asks; NoKeeper where there is none."""
    found = keeper_status(context)
    if found is None:
        raise NoKeeper(
            f"This machine has no keeper: nothing listens at `{context.choices.keeper_socket}`",
            kept="Nothing was changed",
            next_steps=(
                NextStep("keeper install", ("--dry-run",), before="See what installing one would do:"),
            ),
            socket=context.choices.keeper_socket,
        )
    return found
