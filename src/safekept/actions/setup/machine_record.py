"""What a machine that is rebuilt must know to be protected as the old one was: it travels in each snapshot.

The settings of safekept lie outside every home and die with the machine. Without this, a rebuilt home would
have no second copy, no schedule, and agents that call a program of a machine that is gone. No secret is in
it: a destination's keys and passwords never stand in the settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from safekept.core.records import dataclass

from ..base.context import UserContext
from ..offsite.destination import DestinationSetting, parse_destination, table_of

#: Where the record stands in the manifest of a snapshot.
KEY = "machine"
_USUAL = "03:30"  # where the settings say nothing


@dataclass(frozen=True, slots=True)
class MachineRecord:
    """How a machine was set up."""

    destinations: tuple[DestinationSetting, ...] = ()
    schedule: str = ""  # the times; "": no schedule was installed
    connected: tuple[str, ...] = ()  # agents, by the names of their hosts

    def __bool__(self) -> bool:
        return bool(self.destinations or self.schedule or self.connected)

    def as_dict(self) -> dict[str, object]:
        return {
            "destinations": [table_of(one) for one in self.destinations],
            "schedule": self.schedule or None,
            "connected": list(self.connected),
        }


def machine_record(context: UserContext) -> MachineRecord:
    """Of this machine, as it is set up now."""
    from ..hosts.connections import connections

    # What was installed is the schedule's to know; its times are the user's.
    there = _has_schedule(context)
    plan = context.choices.schedule
    return MachineRecord(
        context.choices.destinations,
        (str(plan.cadence) if plan is not None else _USUAL) if there else "",
        tuple(dict.fromkeys(one.host for one in connections(context))),
    )


def _has_schedule(context: UserContext) -> bool:
    if not os.path.isdir(os.path.join(context.places.data_directory, "schedule")):
        return False  # its modules cost time
    from ..schedule.install import installed

    return installed(context) is not None


def read_machine_record(manifest: Mapping[str, object] | None) -> MachineRecord:
    """The record in a snapshot; an empty one where there is none, or where it makes no sense."""
    found = manifest.get(KEY) if manifest else None
    if not isinstance(found, Mapping):
        return MachineRecord()
    destinations = []
    for table in found.get("destinations") or []:
        try:
            destinations.append(parse_destination(table))
        except (ValueError, TypeError, AttributeError):
            continue  # a newer safekept knows keys that this one does not
    connected = found.get("connected")
    names = tuple(map(str, connected)) if isinstance(connected, list) else ()
    return MachineRecord(tuple(destinations), str(found.get("schedule") or ""), names)
