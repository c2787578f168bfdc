"""The home inside a chosen snapshot: which agent's it is, where it lay, and what a typed path means in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener
from safekept.core.files import NoRoom
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.spelling import near_names
from safekept.home.landing import refuse_empty
from safekept.home.layout import Layout, recognise
from safekept.vault.errors import VaultDamaged, VaultUnreachable
from safekept.vault.read import HomeSource, StoredRoot, shallow_paths, snapshot_source
from safekept.vault.repo import Repository
from safekept.vault.tags import layout_of

from ..alarms.alarms import losses_in_snapshots
from ..base.context import HomeRef, UserContext
from .listing import Listed, Listing, is_of, list_home
from .soundness import advised_for

#: How far below the root of a foreign snapshot a home is looked for, its own markers included.
_DEPTH = 12
#: Seconds for which a reader waits for a prune that is at work.
_WAIT = 30.0


class NotAHome(SafekeptError):
    code = "not-a-home"


@dataclass(frozen=True, slots=True)
class Stored:
    """What a snapshot holds of a home."""

    source: HomeSource
    manifest: Mapping[str, Any] | None
    layout: Layout
    home: str  # where the home was when it was stored


@contextlib.contextmanager
def reading(repository: Repository, listener: Listener, wait: float | None = None) -> Iterator[None]:
    """While content is read no prune may take it away.

    A vault that cannot be written, or has no room for a lock, is read without one: a prune that takes
    something away meanwhile shows as damage, and never as wrong content.
    """
    if repository.without_lock:
        yield
        return
    try:
        lock = repository.lock(wait=_WAIT if wait is None else wait)
    except (VaultUnreachable, NoRoom) as error:
        listener(Event("lock", text=f"Note: the vault is read without a lock: {error.clause}"))
        yield
        return
    with lock:
        yield


def open_stored(
    context: UserContext, repository: Repository, chosen: Listed, layout_name: str = ""
) -> Stored:
    """By our own manifest, else by what the snapshot was made of and the markers in it."""
    snapshot = chosen.snapshot
    source, manifest = snapshot_source(repository, snapshot)
    recorded = str(manifest.get("layout", "")) if manifest else layout_of(snapshot)
    home = "/" + source.roots[0].place
    if manifest is not None or recorded:
        name = layout_name or (recorded if recorded in context.choices.layouts else "generic")
        return Stored(source, manifest, context.layout(name), home)
    found = recognise(shallow_paths(repository, snapshot, _DEPTH), context.choices.layouts)
    if found is None and not layout_name:
        raise NotAHome(
            f"Snapshot {chosen.short} was not made by safekept, and no agent's home that it knows is in it",
            kept="Nothing was changed",
            next_steps=(
                f"See what it holds: `restic ls {chosen.short}`",
                NextStep(
                    "snapshot restore",
                    (chosen.short, "--layout", "generic", "--into", "DIR"),
                    before="If you know what it is, say so:",
                ),
            ),
            paths=list(snapshot.paths),
        )
    if found is not None:
        source, _ = snapshot_source(repository, snapshot, found[1])
        home = "/" + found[1]
    return Stored(source, None, context.layout(layout_name or (found[0] if found else "")), home)


def light_source(
    context: UserContext, repository: Repository, one: Listed, place: HomeRef, path: str
) -> HomeSource:
    """The snapshot as a home, without reading its account where the path needs none."""
    home = place.home if is_of(one.snapshot, place.home) else one.home
    light = HomeSource(repository, one.snapshot, [StoredRoot("", home.strip("/"))], None, [])
    if not path.startswith("_external/") and light.node("") is not None:
        return light
    return open_stored(context, repository, one).source


def newest_with(
    context: UserContext, repository: Repository, listing: Listing, place: HomeRef, paths: Sequence[str]
) -> Listed | None:
    """The best snapshot of a home that has all of these paths; an undo point only where no other has them."""
    for one in _best_first(context, listing.home, listing.of_home, paths):
        try:
            if all(light_source(context, repository, one, place, path).node(path) for path in paths):
                return one
        except (NotAHome, VaultDamaged):
            continue
    return None


def other_home_with(
    context: UserContext, repository: Repository, listing: Listing, paths: Sequence[str]
) -> str:
    """Another home of this machine that has a snapshot with all of these paths; "" where there is none."""
    for one in listing.others:
        try:
            place = context.locate(one.home, existing=False)
        except SafekeptError:
            continue
        if newest_with(context, repository, list_home(repository, one.home), place, paths) is not None:
            return one.home
    return ""


def _best_first(
    context: UserContext, home: str, every: Sequence[Listed], paths: Sequence[str]
) -> list[Listed]:
    """What may be advised, and behind it what was stored only to undo something."""
    advised = advised_for(every, paths, losses_in_snapshots(context, home))
    known = {one.id for one in advised}
    return [*advised, *(one for one in every if one.id not in known)]


#: So many snapshots are read for a mere name.
_SEARCHED = 10


def newest_with_name(
    context: UserContext,
    repository: Repository,
    listing: Listing,
    place: HomeRef,
    name: str,
    without: HomeSource,
) -> tuple[Listed | None, tuple[str, ...]]:
    """The newest snapshot with something of this name, anywhere, that another one lacks; and its path."""
    for one in _best_first(context, listing.home, listing.shown, (name,))[:_SEARCHED]:
        try:
            for entry in light_source(context, repository, one, place, name):
                if os.path.basename(entry.path) == name and without.node(entry.path) is None:
                    return one, (entry.path,)
        except (NotAHome, VaultDamaged):
            continue
    return None, (name,)


def near_paths(source: HomeSource, typed: str) -> list[str]:
    """What a stored home has that may have been meant by this word."""
    return near_names((entry.path for entry in source), typed)


def path_in_home(path: str, homes: Sequence[str], directory: str, source: HomeSource | None = None) -> str:
    """What a typed path is called in the home: it may be absolute, below the home, or in `directory`."""
    refuse_empty(path)
    candidates = []
    if not os.path.isabs(path):
        candidates.append(os.path.normpath(path))
        if directory:
            candidates += _below(os.path.join(directory, path), homes)
    else:
        candidates += _below(path, homes)
        candidates += _outside(os.path.normpath(path), source)
    for candidate in candidates:
        if candidate == "." or (source is not None and _stored(source, candidate)):
            return candidate
    return candidates[0] if candidates else os.path.normpath(path)


def _below(path: str, homes: Sequence[str]) -> list[str]:
    """The path below one of the homes, as typed and with the links above its last name resolved."""
    parent, name = os.path.split(os.path.normpath(path))
    found = []
    for full in (os.path.normpath(path), os.path.join(os.path.realpath(parent), name)):
        for home in homes:
            if full == home:
                found.append(".")
            elif full.startswith(home.rstrip("/") + "/"):
                found.append(full[len(home.rstrip("/")) + 1 :])
    return found


def _outside(path: str, source: HomeSource | None) -> list[str]:
    """A path outside the home that the snapshot holds: its name among the entries."""
    found = []
    for root in source.roots if source is not None else ():
        place = "/" + root.place
        if root.prefix and (path == place or path.startswith(place + "/")):
            found.append(root.prefix + path[len(place) :])
    return found


def _stored(source: HomeSource, path: str) -> bool:
    try:
        return source.node(path) is not None
    except VaultDamaged:
        return False
