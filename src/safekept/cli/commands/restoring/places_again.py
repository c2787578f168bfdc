"""The places on the kit, as destinations of the machine that is rebuilt.

A destination that was added after the last snapshot stands on the kit and in no record of the machine. It
becomes one again where a copy was found in it; one that could not be looked at is named, with the command.
One that a snapshot of after the kit does not know was taken out on purpose: it is named, and stays out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.offsite.destination_changes import removed_places
from safekept.actions.offsite.elsewhere import directory_of, on_a_disk_of_this_machine
from safekept.actions.setup.machine_record import KEY, read_machine_record
from safekept.actions.vault.keys.kit_commands import VARIABLES
from safekept.core.next_step import NextStep
from safekept.core.objects.address import is_address

from ..offsite.destinations import name_for

if TYPE_CHECKING:
    from safekept.actions.restoring.kit_places import KitPlace
    from safekept.actions.restoring.rebuild import PreparedRebuild
    from safekept.actions.setup.machine_record import MachineRecord
    from safekept.actions.vault.keys.kit_reading import ReadKit


def with_removed(prepared: PreparedRebuild, places: Sequence[KitPlace], kit: ReadKit) -> list[KitPlace]:
    """The same, and which of them were taken out of the destinations since the kit was written.

    What this machine remembers counts, and a snapshot of after the kit that knows the machine without it.
    """
    here, manifest = removed_places(prepared.own), prepared.subject.manifest or {}
    later = bool(kit.written_before) and prepared.subject.taken >= kit.written_before and KEY in manifest
    unknown = {*_unknown(prepared, read_machine_record(manifest), places)}
    return [replace(one, removed=(url := _url(one)) in here or (later and url in unknown)) for one in places]


def only_on_kit(record: MachineRecord, prepared: PreparedRebuild) -> list[str]:
    """The names of those destinations that no snapshot knows."""
    known = {one.url for one in read_machine_record(prepared.subject.manifest).destinations}
    return [one.name for one in record.destinations if one.url not in known]


def with_places(
    prepared: PreparedRebuild, record: MachineRecord, places: Sequence[KitPlace]
) -> MachineRecord:
    """The same with every place on the kit that a copy was found in, and that was not taken out."""
    own, added = prepared.own, list(record.destinations)
    for url in _unknown(prepared, record, [one for one in places if one.taken and not one.removed]):
        setting = DestinationSetting(_name(prepared, added, url), url, options=_options(prepared, url))
        if setting.is_file:  # it was a destination before: lying on this disk is no reason to refuse it
            near = on_a_disk_of_this_machine(own, directory_of(setting))
            setting = replace(setting, same_disk=bool(near))
        added.append(setting)
    return replace(record, destinations=tuple(added))


def not_again(prepared: PreparedRebuild, record: MachineRecord, places: Sequence[KitPlace]) -> list[NextStep]:
    """How each place on the kit becomes a destination by hand that did not by itself."""
    steps, named = [], list(record.destinations)
    removed = {_url(one) for one in places if one.removed}
    for url in _unknown(prepared, record, places):
        named.append(DestinationSetting(_name(prepared, named, url), url))
        options = [("--option", "=".join(item)) for item in _options(prepared, url).items()]
        if named[-1].name != name_for(url):  # which is taken, and would be refused
            options.append(("--name", named[-1].name))
        words = [url, *(word for option in options for word in option)]
        before = f"no copies go to {url}, which the kit names too. When it can be reached:"
        if url in removed:
            before = f"{url} was taken out of the destinations after the kit was written. If you want it:"
        steps.append(NextStep("destinations add", tuple(words), before=before))
    return steps


def _unknown(prepared: PreparedRebuild, record: MachineRecord, places: Sequence[KitPlace]) -> list[str]:
    """The addresses on the kit that are no destination; the vault of a machine itself never was one."""
    directory = prepared.request.vault_id[:16]
    known = {one.url.rstrip("/") for one in (*record.destinations, *prepared.own.choices.destinations)}
    found = []
    for one in places:
        url, name = _url(one), one.place.rpartition("/")[2]
        if directory and name == directory and is_address(url) and url not in known:
            found.append(url)
    return found


def _url(place: KitPlace) -> str:
    """The destination that holds this copy."""
    return place.place.rpartition("/")[0]


def _name(prepared: PreparedRebuild, added: Sequence[DestinationSetting], url: str) -> str:
    """By the place, as `destinations add` would; no other destination has it."""
    taken = {one.name for one in (*added, *prepared.own.choices.destinations)}
    word, number = name_for(url), 1
    chosen = word
    while chosen in taken:
        number += 1
        chosen = f"{word}-{number}"
    return chosen


def _options(prepared: PreparedRebuild, url: str) -> dict[str, str]:
    """What the commands on the kit say of an S3-compatible server."""
    given = prepared.own.caller.environment if url.startswith("s3://") else {}
    return {option: given[variable] for option, variable in VARIABLES.items() if given.get(variable)}
