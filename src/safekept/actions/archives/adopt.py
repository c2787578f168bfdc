"""Take the history that a Hermes user already has into the vault, with its original times.

Quick snapshots and zips become snapshots of the kind `adopted`. Nothing of Hermes's is changed or
deleted. A copy is taken once: its name is a tag of the snapshot, so running it again adds nothing, and
one that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import field

from safekept import __version__
from safekept.archive import NO_LIMITS, open_archive
from safekept.core.entries import Entry, Kind, Remark, Source
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files import private_directory
from safekept.core.journal import new_id
from safekept.core.records import dataclass
from safekept.core.sqlite import CaptureOptions
from safekept.home.copies import QUICK_COPIES, Copy, QuickSource, find_copies
from safekept.home.layout import recognise
from safekept.vault.format import format_time
from safekept.vault.repo import Lock, Repository
from safekept.vault.snapshots import list_snapshots, public_id
from safekept.vault.tags import ADOPTED, INCOMPLETE, kind_of, kind_tag, label_tag, state_tag
from safekept.vault.write import Description, SnapshotAccount, write_snapshot

from ..base.context import HomeRef, UserContext
from ..base.operations.stores import AdoptFacts
from ..base.record import record, recording
from ..vault.opening import cache_of, open_vault, vault_exists
from .zipped_home import EXTERNAL, ZippedHome

NEW, TAKEN, PRESENT, SKIPPED, FAILED = "new", "taken", "present", "skipped", "failed"


class NothingToAdopt(SafekeptError):
    code = "nothing-to-adopt"


@dataclass(slots=True)
class Adopted:
    """One copy and what became of it."""

    copy: Copy
    state: str  # NEW (in a plan), TAKEN, PRESENT (from an earlier run), SKIPPED or FAILED
    snapshot: str = ""  # the public id
    files: int = 0
    bytes: int = 0
    added: int = 0
    stored: int = 0
    complete: bool = True
    remarks: list[Remark] = field(default_factory=list)
    reason: str = ""

    def as_dict(self) -> dict[str, object]:
        return {
            "source": self.copy.name,
            "time": format_time(self.copy.time_ns),
            "label": self.copy.label,
            "state": self.state,
            "snapshot": self.snapshot or None,
            "files": self.files,
            "bytes": self.bytes,
            "stored_bytes": self.stored,
            "disk_bytes": self.copy.disk_bytes,
            "complete": self.complete,
            "remarks": [remark.as_dict() for remark in self.remarks],
            "reason": self.reason or None,
        }


@dataclass(frozen=True, slots=True)
class Adoption:
    """All copies of a home, oldest first."""

    operation: str
    place: HomeRef
    copies: list[Adopted]

    @property
    def freed_bytes(self) -> int:
        """What removing the copies that are whole in the vault would free."""
        return sum(
            one.copy.disk_bytes for one in self.copies if one.state in (TAKEN, PRESENT) and one.complete
        )

    @property
    def complete(self) -> bool:
        return all(one.complete and one.state not in (SKIPPED, FAILED) for one in self.copies)


def plan_adoption(context: UserContext, place: HomeRef) -> Adoption:
    """What would be taken; nothing is written, and no vault is made."""
    copies = find_copies(place.home, place.layout)
    known: Mapping[str, tuple[str, bool]] = {}
    if vault_exists(context):
        with open_vault(context) as repository:
            known = _known(repository, place.home)
    planned = [_judged(copy, known) for copy in copies]
    for one in planned:
        if one.state == NEW and one.copy.kind != QUICK_COPIES:
            _look_into(one)
    return Adoption("", place, planned)


def _look_into(one: Adopted) -> None:
    """Whether a zip can be taken at all, by its directory: nothing is unpacked."""
    try:
        with open_archive(one.copy.path, NO_LIMITS) as archive:
            _refuse_empty(one.copy, archive.entries)
    except SafekeptError as error:
        one.state, one.complete, one.reason = FAILED, False, error.what


def _refuse_empty(copy: Copy, entries: list[Entry]) -> None:
    if not any(entry.kind is not Kind.DIRECTORY for entry in entries):
        raise NothingToAdopt(
            f"`{copy.name}` is an archive that holds nothing",
            kept="Nothing was changed",
            next_steps=("It can be deleted; there is nothing in it",),
            path=copy.path,
        )


def adopt(context: UserContext, place: HomeRef, listener: Listener = silent) -> Adoption:
    """Take every copy that is not in the vault yet; one that cannot be read stops no other."""
    operation, began = new_id(), time.monotonic()
    copies = find_copies(place.home, place.layout)
    taken: list[Adopted] = []
    if copies:
        with (
            recording(context, operation, AdoptFacts(home=place.home), listener),
            open_vault(context, create=True, homes=(place.home,), listener=listener) as repository,
            repository.lock(wait=60.0) as lock,
        ):
            taken = _take_all(context, place, repository, lock, copies, listener)
    adoption = Adoption(operation, place, taken)
    work = AdoptFacts(
        home=place.home,
        copies=tuple({**one.as_dict(), "remarks": len(one.remarks)} for one in taken),
        freed_bytes=adoption.freed_bytes,
        seconds=round(time.monotonic() - began, 3),
    )
    record(context, work.line(operation, "done" if adoption.complete else "incomplete"), listener)
    return adoption


def _take_all(
    context: UserContext,
    place: HomeRef,
    repository: Repository,
    lock: Lock,
    copies: list[Copy],
    listener: Listener,
) -> list[Adopted]:
    known = _known(repository, place.home)
    found = []
    for number, copy in enumerate(copies):
        listener(Event("adopt", number, len(copies), "copies", copy.name))
        one = _judged(copy, known)
        if one.state == NEW:
            try:
                _take(context, place, repository, lock, one, listener)
            except SafekeptError as error:
                if error.code.startswith(("vault-", "no-room")):
                    raise  # the vault itself cannot go on
                one.state, one.complete, one.reason = FAILED, False, error.what
        found.append(one)
    return found


def _known(repository: Repository, home: str) -> dict[str, tuple[str, bool]]:
    """The copies of this home that the vault has already: name -> public id, and whether it is whole."""
    found = {}
    for snapshot in list_snapshots(repository)[0]:
        if kind_of(snapshot) == ADOPTED and snapshot.paths == (home,):
            for tag in snapshot.tags:
                if tag.startswith("source:"):
                    found[tag] = (public_id(snapshot), INCOMPLETE not in snapshot.tags)
    return found


def _judged(copy: Copy, known: Mapping[str, tuple[str, bool]]) -> Adopted:
    if copy.reason:
        return Adopted(copy, SKIPPED, reason=copy.reason, complete=False)
    present = known.get(source_tag(copy.name))
    if present:
        return Adopted(copy, PRESENT, present[0], complete=present[1])
    return Adopted(copy, NEW)


def source_tag(name: str) -> str:
    """The tag by which a copy is known again; encoded as labels are."""
    return "source:" + label_tag(name).removeprefix("label:")


def _take(
    context: UserContext,
    place: HomeRef,
    repository: Repository,
    lock: Lock,
    one: Adopted,
    listener: Listener,
) -> None:
    copy = one.copy
    with _opened(context, place, repository, copy, listener) as (source, external):

        def describe(account: SnapshotAccount) -> Description:
            return _describe(context, place, copy, external, account)

        stored = write_snapshot(
            repository,
            source,
            lock=lock,
            roots={"": place.home, **external},
            describe=describe,
            time_ns=copy.time_ns,
            listener=listener,
        )
    account = stored.account
    one.state, one.snapshot = TAKEN, public_id(stored.snapshot)
    one.files, one.bytes, one.added, one.stored = account.files, account.bytes, stored.added, stored.stored
    one.complete, one.remarks = account.complete, list(account.remarks)


@contextlib.contextmanager
def _opened(
    context: UserContext, place: HomeRef, repository: Repository, copy: Copy, listener: Listener
) -> Iterator[tuple[Source, dict[str, str]]]:
    """The copy as a Source, and where what lay outside the home belongs."""
    if copy.kind == QUICK_COPIES:
        scratch = cache_of(context, repository) or os.path.join(context.places.data_directory, "scratch")
        private_directory(scratch)
        yield QuickSource(copy, place.layout, CaptureOptions(scratch=scratch, isolated=False), listener), {}
        return
    with open_archive(copy.path, NO_LIMITS) as archive:
        entries = archive.entries
        _refuse_empty(copy, entries)
        proven = recognise((_marker(entry) for entry in entries), {place.layout.name: place.layout})
        source: Source = archive.under(proven[1]) if proven and proven[1] else archive
        outside = {
            "/".join(entry.path.split("/")[:2])
            for entry in source
            if entry.path.startswith(EXTERNAL + "/") and entry.path.count("/") >= 1
        }
        external = {
            prefix: os.path.join(context.places.user_home, prefix.removeprefix(EXTERNAL + "/"))
            for prefix in sorted(outside)
        }
        yield ZippedHome(source, place, copy.below), external


def _marker(entry: Entry) -> str:
    return entry.path + "/" if entry.kind is Kind.DIRECTORY else entry.path


def _describe(
    context: UserContext, place: HomeRef, copy: Copy, external: Mapping[str, str], account: SnapshotAccount
) -> Description:
    states = {path: one.facts.state for path, one in account.databases.items()}
    manifest = {
        "format": "safekept-snapshot",
        "version": 1,
        "kind": ADOPTED,
        "label": copy.label,
        "layout": place.layout.name,
        "home": place.home,
        "external": dict(external),
        "host": os.uname().nodename,
        "user": os.path.basename(context.places.user_home.rstrip("/")),
        "tool": f"safekept {__version__}",
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(copy.time_ns / 1e9)),
        "source": copy.name,
        # It speaks only for what it holds: Hermes's rules left other things out than ours.
        "scope": {"partial": True, "quick": copy.kind == QUICK_COPIES},
        "census": {},
        "complete": account.complete,
        "databases": {path: one.as_dict() for path, one in sorted(account.databases.items())},
        "remarks": [remark.as_dict() for remark in account.remarks],
    }
    tags = [kind_tag(ADOPTED), f"layout:{place.layout.name}", source_tag(copy.name)]
    if copy.label:
        tags.append(label_tag(copy.label))
    if states:
        found = set(states.values())
        tags.append(state_tag(next(state for state in ("damaged", "unverified", "sound") if state in found)))
    if not account.complete:
        tags.append(INCOMPLETE)
    ours = {"version": 1, "databases": states, "files": account.files, "bytes": account.bytes}
    ours |= {} if account.complete else {"lacks": account.lacks}
    return Description(manifest, tuple(tags), {"safekept": ours})
