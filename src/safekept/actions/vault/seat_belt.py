"""`vault open` and `vault close`: the seat belt of every store of this user, opened and closed by hand.

Whether a store is closed is found out by trying to write there, and never read off a setting.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files.belt import Belt
from safekept.core.journal import new_id
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.vault.storage import LocalStorage

from ..base.context import UserContext
from ..base.kept_copies import copies_belt
from ..base.operations.stores import VaultCloseFacts, VaultOpenFacts
from ..base.record import record
from .place import is_remote

if TYPE_CHECKING:
    from safekept.vault.format import Snapshot
    from safekept.vault.repo import Repository


class SeatBeltOff(SafekeptError):
    code = "seat-belt-off"


class SeatBeltStuck(SafekeptError):
    code = "seat-belt-stuck"


@dataclass(frozen=True, slots=True)
class BeltedStore:
    """One store, and whether anything can be deleted from it."""

    what: str
    path: str
    state: str  # `on`, `open` (by a person), `off`
    closed: bool  # found out by trying
    why: str = ""  # it is not closed, although it is to be

    def as_dict(self) -> dict[str, object]:
        return {"what": self.what, "path": self.path, "state": self.state, "closed": self.closed}


def belts(context: UserContext) -> list[tuple[str, Belt]]:
    """The belt of each store that is here."""
    wanted, found = context.choices.seat_belt, []
    if not is_remote(context, context.places.vault):
        found.append(("the vault", LocalStorage(context.places.vault, wanted).belt))
    store = os.path.join(context.places.data_directory, "checkpoints", "store")
    if os.path.isdir(store):
        from safekept.checkpoints.store import belt_of, repositories_belt

        found.append(("the checkpoints of your projects", belt_of(store, wanted)))
        found.append(("their repositories", repositories_belt(os.path.dirname(store), wanted)))
    hidden = os.path.join(context.places.data_directory, "checkpoints", "hidden")
    found.append(("the hidden halves of checkpoints", LocalStorage(hidden, wanted).belt))
    found.append(("copies of the key, the settings, the journal and the receipts", copies_belt(context)))
    return [(what, belt) for what, belt in found if os.path.isdir(belt.root)]


def leave_open_for_others(repository: Repository, belt: Belt, listener: Listener) -> None:
    """A vault in which restic takes snapshots, too, is not closed to it unasked: it could not write any more.

    For a vault that never had a belt. Looked at once: what it says then stays until `vault close`.
    """
    if not belt.possible():
        return
    from safekept.vault.snapshots import list_snapshots

    program = next(filter(None, map(_of_another, list_snapshots(repository)[0])), "")
    if program:
        with contextlib.suppress(OSError):
            belt.lift()
            note = f"Note: {program} takes snapshots in this vault, too, so it stays open to an `rm -rf`."
            listener(Event("belt", text=NextStep("vault close", before=f"{note} Close it:")))


def _of_another(snapshot: Snapshot) -> str:
    """The program that took it, where that is one of those that write vaults themselves. Restic did not say
    its name for years."""
    name = snapshot.program_version.partition(" ")[0] or "restic"
    return name if name in ("restic", "rustic") else ""


def look(context: UserContext) -> list[BeltedStore]:
    """Each store as it is now."""
    return [_seen(what, belt) for what, belt in belts(context)]


def open_stores(context: UserContext) -> list[BeltedStore]:
    """`vault open`: everything can be written until `vault close`, by restic and by any program of yours."""
    for what, belt in belts(context):
        try:
            if context.choices.seat_belt or (belt.wanted is None and belt.state != "off"):
                belt.lift()
            else:
                belt.take_off()
        except OSError as error:
            raise _stuck(what, belt, error) from error
        if belt.holds():
            raise _stuck(what, belt, None)
    record(context, VaultOpenFacts(vault=context.places.vault).line(new_id(), "done"), silent)
    return look(context)


def close_stores(context: UserContext) -> list[BeltedStore]:
    """`vault close`: as it is without `vault open`. SeatBeltOff where the user wants no seat belt."""
    worn = any(belt.state != "off" for _, belt in belts(context))
    if not context.choices.seat_belt and (context.choices.seat_belt is False or not worn):
        raise SeatBeltOff(
            "The seat belt is off: the setting `seat_belt` is false",
            kept="Nothing was changed",
            next_steps=(NextStep("settings", ("seat_belt", "true"), before="Turn it on:"),),
        )
    for what, belt in belts(context):
        try:
            if belt.state == "open":
                belt.fasten()
            else:
                belt.let_go()
        except OSError as error:
            raise _stuck(what, belt, error) from error
    record(context, VaultCloseFacts(vault=context.places.vault).line(new_id(), "done"), silent)
    return look(context)


def _seen(what: str, belt: Belt) -> BeltedStore:
    state, closed = belt.state, belt.holds()
    if state == "on" and not closed:
        belt.let_go()  # what a command left open that was killed
        closed = belt.holds()
    why = ""
    if not closed and state != "open" and (belt.wanted or state == "on"):
        why = _why(belt)
    return BeltedStore(what, belt.root, state, closed, why)


def _why(belt: Belt) -> str:
    if not belt.possible():
        return "others can write there, or its filesystem is shared or keeps no modes"
    if os.geteuid() == 0 and belt.state == "on":
        return "root is bound by no mode, and the immutable attribute cannot be set here"
    return "another command is writing there; the next one closes it"


def _stuck(what: str, belt: Belt, error: OSError | None) -> SeatBeltStuck:
    reason = (error.strerror or str(error)) if error is not None else "it is still closed"
    return SeatBeltStuck(
        f"The seat belt of {what} at `{belt.root}` could not be changed: {reason}",
        kept="Nothing in it was changed",
        next_steps=(
            "Run it as the user who owns that directory, and outside a container that may not change it",
        ),
        path=belt.root,
    )
