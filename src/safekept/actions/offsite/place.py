"""The place behind a destination: found by name or URL, opened, and proven to be the one that is meant.

A marker file in the place says that safekept was here. A place that this machine has pushed to before and
that has no marker now is not the same place: a disk that is not plugged in, a share that is not mounted,
a bucket that was emptied. Nothing is written there unasked, and no directory is ever
made on the mount point of an absent disk. The first time, a `file:` place must lie on a disk of its own.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace

from safekept.core.errors import SafekeptError
from safekept.core.files.small import read_document, write_document
from safekept.core.next_step import NextStep
from safekept.core.objects.address import Options, address_forms, is_address, open_objects
from safekept.core.objects.base import NotThere, ObjectStore, Taken
from safekept.core.objects.errors import PlaceMissing
from safekept.core.objects.local import LocalObjects
from safekept.core.worker import Worker

from ..base.context import UserContext
from ..base.own_places import known_homes, within
from .destination import DestinationSetting, checked_url
from .elsewhere import IN_MEMORY, directory_of, not_elsewhere, on_a_disk_of_this_machine

MARKER = "safekept-destination"
_MARKER_TEXT = b'{"safekept": "destination", "version": 1}\n'
_UNTOUCHED = "Nothing was written there; the vault here is as it was"


class NoSuchDestination(SafekeptError):
    code, exit_code = "no-such-destination", 2


class DestinationAbsent(SafekeptError):
    code, exit_code, retry = "destination-absent", 10, True


class DestinationEmptied(SafekeptError):
    code = "destination-emptied"


class DestinationInsideHome(SafekeptError):
    code, exit_code = "destination-inside-home", 2


class DestinationIsVault(SafekeptError):
    code, exit_code = "destination-is-a-vault", 2


def find_destination(context: UserContext, word: str) -> DestinationSetting:
    """The destination of that name, or the place that a URL or an absolute path names."""
    for one in context.choices.destinations:
        if one.name == word:
            return one
    if not is_address(word) and not word.startswith("/"):
        names = ", ".join(one.name for one in context.choices.destinations)
        raise NoSuchDestination(
            f"There is no destination called `{word}`",
            kept="Nothing changed",
            next_steps=(
                f"Use one of: {names}"
                if names
                else NextStep("destinations add", ("PLACE",), before="Save one:"),
                f"Or name the place itself: {address_forms()}",
            ),
            destination=word,
        )
    try:
        url = checked_url(word)
    except ValueError as error:
        raise NoSuchDestination(
            str(error),
            kept="Nothing changed",
            next_steps=("Correct the address",),
        ) from error
    for one in context.choices.destinations:
        if one.url == url:
            return one
        # A place inside of one is reached the same way: the same server, profile and limits.
        if url.startswith(one.url.rstrip("/") + "/"):
            return replace(one, name=url, url=url)
    return DestinationSetting.at(url)


def open_destination(context: UserContext, setting: DestinationSetting) -> ObjectStore:
    """The place itself; nothing is contacted yet. Close it."""
    given = setting.options
    options = Options(
        endpoint=given.get("endpoint", ""),
        region=given.get("region", ""),
        profile=given.get("profile", ""),
        ssh_config=given.get("ssh_config", ""),
        ca_file=given.get("ca_file", ""),
        rclone_config=given.get("rclone_config", ""),
        rate_limit=setting.rate_limit,
        timeout=float(setting.timeout),
        lanes=setting.connections,
    )
    return open_objects(setting.url, environment=context.caller.environment, options=options)


class Reach:
    """A place on its way: connected, and looked at for the marker, while this side does something else."""

    def __init__(self, context: UserContext, setting: DestinationSetting) -> None:
        self.setting = setting
        self.objects = open_destination(context, setting)
        self._marked = False
        self._missing: PlaceMissing | None = None
        self._worker = Worker(self._look, "destination")

    def _look(self) -> None:
        try:
            self.objects.size(MARKER)
            self._marked = True
        except NotThere:
            pass
        except PlaceMissing as error:
            self._missing = error

    def seen(self) -> tuple[bool, PlaceMissing | None]:
        """Whether the marker is there, and why the place itself is not; any other error is raised."""
        while not self._worker.wait(0.5):
            pass
        if self._worker.error is not None:
            raise self._worker.error
        return self._marked, self._missing

    def close(self) -> None:
        self.objects.close()


def make_ready(
    context: UserContext,
    reach: Reach,
    *,
    anew: bool = False,
    dry_run: bool = False,
) -> bool:
    """Prove that this is the place, or make it one at the first use. DestinationAbsent, DestinationEmptied.

    `anew`: a person says that the place is meant although it is empty now. A dry run writes nothing, and
    the answer is then whether the place is there at all.
    """
    setting, objects = reach.setting, reach.objects
    marked, missing = reach.seen()
    if marked:
        return True
    if known_place(context, setting) and not anew:
        raise _absent(setting, objects) if setting.is_file else _emptied(setting, objects, missing)
    if isinstance(objects, LocalObjects):
        _refuse_inside_home(context, setting, objects.path)
        _refuse_same_disk(context, setting, objects.path)
    if missing is None and objects.exists("config"):
        raise DestinationIsVault(
            f"`{objects.location}` is itself a vault; a destination holds one directory for each vault",
            kept=_UNTOUCHED,
            next_steps=("Name the directory above it, or another place",),
            place=objects.location,
        )
    if dry_run:
        return missing is None
    if missing is not None:
        objects.create()
    with contextlib.suppress(Taken):
        objects.write(MARKER, _MARKER_TEXT)
    return True


def _refuse_inside_home(context: UserContext, setting: DestinationSetting, path: str) -> None:
    """A copy inside a home would be lost with it, and go into its next snapshot."""
    for home in known_homes(context):
        if within(os.path.realpath(path), home):
            raise DestinationInsideHome(
                f"The destination `{setting.name}` would lie inside the home `{home}` that it protects",
                kept="Nothing was made or changed there",
                next_steps=("Choose a place outside every home, best on another machine or disk",),
                place=path,
            )


def _refuse_same_disk(context: UserContext, setting: DestinationSetting, path: str) -> None:
    """At the first use: an empty directory on the disk of the system is what an unplugged disk looks like."""
    if setting.same_disk or setting.elsewhere:
        return
    why = on_a_disk_of_this_machine(context, path)
    if why == IN_MEMORY:
        raise DestinationAbsent(
            f"`{path}` {why}: no copy would last there",
            kept="Nothing was made there",
            next_steps=(
                "Name a place on a disk or on another machine",
                "To try safekept out there, add `--same-disk`, or `same_disk = true` to its table",
            ),
            destination=setting.name,
            place=path,
            same_disk=True,
            in_memory=True,
        )
    if why:
        raise DestinationAbsent(
            f"`{path}` {why}: either nothing is mounted there, or it is not another disk",
            kept="Nothing was made there: an unplugged disk is never replaced by an empty directory",
            next_steps=(
                "Plug the disk in or mount it, then run the command again",
                "If that disk is meant, add `--same-disk`, or `same_disk = true` to its table; a copy there "
                "does not count as one elsewhere",
            ),
            destination=setting.name,
            place=path,
            same_disk=True,
        )


def _absent(setting: DestinationSetting, objects: ObjectStore) -> DestinationAbsent:
    return DestinationAbsent(
        f"The destination `{setting.name}` is not there: its disk is not plugged in or not mounted "
        f"(`{objects.location}` has no file `{MARKER}`)",
        kept="Nothing was made there: an unplugged disk is never replaced by an empty directory",
        next_steps=(
            "Plug the disk in or mount it, then run the command again",
            "If it is a new disk for the same purpose, push once with `--anew`",
        ),
        destination=setting.name,
        place=objects.location,
    )


def _emptied(
    setting: DestinationSetting, objects: ObjectStore, missing: PlaceMissing | None
) -> DestinationEmptied:
    state = "is gone" if missing is not None else f"has no file `{MARKER}` any more"
    return DestinationEmptied(
        f"The destination `{setting.name}` was used before, and now `{objects.location}` {state}",
        kept=_UNTOUCHED,
        next_steps=(
            "See that the place is the right one, and that the disk behind it is mounted there",
            "If it was emptied on purpose, push once with `--anew`",
        ),
        destination=setting.name,
        place=objects.location,
    )


# Which places were used before


def known_place(context: UserContext, setting: DestinationSetting) -> bool:
    """Whether this machine has pushed there before."""
    return setting.url in _known(context)


def remember_place(context: UserContext, setting: DestinationSetting) -> None:
    """That something arrived there, and whether it would be lost with this machine."""
    with contextlib.suppress(OSError):  # a memory of places, not a condition for using them
        known = _known(context)
        before = known.get(setting.url)
        since = before.get("since") if isinstance(before, dict) else None
        now = {"since": since or time.time(), "here": not_elsewhere(context, setting)}
        if now != before:
            write_document(_file(context), {"version": 1, "places": {**known, setting.url: now}})


def lost_with_this_machine(context: UserContext, setting: DestinationSetting) -> str:
    """Why a copy there would be, as the end of a sentence; empty where it would not.

    Of a disk that is not plugged in, the bare directory says nothing: what the last push saw counts.
    """
    if setting.is_file and not setting.elsewhere:
        known: object = None
        with contextlib.suppress(OSError):  # unknown: then only what is there
            known = _known(context).get(setting.url)
        if isinstance(known, dict) and not os.path.lexists(os.path.join(directory_of(setting), MARKER)):
            here = known.get("here")
            return here if isinstance(here, str) else not_elsewhere(context, setting, away=True)
    return not_elsewhere(context, setting)


def _known(context: UserContext) -> dict[str, object]:
    """Every one. OSError where they cannot be read: else an unplugged disk would be begun again."""
    return read_document(_file(context), lambda found: dict(found["places"]), {}, strict=True)


def _file(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, "destinations.json")
