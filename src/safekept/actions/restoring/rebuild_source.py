"""What a machine is rebuilt from: a destination, a vault or an archive, opened with the key that was given.

Nothing that this machine knows is needed: the place and the key are enough. A place that holds several vaults
is no obstacle where the key opens one of them; a place that holds archives only gives the newest of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.files import NoRoom
from safekept.core.next_step import NextStep
from safekept.core.objects.address import address_forms
from safekept.core.objects.base import ObjectStore
from safekept.core.objects.errors import PlaceMissing
from safekept.core.records import dataclass
from safekept.vault.snapshots import pick

from ..base.context import UserContext
from ..drill.place import drill_place
from ..drill.subject import Subject, open_archived, refuse_unreadable, subject_of
from ..offsite.archives_there import StoredArchive, choose, fetch, list_archives
from ..offsite.choose_home import SeveralHomes, choose_home
from ..offsite.destination import DestinationSetting
from ..offsite.homes_in_vault import HomeInVault, homes_in_vault
from ..offsite.place import NoSuchDestination, find_destination, open_destination
from ..snapshots.listing import Listed, Listing
from ..snapshots.soundness import Doubt, reasons_against, sound_ones
from ..snapshots.stored_home import reading
from ..vault.place import is_remote, vaults_in
from .rebuild_opening import opened_vaults
from .rebuild_request import UNCHANGED, RebuildRequest, kind_of_place, nothing_at


@dataclass(slots=True)
class Origin:
    """What was found there, open for reading."""

    subject: Subject
    kind: str  # "snapshot" or "archive"
    place: str  # the vault or the archive, as a person would name it
    host: str
    home: str  # where the home was
    chosen: Listed | None = None
    newer: Listed | None = None  # a quick snapshot that is newer than the chosen one
    sealed: str = ""
    doubt: Doubt | None = None  # the chosen one is not sound, and another is
    passed_over: Doubt | None = None  # the newest one, where the newest sound one is planned in its place
    kept: HomeInVault | None = None
    beside: Sequence[HomeInVault] = ()  # the other homes of the same machine that lie there

    def as_dict(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "place": self.place,
            "host": self.host,
            "home": self.home,
            "layout": self.subject.layout.name,
            "taken": self.subject.taken or None,
            "snapshot": self.chosen.as_dict() if self.chosen else None,
            "newer_quick": self.newer.id if self.newer else None,
            "doubt": self.doubt.as_dict() if self.doubt else None,
        }


@contextlib.contextmanager
def open_origin(context: UserContext, request: RebuildRequest, listener: Listener) -> Iterator[Origin]:
    """Find and open what is meant; an archive of a destination is fetched into scratch first."""
    word = request.place
    if not is_remote(context, word):
        if os.path.isfile(word):
            with _archive(context, request, word, listener) as origin:
                yield origin
            return
        if os.path.isabs(word) and not os.path.isdir(word):
            raise nothing_at(word, f"There is nothing at `{word}`")
    with _at_place(context, request, listener) as origin:
        yield origin


@contextlib.contextmanager
def _at_place(context: UserContext, request: RebuildRequest, listener: Listener) -> Iterator[Origin]:
    listener(Event("read"))
    setting = _setting(context, request.place)
    with contextlib.closing(open_destination(context, setting)) as objects:
        base = request.place if os.path.isabs(request.place) else setting.url
        vaults = vaults_at(objects, base)
        if vaults and not request.archive:
            with _snapshot(context, request, vaults, listener) as origin:
                yield origin
            return
        try:
            archives = list_archives(objects, request.host)
        except PlaceMissing as error:
            raise nothing_at(objects.location, error.what) from error
        if not archives and not request.archive:
            whose = f" of `{request.host}`" if request.host else ""
            raise nothing_at(objects.location, f"`{objects.location}` holds no vault and no archives{whose}")
        chosen = choose(archives, request.archive or "latest", request.host)
        with (
            _scratch(context, chosen) as scratch,
            _archive(context, request, fetch(objects, chosen, scratch, listener), listener) as origin,
        ):
            origin.place, origin.host = f"{objects.location}/{chosen.place}", chosen.host
            yield origin


def homes_of_one_machine(error: SeveralHomes, request: RebuildRequest) -> list[RebuildRequest]:
    """A request for each home, where they are brought as one: each goes to its agent's own place."""
    return [
        replace(
            request,
            place=one.get("place", request.place),
            host=one.get("host", request.host),
            layout=one["layout"],
            of=one["of"],
        )
        for one in error.together
    ]


def _setting(context: UserContext, place: str) -> DestinationSetting:
    try:
        return find_destination(context, place)
    except NoSuchDestination as error:
        if not context.choices.destinations:
            error.next_steps = (
                f"Name the place itself: {address_forms()}; your kit has it",
                "Or name a directory or an archive by its path",
            )
        raise


def vaults_at(objects: ObjectStore, base: str) -> list[str]:
    """How each vault in a place is named; the place may be one itself."""
    try:
        if objects.exists("config"):
            return [base]
        return [f"{base.rstrip('/')}/{name}" for name in vaults_in(objects)]
    except PlaceMissing:
        return []


