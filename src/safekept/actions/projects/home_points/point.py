"""What a home point is: some files of an agent's home as they were before the agent changed them.

It is a snapshot of the kind `pre-change`: the small state files of the home and the named paths, without
databases, which the agent writes all the time and which regular snapshots hold. What it is about is
written in it twice: beside its tags, where a list finds it without opening a tree, and in its manifest,
which every tool that rewrites snapshots keeps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from safekept.core.errors import SafekeptError
from safekept.vault.errors import AmbiguousSnapshot, NoSuchSnapshot
from safekept.vault.format import Snapshot, quote, unquote
from safekept.vault.snapshots import public_id
from safekept.vault.tags import PRE_CHANGE, forgotten_at, kind_of, label_of

if TYPE_CHECKING:
    from safekept.vault.repo import Repository

#: Where the facts are: a field of the snapshot file, and a key of the manifest.
FACTS = "safekept_point"
SHORT = 8
SHORTEST_PREFIX = 4


@dataclass(frozen=True, slots=True)
class HomePoint:
    """One point in time of some paths of a home."""

    id: str  # the id that is shown and said; of the snapshot
    snapshot: str  # the same, for those who look for a snapshot
    home: str
    paths: tuple[str, ...]  # below the home, as they were named
    time_ns: int
    reason: str = ""
    session: str = ""
    turn: str = ""
    host: str = ""  # the agent's program: "hermes", "claude-code"
    absent: tuple[str, ...] = ()  # those of `paths` that were not there: going back removes them
    missing: tuple[str, ...] = ()  # directories above those that were not there either
    undo: bool = False  # taken before a rollback of a home point, only to take that back
    taken: bool = True  # False: nothing had changed since this one, so no other was taken

    @property
    def short(self) -> str:
        return self.id[:SHORT]

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "kind": "home",
            "home": self.home,
            "paths": list(self.paths),
            "absent": list(self.absent),
            "time_ns": self.time_ns,
            "reason": self.reason,
            "session": self.session,
            "turn": self.turn,
            "host": self.host,
            "undo": self.undo,
        }

    def facts(self) -> dict[str, object]:
        """What is written into the snapshot."""
        return {
            "version": 1,
            # A snapshot file holds UTF-8 only; names need not be.
            "paths": [quote(path) for path in self.paths],
            "absent": [quote(path) for path in self.absent],
            "missing": [quote(path) for path in self.missing],
            "reason": self.reason,
            "session": self.session,
            "turn": self.turn,
            "host": self.host,
            "undo": self.undo,
        }


def is_point(snapshot: Snapshot) -> bool:
    return kind_of(snapshot) == PRE_CHANGE and forgotten_at(snapshot) is None


def point_of(snapshot: Snapshot, manifest: Mapping[str, Any] | None = None) -> HomePoint | None:
    """The home point that a snapshot is; None where it is none, or nothing in it says of what."""
    facts = snapshot.extra.get(FACTS)
    if not isinstance(facts, Mapping):
        facts = (manifest or {}).get(FACTS)
    if not isinstance(facts, Mapping) or not snapshot.paths or not is_point(snapshot):
        return None
    name = public_id(snapshot)
    return HomePoint(
        name,
        name,
        str((manifest or {}).get("home") or snapshot.paths[0]),
        _texts(facts.get("paths")),
        snapshot.time_ns,
        str(facts.get("reason") or label_of(snapshot)),
        str(facts.get("session") or ""),
        str(facts.get("turn") or ""),
        str(facts.get("host") or ""),
        _texts(facts.get("absent")),
        _texts(facts.get("missing")),
        facts.get("undo") is True,
    )


def points_among(repository: Repository, snapshots: Sequence[Snapshot]) -> list[tuple[HomePoint, Snapshot]]:
    """The home points among snapshots, newest first; what restic rewrote is read from its manifest."""
    from safekept.vault.read import read_manifest

    found = []
    for snapshot in snapshots:
        if not is_point(snapshot):
            continue
        point = point_of(snapshot)
        if point is None:
            try:
                point = point_of(snapshot, read_manifest(repository, snapshot))
            except SafekeptError:
                continue
        if point is not None:
            found.append((point, snapshot))
    return sorted(found, key=lambda one: (one[0].time_ns, one[0].id), reverse=True)


def may_be_point(word: str) -> bool:
    """Whether a word can be the id of a home point, or the start of one."""
    word = word.lower()
    return SHORTEST_PREFIX <= len(word) <= 64 and all(sign in "0123456789abcdef" for sign in word)


def pick_point(points: Sequence[tuple[HomePoint, Snapshot]], word: str) -> tuple[HomePoint, Snapshot] | None:
    """The point that a word names; None where none does. AmbiguousSnapshot where several do."""
    if not may_be_point(word):
        return None
    found = [one for one in points if one[0].id.startswith(word.lower())]
    if len(found) > 1:
        raise AmbiguousSnapshot(
            f"{len(found)} home points start with `{word}`",
            kept="Nothing was changed",
            next_steps=tuple(f"Perhaps `{point.id[: len(word) + 6]}`" for point, _ in found[:5]),
            candidates=[point.id for point, _ in found],
        )
    return found[0] if found else None


def no_such_point(what: str) -> NoSuchSnapshot:
    return NoSuchSnapshot(
        what, kept="Nothing was changed", next_steps=("See what there is: `safekept rollback`",)
    )


def _texts(value: object) -> tuple[str, ...]:
    """Paths as `facts` wrote them; what cannot be one is left out."""
    found = []
    for one in value if isinstance(value, list | tuple) else ():
        with contextlib.suppress(ValueError):
            found.append(unquote(str(one)))
    return tuple(found)
