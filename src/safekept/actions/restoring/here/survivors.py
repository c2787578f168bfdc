"""Who on this machine still has the stores: the vault, the checkpoints, and the copies of the small files.

All that comes back is read from the stores. Those behind a seat belt lie where they lay; the keeper, where
there is one, puts back what is missing of them. A destination is not among them: it needs a key or a
passphrase, and `rebuild NAME` is its way.
"""

from __future__ import annotations

import os

from safekept.core.events import Listener
from safekept.core.records import dataclass
from safekept.keeper.pages import Entry

from ...base.context import UserContext
from ...base.kept_copies import copies_directory
from ...keeper.bring_back import StoresBroughtBack, bring_back
from ...keeper.held import Held, look_at_keeper
from ...keeper.stores import CHECKPOINTS, JOURNAL, KEY, REFS, SETTINGS, VAULT, Stores
from ...projects.project import checkpoint_directory
from ...vault.place import is_remote

_AT_KEEPER = "keeper:"
#: Who takes one of these takes all of the store, or what opens it.
_NEVER_DELETED = {
    f"{VAULT}/config": "the vault",
    f"{CHECKPOINTS}/HEAD": "checkpoints",
    KEY: "the key",
    SETTINGS: "your settings",
    JOURNAL: "the journal",
}


@dataclass(frozen=True, slots=True)
class KeeperHas:
    """What the keeper has of the stores, and what of that is not here."""

    held: Held
    missing: tuple[Entry, ...]

    @property
    def name(self) -> str:
        """For the record of a rebuild that is on its way."""
        return f"{_AT_KEEPER}{self.held.manifest.number}"

    def seen_by(self, context: UserContext) -> KeeperHas:
        """The same for other settings, which name other places."""
        return KeeperHas(self.held, tuple(self.held.missing(Stores.of(context))))

    @property
    def whole_gone(self) -> tuple[str, ...]:
        """In words, the stores that are gone as a whole, and what opens them. Where it is none, only parts
        are gone: they may have been deleted on purpose."""
        gone = {one.path for one in self.missing}
        return tuple(dict.fromkeys(words for path, words in _NEVER_DELETED.items() if path in gone))

    @property
    def snapshots(self) -> int:
        return sum(one.path.startswith(f"{VAULT}/snapshots/") for one in self.missing)

    @property
    def checkpoints(self) -> int:
        return sum(one.path.startswith(REFS) for one in self.missing)

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.missing)

    def as_dict(self) -> dict[str, object]:
        return {
            "manifest": self.held.manifest.number,
            "time": self.held.manifest.time,
            "passed_over": self.held.passed_over,
            "files": len(self.missing),
            "bytes": self.bytes,
            "snapshots": self.snapshots,
            "checkpoints": self.checkpoints,
        }

    def put_back(self, context: UserContext, listener: Listener) -> StoresBroughtBack:
        """Put it where it was. SafekeptError where that cannot be."""
        return bring_back(context, self.held, listener)


def anything_here(context: UserContext) -> bool:
    """Whether a store of this machine is where it was."""
    vault = "" if is_remote(context, context.places.vault) else context.places.vault
    places = (vault, os.path.join(checkpoint_directory(context), "store"), copies_directory(context))
    return any(place and os.path.isdir(place) for place in places)


def keeper_has(context: UserContext, begun: str = "") -> KeeperHas | None:
    """None where there is no keeper, or nothing of this user at it. `begun`: the name of what an interrupted
    rebuild took."""
    number = begun.removeprefix(_AT_KEEPER)
    found = look_at_keeper(context, int(number) if begun != number and number.isdecimal() else 0)
    return KeeperHas(found, ()).seen_by(context) if found is not None else None
