"""What happened lately, by the journal: one look at its end, bounded, for `status` and for monitors.

The vault says which snapshots there are; the journal says what was tried and did not succeed, and what
was done elsewhere: archives, copies off this host, checks.
"""

from __future__ import annotations

import json
import time
from dataclasses import field

from safekept.core.journal import VERSION, Record, parse_line
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.operations.facts import Facts, Failure
from ..base.operations.homes import RebuildFacts, SnapshotFacts
from ..base.operations.stores import DestinationTestFacts, PushFacts, VaultFacts

#: So much of the journal is looked at; years of daily use.
MOST_BYTES = 8 << 20
STORED = ("done", "incomplete")
ENDED_BADLY = ("failed", "interrupted")
#: Snapshots of these kinds hold what a home was, not what it is.
OF_THE_PAST = frozenset({"pre-import", "pre-restore", "pre-change", "adopted"})
_VERBS = (
    *("snapshot", "backup", "push", "vault-check", "vault-repair", "vault-kit", "rebuild", "vault-join"),
    DestinationTestFacts.verb,
)
_WORDS = tuple(f'"{verb}"'.encode() for verb in _VERBS)
_SNAPSHOT = b'"snapshot"'
#: Seconds that two clocks may be apart without a word.
SKEW = 120.0


@dataclass(slots=True)
class Recent:
    """The newest line of each kind. Keys are homes, or destinations for `pushes`."""

    snapshots: dict[str, Record] = field(default_factory=dict)  # that were stored
    wholes: dict[str, Record] = field(default_factory=dict)  # that were stored, of the whole home
    failures: dict[str, Record] = field(default_factory=dict)  # snapshots that failed after the last stored
    archives: dict[str, Record] = field(default_factory=dict)
    pushes: dict[str, Record] = field(default_factory=dict)  # that arrived
    tests: dict[str, Record] = field(default_factory=dict)  # what may be done there, tried by hand
    push_failures: dict[str, Record] = field(default_factory=dict)  # after the last that arrived
    check: Record | None = None  # of this vault: the last check, or the repair after it
    kit: Record | None = None
    sources: dict[str, Record] = field(
        default_factory=dict
    )  # rebuilds, by the copy of the vault they are from
    rebuilt: float = 0.0  # when this machine was rebuilt, for the first time that is known; 0: never
    joined: bool = False  # its vault is that of several hosts
    settled: list[bytes] = field(default_factory=list)  # homes of which nothing older matters, as written
    newest: float = 0.0  # when anything was last written
    unreadable: int = 0  # lines that are torn or foreign, among those looked at
    newer: bool = False  # a later safekept wrote some of it
    problem: str = ""  # why it cannot be read at all


def recent(context: UserContext, now: float | None = None) -> Recent:
    """Look at the end of the journal; what cannot be read is said and stops nothing.

    A snapshot whose time has not come yet says nothing about today, unless there is no other.
    """
    latest = (time.time() if now is None else now) + SKEW
    found, ahead, seen = Recent(), Recent(), 0
    try:
        for line in context.journal.lines_backwards():
            seen += len(line)
            if seen > MOST_BYTES:
                break
            _take(found, ahead, line, context.places.vault, latest)
    except OSError as error:
        found.problem = error.strerror or str(error)
    found.snapshots = {**ahead.snapshots, **found.snapshots}
    found.wholes = {**ahead.wholes, **found.wholes}
    return found


def _take(found: Recent, ahead: Recent, line: bytes, vault: str, latest: float) -> None:
    wanted = any(word in line for word in _WORDS)
    if found.newest and (not wanted or _known(found, line)):
        return
    entry = parse_line(line)
    if entry is None:
        found.unreadable += 1
        return
    found.newest = found.newest or entry.time
    found.newer = found.newer or entry.version > VERSION
    home = Facts.read(entry).home or ""
    if entry.verb == "snapshot":
        taken = SnapshotFacts.read(entry)
        if taken.kind not in OF_THE_PAST:
            into = ahead if entry.time > latest and entry.state in STORED else found
            _last(entry, home, into.snapshots, found.failures)
            if entry.state in STORED and not taken.is_part:
                into.wholes.setdefault(home, entry)
                if into is found:
                    found.settled.append(json.dumps(home).encode())
    elif entry.verb == "backup" and entry.state in STORED:
        found.archives.setdefault(home, entry)
    elif entry.verb == "push":
        _pushed(found, entry)
    elif entry.verb == DestinationTestFacts.verb:
        found.tests.setdefault(DestinationTestFacts.read(entry).destination or "", entry)
    elif entry.verb in ("vault-check", "vault-repair") and VaultFacts.read(entry).vault == vault:
        if found.check is None and not _broken_off(entry):
            found.check = entry
    elif entry.verb == "vault-kit" and VaultFacts.read(entry).vault == vault:
        found.kit = found.kit or entry
    elif entry.verb == "rebuild" and entry.state in STORED:
        found.rebuilt = entry.time
        rebuilt = RebuildFacts.read(entry)
        if rebuilt.snapshot:
            found.sources.setdefault(rebuilt.from_ or "", entry)
    elif entry.verb == "vault-join":
        found.joined = True


def _known(found: Recent, line: bytes) -> bool:
    """Whether it is one more snapshot of a home of which all is known: such lines need no reading."""
    if _SNAPSHOT not in line or any(word in line for word in _WORDS if word != _SNAPSHOT):
        return False
    return any(home in line for home in found.settled)


def _pushed(found: Recent, entry: Record) -> None:
    """Only what arrived whole counts; a disk that was not plugged in is no failure."""
    push = PushFacts.read(entry)
    if push.absent:
        return
    name = push.destination or ""
    if entry.state == "done":
        found.pushes.setdefault(name, entry)
    elif entry.state in (*ENDED_BADLY, "incomplete") and name not in found.pushes:
        found.push_failures.setdefault(name, entry)


def _broken_off(entry: Record) -> bool:
    """A check that failed to run found nothing, good or bad."""
    return Failure.read(entry) is not None


def _last(entry: Record, key: str, stored: dict[str, Record], failed: dict[str, Record]) -> None:
    if entry.state in STORED:
        stored.setdefault(key, entry)
    elif entry.state in ENDED_BADLY and key not in stored:
        failed.setdefault(key, entry)