@contextlib.contextmanager
def _scratch(context: UserContext, archive: StoredArchive) -> Iterator[str]:
    """A directory with room for the archive itself, gone afterwards."""
    with contextlib.ExitStack() as held:
        try:
            place = held.enter_context(drill_place(context, archive.size))
        except NoRoom as error:
            raise NoRoom(
                f"There is no room to fetch `{archive.name}`, which has {archive.size:,} bytes",
                kept=UNCHANGED,
                next_steps=(
                    "Make room in `/var/tmp` or `/tmp`, or name a disk with room: set `TMPDIR`",
                    NextStep("rebuild", ("FILE",), before="Or fetch it yourself and rebuild from the file:"),
                ),
                **error.facts,
            ) from error
        yield place.path


@contextlib.contextmanager
def _archive(
    context: UserContext, request: RebuildRequest, path: str, listener: Listener
) -> Iterator[Origin]:
    with open_archived(context, path, request.layout, (), listener) as subject:
        if not any(True for _ in subject.entries):
            raise nothing_at(path, f"`{path}` is an archive that holds nothing")
        head = subject.manifest or {}
        yield Origin(subject, "archive", path, str(head.get("host", "")), subject.home)


@contextlib.contextmanager
def _snapshot(
    context: UserContext, request: RebuildRequest, vaults: list[str], listener: Listener
) -> Iterator[Origin]:
    blind = context.changed(cache_directory="")
    with contextlib.ExitStack() as held:
        opened = opened_vaults(blind, request, vaults, held, listener)
        homes: list[HomeInVault] = []
        damaged: dict[str, dict[str, str]] = {}
        for vault, repository in opened.items():
            found, damaged[vault] = homes_in_vault(repository, vault, forgotten=True)
            homes += found
        if not homes:
            vault = next(iter(opened))
            refuse_unreadable(Listing("", damaged=damaged[vault]), "latest")
            raise nothing_at(request.place, f"The vault at `{vault}` holds no snapshots")
        kept, chosen = _choose(context, request, homes)
        repository = opened[kept.vault]
        listing = Listing(kept.home, shown=kept.snapshots, damaged=damaged[kept.vault])
        held.enter_context(reading(repository, listener))
        source = blind.changed(source_vault=kept.vault)
        word = request.snapshot or "latest"
        subject = subject_of(source, repository, listing, chosen, word, request.layout)
        newer = next(
            (
                one
                for one in kept.usual
                if one.kind == "quick" and one.snapshot.time_ns > chosen.snapshot.time_ns
            ),
            None,
        )
        origin = Origin(subject, "snapshot", kept.vault, kept.host, subject.home, chosen, kept=kept)
        origin.beside = [
            one for one in homes if one is not kept and one.host == kept.host and not one.continued
        ]
        if not request.snapshot:
            origin.newer = newer
            origin.doubt = doubt = None if request.allow_damaged else _doubt(kept, chosen, subject)
            if doubt is not None and (sound := doubt.passed_over(request.offers_sound)) is not None:
                origin.subject = subject_of(source, repository, listing, sound, word, request.layout)
                origin.home, origin.chosen = origin.subject.home, sound
                origin.newer, origin.doubt, origin.passed_over = None, None, doubt
        yield origin


def _doubt(kept: HomeInVault, chosen: Listed, subject: Subject) -> Doubt | None:
    """What is wrong with the newest one, where a sound one is there and none was named."""
    lost = [path for path, _ in subject.damage if path in subject.unreadable]
    reasons = reasons_against(chosen, kept.usual, (), subject.manifest, lost)
    sound = next(sound_ones(kept.usual), None) if reasons else None
    return Doubt(chosen, reasons, sound) if sound is not None else None


def _choose(
    context: UserContext, request: RebuildRequest, homes: list[HomeInVault]
) -> tuple[HomeInVault, Listed]:
    if request.snapshot:
        # One of where a home was before stands in both; it is that of the home that it was taken of.
        every = [
            (one, listed)
            for one in homes
            for listed in one.snapshots
            if (listed.snapshot.hostname, listed.home) == (one.host, one.home)
        ]
        found = pick([listed.snapshot for _, listed in every], request.snapshot)
        return next((one, listed) for one, listed in every if listed.snapshot is found)
    kept = meant_home(context, request, homes)
    return kept, kept.newest_whole


def meant_home(context: UserContext, request: RebuildRequest, homes: Sequence[HomeInVault]) -> HomeInVault:
    """The home that is to be rebuilt; SeveralHomes where that is not clear. `homes` is not empty."""
    target = ""
    with contextlib.suppress(SafekeptError):
        target = context.locate(request.home, request.layout, existing=False).home
    return choose_home(
        homes,
        request.place,
        host=request.host,
        layout=request.layout,
        of=request.of,
        target=target,
        kind=kind_of_place(context, request),
        single=bool(request.home),
    )
