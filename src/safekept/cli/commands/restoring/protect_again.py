"""After a rebuild: the new machine is protected as the old one was, by the record that its snapshots carry.

The vault comes here with its whole history, the destinations go into the settings, agents call the safekept
of this machine, and the schedule is installed. A machine whose own vault holds anything is left as it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.actions.offsite.destination import VAULT, table_of
from safekept.actions.offsite.destination_changes import note_change
from safekept.actions.setup.bring_vault import bring_vault, bytes_to_bring, may_bring, refuse_without_room
from safekept.actions.setup.machine_record import MachineRecord, read_machine_record
from safekept.actions.setup.steps import DONE, FAILED, SetupStep
from safekept.actions.setup.unused_vault import is_unused, put_aside
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.settings import Settings, load_settings
from safekept.settings.file import add_destination, set_value

from ...console import Console, path_text, size_text
from ...options import context_from
from ...screen import Screen
from ..setup.answers import Answers
from ..setup.protecting import Ended, Protecting, looked
from .places_again import not_again, only_on_kit, with_places

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.base.unfinished import Unfinished
    from safekept.actions.restoring.kit_places import KitPlace
    from safekept.actions.restoring.rebuild import PreparedRebuild
    from safekept.actions.vault.keys.kit_reading import ReadKit


#: Each rebuild adds a key; who wonders which kit counts reads that the old ones do.
_KEY = "this machine has a key of its own, and what opened it before opens it still"


def _record_of(prepared: PreparedRebuild, places: Sequence[KitPlace]) -> MachineRecord:
    """How the machine was set up that is gone; empty where this one is not to follow it."""
    if prepared.origin.kind != "snapshot" or prepared.context is not prepared.own:
        return MachineRecord()  # an archive knows nothing of it; root rebuilds the home, not the user's life
    if not prepared.in_usual_place:
        return MachineRecord()  # a home in an unusual place is looked at first, as a rule
    return with_places(prepared, read_machine_record(prepared.subject.manifest), places)


def parts_of(record: MachineRecord) -> list[str]:
    """What is done after the homes, by the names of the steps."""
    wanted = (("destinations", record.destinations), ("connect", record.connected))
    parts = [name for name, given in wanted if given]
    return ["history", *parts, *(("schedule",) if record.schedule else ())]


def then(
    console: Console, prepared: PreparedRebuild, places: Sequence[KitPlace] = (), kit: ReadKit | None = None
) -> MachineRecord:
    """What follows the rebuild: said in the plan, and returned; empty where nothing does.

    `places`: those on the kit, where one was given.
    """
    record = _record_of(prepared, places)
    if not record:
        return record
    if not may_bring(prepared.own, prepared.origin.place):
        text = "nothing: this machine has a vault of its own, and is left with its history and schedule"
        console.fact("Then", text)
        return MachineRecord()
    aside = ", the empty one that is here is put aside" if is_unused(prepared.own) else ""
    parts = [f"the vault with its history comes here{aside}"]
    if record.connected:
        parts.append(f"{', '.join(record.connected)} will call safekept again")
    if record.destinations:
        parts.append(f"copies go to {', '.join(one.name for one in record.destinations)} again")
    if record.schedule:
        parts.append(f"every night at {record.schedule}")
    console.fact("Then", path_text("; ".join(parts)))
    for name in only_on_kit(record, prepared) if kit is not None else ():
        known = f"{name}, which no snapshot knows. Not wanted any more? Afterwards:"
        console.fact("By the kit", NextStep("destinations remove", (name,), before=known))
    for step in not_again(prepared, record, places):
        console.fact("Not again", step)
    size = bytes_to_bring(prepared.own, prepared.origin.place)
    if size:
        for_home = 0 if prepared.already else prepared.needed
        free = refuse_without_room(prepared.own, size, prepared.ground.home, for_home)
        console.fact("Room", f"{size_text(size)} more for the vault, {size_text(free)} free there")
    return record


def protect_again(
    console: Console,
    settings: Settings,
    prepared: PreparedRebuild,
    opening: UserContext,
    record: MachineRecord,
    begun: Unfinished,
    *,
    kit: ReadKit | None,
    places: Sequence[KitPlace] = (),
) -> Ended:
    """Do all of that. The home is in place: whatever fails here is listed and takes nothing of it back.

    `opening` is who rebuilds, with what opened the vault; `places` are those on the kit.
    """
    own = context_from(settings, can_ask=console.can_ask())
    began = time.monotonic()
    aside = ""
    try:
        if is_unused(own):
            aside = f"; the empty one that was here is {put_aside(own)}"
        place = bring_vault(
            own, opening, prepared.origin.place, kit=kit.places if kit else None, listener=console.listener()
        )
    except SafekeptError as error:
        console.finish()
        failed = SetupStep("vault", FAILED, error.what, time.monotonic() - began, error)
        console.error_beside(error)
        console.next([begun.again])
        return Ended({"steps": [failed.as_dict()], "verdict": None}, 3)
    console.finish()
    brought = SetupStep("vault", DONE, f"{place}, with its history{aside}; {_KEY}", time.monotonic() - began)
    begun.mark("history")
    begun.write(own)
    _save(settings, own, record)
    begun.mark("destinations")
    begun.write(own)
    settings = load_settings(settings.environment)
    context = context_from(settings, can_ask=console.can_ask())
    found, machine = looked(settings, context)
    if record.schedule and len(found.homes) > 1 and not settings.texts("schedule.homes"):
        set_value(settings.config_directory, "schedule.homes", [one.place.home for one in found.homes])
        settings = load_settings(settings.environment)
        context = context_from(settings, can_ask=console.can_ask())
    work = Protecting(console, settings, context, found, machine, begun)
    work.tell(brought)
    for step in not_again(prepared, record, places):
        Screen(console, settings.user_home).fact("Not again", step)
    at = record.schedule if record.schedule and not found.scheduled and machine.can_schedule else ""
    ended = work.carry_out(Answers(reconnect=bool(record.connected), at=at))
    _say_where_copies_go(console, settings, prepared, record)
    steps = ended.document["steps"]
    assert isinstance(steps, list)
    return Ended({**ended.document, "steps": [brought.as_dict(), *steps]}, ended.code)


def _say_where_copies_go(
    console: Console, settings: Settings, prepared: PreparedRebuild, record: MachineRecord
) -> None:
    """The old machine may be alive: then two of them send to one place, unless a person says no."""
    names = [one.name for one in record.destinations if VAULT in one.takes]
    if not names:
        return
    host, screen = prepared.origin.host or "the old machine", Screen(console, settings.user_home)
    text = (
        f"from here now go to {', '.join(names)}, where those of {host} are. Is that machine still at work?"
    )
    screen.fact("Copies", path_text(text))
    for name in names:
        screen.fact(
            "", NextStep("destinations remove", (name,), before="If so, send nothing there from here:")
        )


def _save(settings: Settings, context: UserContext, record: MachineRecord) -> None:
    """Into the settings of this machine, unless it has its own."""
    known = {word for one in settings.destinations for word in (one.name, one.url.rstrip("/"))}
    for one in record.destinations:
        if one.name not in known and one.url.rstrip("/") not in known:
            note_change(context, add_destination(settings.config_directory, table_of(one)))
    if record.schedule and "schedule.at" not in settings.given:
        set_value(settings.config_directory, "schedule.at", record.schedule)
