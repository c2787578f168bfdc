"""The snapshots of a home: numbered, newest first.

One enumeration for every command, so that a number means the same snapshot everywhere. A snapshot that
was forgotten has no number, nor has one of another machine while this one has its own, nor a home point,
of which a busy agent makes many a day; one that cannot be read is named, and hides no other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from safekept.core.records import dataclass
from safekept.vault.format import Snapshot, format_time
from safekept.vault.repo import Repository
from safekept.vault.snapshots import list_snapshots, public_id
from safekept.vault.tags import (
    PRE_CHANGE,
    PRE_IMPORT,
    PRE_RESTORE,
    EarlierHome,
    earlier_homes,
    forgotten_at,
    is_incomplete,
    is_partial,
    is_pinned,
    kind_of,
    label_of,
    layout_of,
    pinned_until,
    proven_at,
    state_of,
    why_incomplete,
)

#: As many characters as are shown; no two snapshots of a list share them, or more are shown.
SHORT = 8
#: Kinds that were taken only to take something back.
UNDO_POINTS = (PRE_IMPORT, PRE_RESTORE, PRE_CHANGE)
#: Clocks may differ by so much before a time counts as one that has not come yet.
_SKEW = 120 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Listed:
    """One snapshot as a list shows it."""

    snapshot: Snapshot
    id: str  # the one that stays when tags change
    number: int  # 0 where it has none: an undo point, forgotten, of another home, or of another machine
    kind: str
    label: str
    files: int | None  # None where nothing recorded it
    bytes: int | None
    added: int | None
    state: str  # of its databases: "sound", "unverified", "damaged", or "" where nothing says
    complete: bool
    pinned: bool
    pinned_until: str
    forgotten_ns: int | None
    future: bool = False  # its time has not come yet: a clock was wrong
    here: bool = True  # made on this machine
    proven_ns: int | None = None  # when a drill last restored all of it and found nothing wrong
    partial: bool = False  # it holds less than the settings select, by its kind or because it was asked to
    why_incomplete: str = ""  # in few words, where it is and something says so

    @property
    def short(self) -> str:
        return self.id[:SHORT]

    @property
    def home(self) -> str:
        return self.snapshot.paths[0] if self.snapshot.paths else ""

    def as_dict(self) -> dict[str, object]:
        return {
            "number": self.number or None,
            "id": self.id,
            "time": self.snapshot.time,
            "kind": self.kind,
            "label": self.label,
            "layout": layout_of(self.snapshot),
            "home": self.home,
            "paths": list(self.snapshot.paths),
            "host": self.snapshot.hostname,
            "user": self.snapshot.username,
            "files": self.files,
            "bytes": self.bytes,
            "added_bytes": self.added,
            "databases": self.state,
            "complete": self.complete,
            "why_incomplete": self.why_incomplete or None,
            "partial": self.partial,
            "pinned": self.pinned,
            "pinned_until": self.pinned_until,
            "forgotten": self.forgotten_ns is not None,
            "future": self.future,
            "proven": None if self.proven_ns is None else format_time(self.proven_ns, 0),
        }


@dataclass(slots=True)
class Listing:
    """Every snapshot of a vault, as seen from one home."""

    home: str
    #: Of this home, not forgotten, newest first; those of where it was before a rebuild among them.
    shown: list[Listed] = field(default_factory=list)
    away: list[Listed] = field(default_factory=list)  # of this home's path, made on other machines
    points: list[Listed] = field(default_factory=list)  # home points: parts of it, without numbers
    forgotten: list[Listed] = field(default_factory=list)
    elsewhere: list[Listed] = field(default_factory=list)  # of other homes
    damaged: dict[str, str] = field(default_factory=dict)
    named: bool = True  # the user named the home

    @property
    def others(self) -> list[Listed]:
        """The newest of each other home of this machine, of those that have numbers there."""
        found: dict[str, Listed] = {}
        for one in self.elsewhere:
            if one.here and one.kind not in UNDO_POINTS:
                found.setdefault(one.home, one)
        return list(found.values())

    @property
    def before(self) -> list[Listed]:
        """Of where this home was before it was rebuilt here."""
        return [one for one in self.shown if not is_of(one.snapshot, self.home)]

    def alike(self, layout: str) -> list[Listed]:
        """Of other homes of the same agent."""
        return [one for one in self.elsewhere if layout_of(one.snapshot) == layout]

    @property
    def of_home(self) -> list[Listed]:
        """Everything of this home's path that is not forgotten, whichever machine made it; newest first."""
        return newest_first([*self.shown, *self.away, *self.points])

    @property
    def all(self) -> list[Listed]:
        every = [*self.shown, *self.away, *self.points, *self.forgotten, *self.elsewhere]
        return newest_first(every)


