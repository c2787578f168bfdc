"""The snapshots of a home: numbered, newest first, and found by number, id or the start of one.

One enumeration for every command, so that a number means the same snapshot everywhere. A snapshot that
was forgotten has no number; one that cannot be read is named, and hides no other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from holdfast.vault.errors import NoSuchSnapshot
from holdfast.vault.repo import Repository
from holdfast.vault.snapshot import Snapshot
from holdfast.vault.snapshots import list_snapshots, pick, public_id
from holdfast.vault.tags import (
    PRE_IMPORT,
    PRE_RESTORE,
    forgotten_at,
    is_incomplete,
    is_pinned,
    kind_of,
    label_of,
    layout_of,
    pinned_until,
    state_of,
)

#: As many characters as are shown; no two snapshots of a list share them, or more are shown.
SHORT = 8
#: Kinds that were taken only to take something back.
UNDO_POINTS = (PRE_IMPORT, PRE_RESTORE)


@dataclass(frozen=True, slots=True)
class Listed:
    """One snapshot as a list shows it."""

    snapshot: Snapshot
    id: str  # the one that stays when tags change
    number: int  # 0 where it has none: forgotten, or of another home
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
            "pinned": self.pinned,
            "pinned_until": self.pinned_until,
            "forgotten": self.forgotten_ns is not None,
        }


@dataclass(slots=True)
class Listing:
    """Every snapshot of a vault, as seen from one home."""

    home: str
    shown: list[Listed] = field(default_factory=list)  # of this home, not forgotten, newest first
    forgotten: list[Listed] = field(default_factory=list)
    elsewhere: list[Listed] = field(default_factory=list)  # of other homes
    damaged: dict[str, str] = field(default_factory=dict)

    @property
    def all(self) -> list[Listed]:
        every = [*self.shown, *self.forgotten, *self.elsewhere]
        return sorted(every, key=lambda one: (one.snapshot.time_ns, one.snapshot.id), reverse=True)


def list_home(repository: Repository, home: str, now_ns: int | None = None) -> Listing:
    """The snapshots of one home, and what else is in the vault. Opens snapshot files only, new ones."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    snapshots, damaged = list_snapshots(repository)
    listing = Listing(home, damaged=damaged)
    for snapshot in reversed(snapshots):
        forgotten = forgotten_at(snapshot)
        if forgotten is not None:
            listing.forgotten.append(_listed(snapshot, 0, now_ns, forgotten))
        elif is_of(snapshot, home):
            listing.shown.append(_listed(snapshot, len(listing.shown) + 1, now_ns, None))
        else:
            listing.elsewhere.append(_listed(snapshot, 0, now_ns, None))
    return listing


def is_of(snapshot: Snapshot, home: str) -> bool:
    """Whether it was made of this home; restic may have been given a directory above it."""
    return any(home == path or home.startswith(path.rstrip("/") + "/") for path in snapshot.paths)


def choose(listing: Listing, word: str, *, forgotten: bool = False) -> Listed:
    """The one that `latest`, a number, an id, the start of one, or a label means.

    `latest` passes over what was stored only to undo a restore or an import: after a restore that would
    be the broken state that was just left.
    """
    if word == "latest":
        if not listing.shown:
            raise _none_yet(listing)
        return next((one for one in listing.shown if one.kind not in UNDO_POINTS), listing.shown[0])
    every = listing.all
    labelled = [one for one in listing.shown if one.label and one.label == word]
    if labelled and not any(one.id.startswith(word) for one in every):
        return labelled[0]
    if word.isdecimal() and not listing.shown and not any(one.id.startswith(word) for one in every):
        raise _none_yet(listing)
    unreadable = [name for name in listing.damaged if name.startswith(word)]
    try:
        numbered = [one.snapshot for one in listing.shown]
        found = pick([one.snapshot for one in every], word, numbered=numbered, forgotten=forgotten)
    except NoSuchSnapshot:
        if not unreadable:
            raise
        raise NoSuchSnapshot(
            f"Snapshot {unreadable[0][:SHORT]} cannot be read: {listing.damaged[unreadable[0]]}",
            kept="Nothing was changed",
            next_steps=(
                "Take another one: `holdfast snapshot list`",
                "See how the vault is: `holdfast vault check`",
            ),
            snapshot=unreadable[0],
        ) from None
    return next(one for one in every if one.snapshot is found)


def _listed(snapshot: Snapshot, number: int, now_ns: int, forgotten: int | None) -> Listed:
    own = snapshot.extra.get("holdfast")
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
    )


def _count(*values: Any) -> int | None:
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def _none_yet(listing: Listing) -> NoSuchSnapshot:
    if listing.elsewhere:
        return NoSuchSnapshot(
            f"This vault holds no snapshots of `{listing.home}`, but {len(listing.elsewhere)} of other homes",
            kept="Nothing was changed",
            next_steps=(
                "See them: `holdfast snapshot list --all`",
                "One of another home can be restored here by its id",
            ),
        )
    return NoSuchSnapshot(
        f"This vault holds no snapshots of `{listing.home}` yet",
        kept="Nothing was changed",
        next_steps=("Take one: `holdfast snapshot`",),
    )
