"""How a home point lies in the vault, and how it is found there.

It is a snapshot of the kind `pre-change`: the small state files of the home and the named paths, without
databases, which the agent writes all the time and which regular snapshots hold. What it is about is
written in it twice: beside its tags, where a list finds it without opening a tree, and in its manifest,
which every tool that rewrites snapshots keeps.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.vault.errors import AmbiguousSnapshot, NoSuchSnapshot
from safekept.vault.format import Snapshot, quote, unquote
from safekept.vault.repo import Repository
from safekept.vault.snapshots import list_snapshots, public_id
from safekept.vault.tags import PRE_CHANGE, forgotten_at, kind_of, label_of

from ...base.context import UserContext
from .point import HomePoint, may_be_point

#: Where the facts are: a field of the snapshot file, and a key of the manifest.
FACTS = "safekept_point"


def facts_of(point: HomePoint) -> dict[str, object]:
    """What is written into the snapshot."""
    return {
        "version": 1,
        # A snapshot file holds UTF-8 only; names need not be.
        "paths": [quote(path) for path in point.paths],
        "absent": [quote(path) for path in point.absent],
        "missing": [quote(path) for path in point.missing],
        "reason": point.reason,
        "session": point.session,
        "turn": point.turn,
        "host": point.host,
        "undo": point.undo,
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
        what, kept="Nothing was changed", next_steps=(NextStep("rollback", before="See what there is:"),)
    )


def _texts(value: object) -> tuple[str, ...]:
    """Paths as `facts` wrote them; what cannot be one is left out."""
    found = []
    for one in value if isinstance(value, list | tuple) else ():
        with contextlib.suppress(ValueError):
            found.append(unquote(str(one)))
    return tuple(found)


@contextlib.contextmanager
def open_points(context: UserContext) -> Iterator[tuple[Repository, list[tuple[HomePoint, Snapshot]]]]:
    """The points of this machine in the user's own vault; where it has none, as in a new container, all.

    A list asks for no passphrase.
    """
    from ...vault.opening import open_vault

    secret = context.caller.vault_secret if context.choices.vault_wants_passphrase else None
    quiet = context.changed(vault_secret=secret, source_vault="")
    host = os.uname().nodename
    with open_vault(quiet) as repository:
        every = points_among(repository, list_snapshots(repository)[0])
        yield repository, [one for one in every if one[1].hostname in ("", host)] or every


def find_point(context: UserContext, word: str) -> HomePoint | None:
    """The home point whose id starts so; None where there is none, or the vault does not open."""
    try:
        with open_points(context) as (repository, found):
            picked = pick_point(found, word)
            if picked is None:
                _refuse_forgotten(repository, word.lower())
    except (AmbiguousSnapshot, NoSuchSnapshot):
        raise
    except (SafekeptError, OSError):
        return None
    return picked[0] if picked else None


def _refuse_forgotten(repository: Repository, word: str) -> None:
    """A point that policy or a person let go can be called back for some time."""
    for snapshot in list_snapshots(repository)[0]:
        if kind_of(snapshot) == PRE_CHANGE and public_id(snapshot).startswith(word):
            name = public_id(snapshot)[:8]
            raise NoSuchSnapshot(
                f"Home point {name} was forgotten",
                kept="Nothing was changed; it can still be brought back until the vault is pruned",
                next_steps=(NextStep("snapshot forget", ("--undo", name), before="Bring it back:"),),
                snapshot=public_id(snapshot),
            )
