"""Where the copies are, and what each of them survives: a dead disk, a lost machine, `rm -rf ~`, a thief.

What is not known is said to be not known. A copy elsewhere is worth something only with what opens it: a
recovery passphrase or a kit that is kept off this machine.
"""

from __future__ import annotations

from collections.abc import Iterable

from safekept.core.records import dataclass
from safekept.core.spelling import shown

from ..base.context import UserContext
from ..base.own_places import within
from ..keeper.keeper_status import KeeperStatus
from ..offsite.destination import VAULT
from ..offsite.elsewhere import directory_of
from ..status.destination_status import DestinationStatus
from ..status.status import Status
from ..status.vault_status import NONE, VaultStatus
from ..vault.seat_belt import look

#: Names of copies that are words of ours and not a user's.
_OURS = ("The vault", "The keeper")
#: The dangers, in the order in which a page shows them.
DISK, MACHINE, DELETED, THIEF = "disk", "machine", "deleted", "thief"
DANGERS = {
    DISK: "The disk fails",
    MACHINE: "The machine is lost",
    DELETED: "An agent runs `rm -rf ~`",
    THIEF: "An intruder takes over this machine",
}


@dataclass(frozen=True, slots=True)
class Survival:
    """Whether a copy is still of use after one danger. `holds` is None where that is not known."""

    danger: str
    holds: bool | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class CopyPlace:
    """One place where copies lie."""

    name: str
    place: str
    newest: float  # when what is in it was last brought up to date; 0: never
    survives: tuple[Survival, ...]
    trouble: str = ""  # why it is not as it should be

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "place": self.place,
            "newest": self.newest,
            "survives": {one.danger: one.holds for one in self.survives},
            "trouble": self.trouble or None,
        }


def together(copies: Iterable[CopyPlace]) -> tuple[Survival, ...]:
    """What is still there after each danger, if any copy is: with the name of the first that holds."""
    found = []
    for danger in DANGERS:
        every = [(copy, one) for copy in copies for one in copy.survives if one.danger == danger]
        holds = next((copy.name for copy, one in every if one.holds), "")
        unknown = any(one.holds is None for _, one in every)
        why = (
            f"by {holds[:1].lower()}{holds[1:]}"
            if holds in _OURS
            else f"by {holds}"
            if holds
            else "no copy does"
        )
        found.append(Survival(danger, True if holds else None if unknown else False, why))
    return tuple(found)


def copies_of(context: UserContext, status: Status) -> tuple[CopyPlace, ...]:
    """The vault first, then the keeper, then every destination."""
    found = [] if status.vault.state == NONE else [_vault(context, status)]
    if status.keeper is not None:
        found.append(_keeper(status.keeper))
    return (*found, *(_destination(context, one, status) for one in status.destinations))


def _vault(context: UserContext, status: Status) -> CopyPlace:
    vault = status.vault
    newest = max((one.last.time for one in status.homes if one.last), default=0.0)
    trouble = "" if vault.error is None else str(vault.error.get("what") or "it does not open")
    if vault.off_host:
        return CopyPlace("The vault", vault.place, newest, _elsewhere(vault, keeps=False), trouble)
    closed = any(one.path == vault.place and one.closed for one in look(context))
    inside = within(vault.place, context.places.user_home)
    belt = "its directories are closed between two commands" if closed else "nothing keeps it from that"
    return CopyPlace(
        "The vault",
        vault.place,
        newest,
        (
            Survival(DISK, False, vault.here or "it is on a disk of this machine"),
            Survival(MACHINE, False, "it is on this machine"),
            Survival(DELETED, closed or not inside, belt if inside else "it lies outside your home"),
            Survival(THIEF, False, "with the machine goes the vault"),
        ),
        trouble,
    )


def _keeper(keeper: KeeperStatus) -> CopyPlace:
    """Another owner's copy on this machine: what this user's agent deletes stays there."""
    trouble = keeper.wrong or (f"it does not count: {keeper.why_not}" if keeper.why_not else "")
    if keeper.full:
        trouble = trouble or "it is full: nothing new fits"
    if keeper.newest is None and not keeper.wrong:
        nothing = tuple(Survival(danger, False, "nothing is there yet") for danger in DANGERS)
        return CopyPlace("The keeper", keeper.socket, 0.0, nothing, trouble)
    here = "it is on this machine"
    deleted = Survival(DELETED, True, "it belongs to another owner")
    if keeper.wrong:
        deleted = Survival(DELETED, None, "it does not answer")
    elif not keeper.counts:
        deleted = Survival(DELETED, False, keeper.why_not)
    return CopyPlace(
        "The keeper",
        keeper.socket,
        keeper.confirmed,
        (
            Survival(DISK, False, here),
            Survival(MACHINE, False, here),
            deleted,
            Survival(THIEF, False, "with the machine goes the keeper"),
        ),
        trouble,
    )


def _destination(context: UserContext, one: DestinationStatus, status: Status) -> CopyPlace:
    trouble = f"the last push failed: {one.failure.what}" if one.failure else ""
    if not one.last:
        nothing = tuple(Survival(danger, False, "nothing was pushed there yet") for danger in DANGERS)
        return CopyPlace(one.name, shown(one.url), 0.0, nothing, trouble)
    if one.away:
        survives = _elsewhere(status.vault, one.keeps, VAULT in one.takes)
        return CopyPlace(one.name, shown(one.url), one.last, survives, trouble)
    why = f"it {one.here}"
    deleted = None
    if one.url.startswith("file:"):
        setting = next(each for each in context.choices.destinations if each.name == one.name)
        deleted = not within(directory_of(setting), context.places.user_home)
    survives = (
        Survival(DISK, None if "machine" in one.here else False, why),
        Survival(MACHINE, False, why),
        Survival(DELETED, deleted, "it lies in your home" if deleted is False else "it is another directory"),
        Survival(THIEF, False, why),
    )
    return CopyPlace(one.name, shown(one.url), one.last, survives, trouble)


def _elsewhere(vault: VaultStatus, keeps: bool, is_vault: bool = True) -> tuple[Survival, ...]:
    opens = bool(vault.recovery_access) or not is_vault
    key = "" if opens else "it is there, but what opens it is on this machine only"
    credential = "this machine's credential may delete what is there"
    return (
        Survival(DISK, opens, key or "it is on another machine"),
        Survival(MACHINE, opens, key or "it is on another machine"),
        Survival(DELETED, opens, key or "it is on another machine"),
        Survival(
            THIEF, opens and keeps, key or ("nothing here can delete what is there" if keeps else credential)
        ),
    )
