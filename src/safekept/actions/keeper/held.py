"""What the keeper holds of this user: which state is taken, and what of it is not here any more.

The newest state, unless it is an alarm: then the last one before that, with what earlier states of the same
stores have. Nothing is changed by looking.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator

from safekept.checkpoints.store import Refs
from safekept.core.files import read_exactly
from safekept.core.records import dataclass
from safekept.keeper.client import Keeper, KeeperRefused
from safekept.keeper.history import Manifest
from safekept.keeper.pages import MAX_PAGE, BadManifest, Entry, read_page, read_root

from ..base.context import UserContext
from .keeper_status import keeper_status
from .stores import CHECKPOINTS, HIDDEN, KEY, OWN, PROJECTS, REFS, REPOSITORIES, SETTINGS, VAULT, Stores

#: Bytes that are read at once.
PIECE = 1 << 20
#: After an alarm, so many states before it are looked at.
_EARLIER = 200
#: Stores that only grow, since each file is named by what is in it; and the file that says which store it is.
_IDENTITY = {VAULT: "config", CHECKPOINTS: "info/safekept", HIDDEN: "config"}


@dataclass(frozen=True, slots=True)
class Held:
    """What the keeper holds of this user, and which of it is taken."""

    manifest: Manifest
    newest: Manifest
    entries: tuple[Entry, ...]
    settings: str = ""  # the text of them

    @property
    def passed_over(self) -> bool:
        """The newest names less than half of what was there; the one before that is taken."""
        return self.manifest.number != self.newest.number

    def missing(self, stores: Stores) -> list[Entry]:
        """What is not here any more, by a look at each."""
        refs = RefsHere(stores)
        return [one for one in self.entries if not refs.has(one) and not _is_there(stores, one)]


def look_at_keeper(context: UserContext, number: int = 0) -> Held | None:
    """What the keeper holds of this user; None where there is no keeper, or nothing of this user.

    `number`: the state that an interrupted rebuild began with. What was sent since is the half of it.
    """
    status = keeper_status(context)
    if status is None or status.wrong or status.newest is None:
        return None
    with Keeper(status.socket) as keeper:
        every = keeper.manifests()
        every = [one for one in every if not number or one.number <= number] or every
        return _held(keeper, every, status.pinned, status.acknowledged)


def _held(keeper: Keeper, every: list[Manifest], pinned: int, acknowledged: int) -> Held:
    """The newest, unless it is an alarm: then the last one before that, and what is only in earlier ones.

    Who deletes a piece at a time sends states that are no alarm yet. Files of the stores are named by what
    is in them, so those of earlier states are simply more of the same store.
    """
    pages: dict[str, list[Entry]] = {}
    newest = every[0]
    if not (pinned and newest.shrunk):
        found = _with_key(keeper, _entries(keeper, newest, pages), every[1:], pages)
        return _of(keeper, newest, newest, found)
    sound = [one for one in every if not one.shrunk or one.number <= acknowledged]
    largest = [one for one in every if one.number == pinned]
    taken = [*sound[:_EARLIER], *(one for one in largest if one not in sound[:_EARLIER])] or [newest]
    found = _entries(keeper, taken[0], pages)
    for manifest in taken[1:]:
        earlier = _entries(keeper, manifest, pages)
        # Another vault, made since: its files are no part of this one.
        same = tuple(f"{top}/" for top, name in _IDENTITY.items() if _same(earlier, found, f"{top}/{name}"))
        for path, entry in earlier.items():
            if path.startswith(same):
                found.setdefault(path, entry)
    found = _with_key(keeper, found, [one for one in every if one.number < taken[0].number], pages)
    return _of(keeper, taken[0], newest, found)


def _of(keeper: Keeper, manifest: Manifest, newest: Manifest, found: dict[str, Entry]) -> Held:
    text = b"".join(pieces(keeper, found[SETTINGS])).decode("utf-8", "replace") if SETTINGS in found else ""
    return Held(manifest, newest, tuple(found.values()), text)


def _with_key(
    keeper: Keeper, found: dict[str, Entry], earlier: list[Manifest], pages: dict[str, list[Entry]]
) -> dict[str, Entry]:
    """The same with the key, the settings and the like of the last state that had a key of this vault.

    They are so small that a state without them is no alarm: one that was sent between two deletions.
    """
    config = f"{VAULT}/{_IDENTITY[VAULT]}"
    if KEY in found or config not in found:
        return found
    for manifest in earlier[:_EARLIER]:
        before = _entries(keeper, manifest, pages)
        if KEY in before and _same(before, found, config):
            own = {path: one for path, one in before.items() if path.startswith(f"{OWN}/")}
            return {**own, **found}
    return found


def _same(one: dict[str, Entry], other: dict[str, Entry], path: str) -> bool:
    return path in one and one[path] == other.get(path)


def _entries(keeper: Keeper, manifest: Manifest, pages: dict[str, list[Entry]]) -> dict[str, Entry]:
    """The files of a manifest, by path; `pages`: those that were read before."""
    try:
        names = read_root(_small(keeper, manifest.root))
        for name in names:
            if name not in pages:
                pages[name] = list(read_page(_small(keeper, name)))
    except BadManifest as error:
        raise KeeperRefused("bad-manifest", f"what it says of your stores cannot be read: {error}") from error
    return {entry.path: entry for name in names for entry in pages[name]}


def _small(keeper: Keeper, name: str) -> bytes:
    descriptor = keeper.get(name)
    try:
        data = read_exactly(descriptor, 0, min(os.fstat(descriptor).st_size, MAX_PAGE + 1))
    finally:
        os.close(descriptor)
    if hashlib.sha256(data).hexdigest() != name:
        raise KeeperRefused("damaged", f"the object {name} is not what its name says")
    return data


def pieces(keeper: Keeper, entry: Entry) -> Iterator[bytes]:
    """The bytes of a file, each object compared with its name. KeeperRefused where one is another."""
    if entry.inline is not None:
        yield entry.inline
    for name, size in entry.parts:
        descriptor = keeper.get(name)
        try:
            digest, done = hashlib.sha256(), 0
            while piece := os.read(descriptor, PIECE):
                digest.update(piece)
                done += len(piece)
                yield piece
            if digest.hexdigest() != name or done != size:
                raise KeeperRefused("damaged", f"the object {name} is not what its name says")
        finally:
            os.close(descriptor)


class RefsHere:
    """The checkpoints that are here, wherever the repository holds them."""

    def __init__(self, stores: Stores) -> None:
        refs = Refs(stores.checkpoints)
        self._here = {
            f"{REFS}safekept/{project}/{name}": commit.encode() + b"\n"
            for project in refs.projects()
            for name, commit in refs.of(project).items()
        }

    def has(self, entry: Entry) -> bool:
        return entry.inline is not None and self._here.get(entry.path) == entry.inline


def is_of_now(entry: Entry) -> bool:
    """What is known of this machine, and changes: what is there is newer than what the keeper has."""
    objects = "/objects/" in entry.path
    return entry.path.startswith((f"{OWN}/", f"{PROJECTS}/", f"{REPOSITORIES}/")) and not objects


def _is_there(stores: Stores, entry: Entry) -> bool:
    """By its size alone; `bring_back` reads it."""
    place = stores.place(entry.path)
    try:
        facts = os.lstat(place) if place else None
    except OSError:
        return False
    if facts is None:
        return True  # nothing of ours: it is not missing
    if is_of_now(entry):
        return bool(facts.st_size) or not entry.size
    return stat.S_ISREG(facts.st_mode) and facts.st_size == entry.size
