"""The places that a kit names, all of them looked at: what each holds, and which of them has the newest.

A kit may be older than the machine that is gone: the first place on it may be one that got nothing for a
month. So every place is asked, the newest whole snapshot wins, and a place that did not answer is named.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from safekept.core.ages import iso_time
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener
from safekept.core.next_step import NextStep
from safekept.core.objects.address import address_forms
from safekept.core.records import dataclass
from safekept.vault.errors import WrongKey

from ..base.context import UserContext
from ..offsite.choose_home import SeveralHomes
from ..offsite.homes_in_vault import HomeInVault, homes_in_vault
from ..offsite.place import find_destination, open_destination
from ..snapshots.listing import Listed
from ..vault.keys.key_file import KeyMissing
from .rebuild_opening import opened_vaults
from .rebuild_request import AnotherVault, NothingToRebuild, RebuildRequest
from .rebuild_source import meant_home, vaults_at


@dataclass(frozen=True, slots=True)
class KitPlace:
    """One place on the kit, and what was found there."""

    place: str
    taken: float = 0.0  # the newest whole snapshot that lies there; 0: none
    reason: str = ""  # why nothing can be had from there
    error: SafekeptError | None = None  # it may hold something: it did not answer, or did not open
    removed: bool = False  # it was a destination when the kit was written, and was taken out since

    def as_dict(self) -> dict[str, object]:
        return {
            "place": self.place,
            "newest": iso_time(self.taken),
            "reason": self.reason or None,
            "unknown": self.error is not None,
            "removed": self.removed,
        }


#: Of a vault that has other homes or snapshots than the one that was named.
_NOTHING_OF_IT = "nothing of it lies there"


def look_at_places(
    opening: Callable[[], UserContext], request: RebuildRequest, places: Sequence[str], listener: Listener
) -> list[KitPlace]:
    """What each place holds, in the order of the kit. `opening`: who looks, with what opened one before."""
    return [_look(opening(), replace(request, place=place), listener) for place in dict.fromkeys(places)]


def newest_of(found: Sequence[KitPlace], kit: str, *, with_key: bool) -> KitPlace:
    """The one to rebuild from; between equals the one that stands first. NothingToRebuild, WrongKey."""
    if any(one.taken for one in found):
        return max(found, key=lambda one: one.taken)
    refused = [one.error for one in found if isinstance(one.error, (WrongKey, KeyMissing))]
    if refused:
        raise refused[0]
    lines = [f"  {one.place}: {one.reason}" for one in found]
    what = "There is no vault at any of the places that the kit names"
    if any(one.reason == _NOTHING_OF_IT for one in found):
        what = "No place that the kit names holds what was asked for"
    elsewhere = "If a copy lies somewhere else, name that place yourself"
    if with_key:
        named = NextStep("rebuild", ("PLACE", "--key-file", kit), before=f"{elsewhere}; the kit has the key:")
    else:
        named = NextStep("rebuild", ("PLACE",), before=f"{elsewhere}; it asks for your passphrase:")
    raise NothingToRebuild(
        "\n".join([f"{what}:" if lines else "The kit names no place", *lines]),
        kept="Nothing was changed",
        next_steps=(
            "Plug in the disk or start the server that is named, and run it again",
            named,
            f"PLACE is what you once set up as a destination: a directory, {address_forms()}",
        ),
        places=[one.as_dict() for one in found],
    )


def _look(context: UserContext, request: RebuildRequest, listener: Listener) -> KitPlace:
    place = request.place
    if os.path.isabs(place) and not os.path.isdir(place):
        return KitPlace(place, reason="there is nothing")
    blind = context.changed(cache_directory="")
    try:
        with contextlib.ExitStack() as held:
            setting = find_destination(blind, place)
            objects = held.enter_context(contextlib.closing(open_destination(blind, setting)))
            vaults = vaults_at(objects, place)
            if not vaults:
                away = place.startswith("file:")  # an unplugged disk looks like an empty one
                return KitPlace(place, reason="nothing is mounted there" if away else "there is no vault")
            opened = opened_vaults(blind, request, vaults, held, listener)
            homes = [
                home
                for vault, repository in opened.items()
                for home in homes_in_vault(repository, vault, forgotten=True)[0]
            ]
            times = [one.snapshot.time_ns / 1e9 for one in _wanted(blind, request, homes)]
            if not times:
                return KitPlace(place, reason=_NOTHING_OF_IT)
            return KitPlace(place, max(times))
    except AnotherVault:
        return KitPlace(place, reason="another vault, left alone")
    except SafekeptError as error:
        return KitPlace(place, reason=error.what, error=error)


def _wanted(context: UserContext, request: RebuildRequest, homes: Sequence[HomeInVault]) -> list[Listed]:
    """What a rebuild would take: the newest whole snapshot of the home that is meant, or the one that was
    named; of each home where it is not clear which is meant."""
    if request.snapshot:
        every = [one for home in homes for one in home.snapshots]
        return [one for one in every if one.id.startswith(request.snapshot)]
    try:
        return [meant_home(context, request, homes).newest_whole] if homes else []
    except SeveralHomes as error:
        return [home.newest_whole for home in error.left]