def list_home(
    repository: Repository,
    home: str,
    now_ns: int | None = None,
    host: str | None = None,
    *,
    named: bool = True,
) -> Listing:
    """The snapshots of one home, and what else is in the vault. Opens snapshot files only, new ones.

    Where this machine has none of its own, as after a move or in a new container, those of the same
    path that other machines made take their place.
    """
    snapshots, damaged = list_snapshots(repository)
    return replace(listing_of(snapshots, damaged, home, now_ns, host), named=named)


def listing_of(
    snapshots: Sequence[Snapshot],
    damaged: dict[str, str],
    home: str,
    now_ns: int | None = None,
    host: str | None = None,
) -> Listing:
    """The same, of snapshots that were found already, oldest first."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    host = os.uname().nodename if host is None else host
    listing = Listing(home, damaged=damaged)
    lives = lives_before(snapshots, home, host)
    ours: list[Snapshot] = []
    for snapshot in reversed(snapshots):
        forgotten = forgotten_at(snapshot)
        mine = is_of(snapshot, home) or any(life.holds(snapshot) for life in lives)
        if forgotten is not None:
            listing.forgotten.append(_listed(snapshot, 0, now_ns, host, forgotten))
        elif mine and kind_of(snapshot) == PRE_CHANGE:
            listing.points.append(_listed(snapshot, 0, now_ns, host, None))
        elif mine:
            ours.append(snapshot)
        else:
            listing.elsewhere.append(_listed(snapshot, 0, now_ns, host, None))
    own = any(_is_here(snapshot, host) and is_of(snapshot, home) for snapshot in ours)
    number = 0  # what a restore, an import or an undo stored by itself has none
    for snapshot in ours:
        if own and not _is_here(snapshot, host) and not any(life.holds(snapshot) for life in lives):
            listing.away.append(_listed(snapshot, 0, now_ns, host, None))
        else:
            counts = kind_of(snapshot) not in UNDO_POINTS
            number += counts
            listing.shown.append(_listed(snapshot, number if counts else 0, now_ns, host, None))
    return listing


def lives_before(snapshots: Sequence[Snapshot], home: str, host: str) -> set[EarlierHome]:
    """Where a home was before it was rebuilt in its place, as its own snapshots say it."""
    own = [one for one in snapshots if is_of(one, home)]
    here = [one for one in own if _is_here(one, host)]
    return {life for one in here or own for life in earlier_homes(one)}


def continued_homes(snapshots: Sequence[Snapshot]) -> set[tuple[str, str]]:
    """The homes, by host and path, that go on elsewhere: all that is kept of them is another home's past.

    What a restore stored by itself is no sign of life: it may be younger than what the home was rebuilt from.
    """
    until: dict[tuple[str, str], int] = {}
    newest: dict[tuple[str, str], int] = {}
    for one in snapshots:
        if forgotten_at(one) is None and one.paths:
            key = (one.hostname, one.paths[0])
            if kind_of(one) not in UNDO_POINTS:
                newest[key] = max(newest.get(key, 0), one.time_ns)
            for life in earlier_homes(one):
                before = (life.host, life.home)
                until[before] = max(until.get(before, 0), life.until_ns)
    return {key for key, time_ns in until.items() if newest.get(key, 0) <= time_ns}


def newest_first(listed: list[Listed]) -> list[Listed]:
    return sorted(listed, key=lambda one: (one.snapshot.time_ns, one.snapshot.id), reverse=True)


def _is_here(snapshot: Snapshot, host: str) -> bool:
    return snapshot.hostname in ("", host)


def as_stored(path: str) -> str:
    """A path as a snapshot file has it: bytes that are not UTF-8 are lost there, as in restic's own."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def is_of(snapshot: Snapshot, home: str) -> bool:
    """Whether it was made of this home; restic may have been given a directory above it."""
    home = as_stored(home)
    return any(home == path or home.startswith(path.rstrip("/") + "/") for path in snapshot.paths)


def _listed(snapshot: Snapshot, number: int, now_ns: int, host: str, forgotten: int | None) -> Listed:
    own = snapshot.extra.get("safekept")
    own = own if isinstance(own, dict) else {}
    return Listed(
        snapshot,
        public_id(snapshot),
        number,
        kind_of(snapshot),
        label_of(snapshot),
        _count(own.get("files"), snapshot.summary.get("total_files_processed")),
        _count(own.get("bytes"), snapshot.summary.get("total_bytes_processed")),
        _count(
            own.get("added"), snapshot.summary.get("data_added_packed", snapshot.summary.get("data_added"))
        ),
        state_of(snapshot),
        not is_incomplete(snapshot),
        is_pinned(snapshot, now_ns),
        pinned_until(snapshot) or "",
        forgotten,
        snapshot.time_ns > now_ns + _SKEW,
        _is_here(snapshot, host),
        proven_at(snapshot),
        is_partial(snapshot),
        why_incomplete(snapshot),
    )


def _count(*values: Any) -> int | None:
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)
