"""The destinations of this machine: which there are, what they hold, and what they let us do.

A test does what a push does, on a small scale: it writes, reads back and tries to delete, and says what
the credential may. One that may not delete is the better one for a backup, so that is a finding and no
failure.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.journal import Record, new_id
from safekept.core.objects.base import CredentialRights, ObjectStore
from safekept.core.objects.errors import PlaceRefused
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.operations.facts import Failure
from ..base.operations.stores import DestinationTestFacts, PushFacts
from ..base.record import record
from ..vault.place import vaults_in
from .archives_there import StoredArchive, list_archives
from .destination import DestinationSetting
from .place import DestinationAbsent, Reach, find_destination, make_ready, open_destination

# What the journal remembers of pushes to a destination: the last one, and the last that ended well.


@dataclass(frozen=True, slots=True)
class LastPush:
    """The last push to a destination, and the last that ended well."""

    time: float  # of the last try; when it ended
    state: str  # done, incomplete, failed, interrupted, absent
    done: float  # when one last ended well; 0: never
    snapshots: int
    bytes: int
    archive: str
    error: str
    rights: Mapping[str, object] | None = None  # what the credential may do there, as the last good one tried


def last_push(context: UserContext, destination: str) -> LastPush | None:
    """What the journal knows of pushes to a destination; None where there never was one."""
    last: Record | None = None
    good: Record | None = None
    for entry in context.journal.read():
        if entry.verb != PushFacts.verb or entry.state == "begun":
            continue
        if PushFacts.read(entry).destination != destination:
            continue
        last = entry
        good = entry if entry.state == "done" else good
    if last is None:
        return None
    pushed, failure = PushFacts.read(last), Failure.read(last)
    return LastPush(
        last.time,
        "absent" if pushed.absent else last.state,
        good.time if good is not None else 0.0,
        pushed.snapshots or 0,
        pushed.bytes or 0,
        pushed.archive or "",
        failure.what if failure else "",
        PushFacts.read(good).rights if good is not None else None,
    )


_SAMPLE = 4 << 20


@dataclass(frozen=True, slots=True)
class ListedDestination:
    """One destination, and what the journal knows of it. Nothing is contacted for this."""

    setting: DestinationSetting
    last: LastPush | None

    def as_dict(self) -> dict[str, object]:
        last = self.last
        return {
            **self.setting.as_dict(),
            "last_push": None
            if last is None
            else {
                "time": last.time,
                "state": last.state,
                "done": last.done or None,
                "snapshots": last.snapshots,
                "bytes": last.bytes,
                "archive": last.archive or None,
                "error": last.error or None,
                "rights": dict(last.rights) if last.rights else None,
            },
        }


def list_destinations(context: UserContext) -> list[ListedDestination]:
    return [ListedDestination(one, last_push(context, one.name)) for one in context.choices.destinations]


@dataclass(slots=True)
class Examined:
    """What a destination lets us do."""

    setting: DestinationSetting
    place: str = ""
    state: str = "usable"  # or "absent", "failed"
    reason: str = ""  # why not
    abilities: CredentialRights | None = None
    used: bool = False  # safekept was here before
    readable: bool | None = None  # what was written came back the same
    write_speed: float = 0.0  # bytes in a second; 0: not measured
    read_speed: float = 0.0
    room: tuple[int, int] | None = None
    error: SafekeptError | None = None
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        can = self.abilities
        return {
            "name": self.setting.name,
            "place": self.place,
            "state": self.state,
            "reason": self.reason or None,
            "used": self.used,
            "write": can.write if can else None,
            "read": self.readable,
            "overwrite": can.overwrite if can else None,
            "delete": can.delete if can else None,
            "versioning": can.versioning if can else None,
            "write_once": can.write_once if can else None,
            "left_behind": can.left or None if can else None,
            "write_speed": round(self.write_speed) or None,
            "read_speed": round(self.read_speed) or None,
            "free": self.room[0] if self.room else None,
            "error": self.error.as_dict() if self.error else None,
            "notes": list(self.notes),
        }


def examine_destination(
    context: UserContext, word: str, listener: Listener = silent, *, dry_run: bool = False, make: bool = False
) -> Examined:
    """Find out what may be done in a place, by doing it; what does not work is part of the answer.

    A dry run only looks: whether it is there, and whether it would be refused. `make`: a directory on a
    server is made, since only that tells whether it can be.
    """
    setting = find_destination(context, word)
    examined = Examined(setting, setting.url)
    try:
        with contextlib.closing(Reach(context, setting)) as reach:
            objects = reach.objects
            examined.place = objects.location
            listener(Event("test"))
            if not make_ready(context, reach, dry_run=True):
                missing = reach.seen()[1]
                if missing is not None and setting.url.startswith("s3://"):
                    raise missing  # a push makes directories, but never a bucket
                if dry_run or not make or setting.is_file:
                    examined.state, examined.reason = "absent", "it is not there yet; the first push makes it"
                    return examined
                objects.create()
            examined.used = reach.seen()[0]
            if dry_run:
                return examined
            examined.abilities = objects.probe()
            examined.room = objects.room()
            _measure(objects, examined)
    except DestinationAbsent as error:
        examined.state, examined.reason, examined.error = "absent", error.what, error
    except SafekeptError as error:
        examined.state, examined.reason, examined.error = "failed", error.what, error
    return examined


def record_rights(context: UserContext, examined: Examined, listener: Listener = silent) -> None:
    """Remember what was found out: `status` says it, with its age."""
    if examined.abilities is not None:
        found = examined.setting
        facts = DestinationTestFacts(
            destination=found.name, place=found.url, rights=examined.abilities.as_dict()
        )
        record(context, facts.line(new_id(), "done"), listener)


def _measure(objects: ObjectStore, examined: Examined) -> None:
    """How fast it is, and whether the same bytes come back; only where nothing would be left behind."""
    if examined.abilities is None or not examined.abilities.delete:
        examined.notes.append("the speed was not measured: what is written for it could not be deleted again")
        return
    name, data = f"safekept-test-{os.urandom(6).hex()}", os.urandom(_SAMPLE)
    try:
        began = time.monotonic()
        objects.write(name, data)
        wrote = time.monotonic()
        examined.readable = objects.read(name) == data
        read = time.monotonic()
    finally:
        objects.delete(name)
    examined.write_speed = _SAMPLE / max(wrote - began, 1e-6)
    examined.read_speed = _SAMPLE / max(read - wrote, 1e-6)
    if not examined.readable:
        examined.state, examined.reason = "failed", "what was written came back changed"


@dataclass(frozen=True, slots=True)
class StoredVault:
    """The copy of one vault in a destination, as far as it can be seen without its key."""

    directory: str
    snapshots: int
    newest: float  # when the last snapshot arrived there; 0 where the place does not say
    whole: bool  # its `config` is there
    reason: str = ""  # why it could not be looked into

    def as_dict(self) -> dict[str, object]:
        return {
            "directory": self.directory,
            "snapshots": self.snapshots,
            "newest": self.newest or None,
            "whole": self.whole,
            "reason": self.reason or None,
        }


@dataclass(frozen=True, slots=True)
class Contents:
    """What a destination holds."""

    place: str
    vaults: list[StoredVault]
    archives: list[StoredArchive]

    def as_dict(self) -> dict[str, object]:
        return {
            "place": self.place,
            "vaults": [vault.as_dict() for vault in self.vaults],
            "archives": [archive.as_dict() for archive in self.archives],
        }


def contents_of(context: UserContext, word: str) -> Contents:
    """The vaults and the archives in a destination; no key is needed for this."""
    setting = find_destination(context, word)
    with contextlib.closing(open_destination(context, setting)) as objects:
        vaults = [_stored_vault(objects, name) for name in vaults_in(objects)]
        return Contents(objects.location, vaults, list_archives(objects))


def _stored_vault(objects: ObjectStore, name: str) -> StoredVault:
    try:
        listed = list(objects.list(f"{name}/snapshots/"))
        whole = objects.exists(f"{name}/config")
    except PlaceRefused as error:  # closed to us; the others are not
        return StoredVault(name, 0, 0.0, whole=False, reason=error.what)
    return StoredVault(name, len(listed), max((one.modified for one in listed), default=0.0), whole)
