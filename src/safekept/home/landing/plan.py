"""The plan of a landing: what would be done, as a value that can be printed, tested and shown.

Making a plan changes nothing. It looks at every target once, by `lstat`. A file counts as the same
where size, time and mode agree and its bytes have the recorded hash; where none was recorded, the
landing itself compares the bytes.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.entries import Kind, Source
from safekept.core.files import free_bytes
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.spelling import shell_word
from safekept.core.sqlite import SIDECARS

from ..layout.layout import Layout
from ..layout.places import HomeNotDirectory
from ..owner import worker_for
from .items import Chosen, Item, collect, database_of
from .record import Root
from .removals import Removals, find_removals, never, tombstones
from .search import no_filling
from .stage.comparing import already_there
from .swap.open_databases import describe, is_database_file, mount_points, mount_sentence, who_holds
from .targets import Places, Targets
from .tree import LandingThroughLink, LandingTree, StillTree

if TYPE_CHECKING:
    from ..as_owner.worker import OwnersLanding

_BLOCK = 4096
#: Room for the record, for directories, and for the filesystem's own needs.
SPARE = 2 << 20


@dataclass(slots=True)
class LandingPlan:
    """What a landing would do. Lists hold paths relative to the home, sorted."""

    home: str
    exact: bool
    only: tuple[str, ...]
    create: list[str] = field(default_factory=list)
    replace: list[str] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)  # of those: may turn out to be the same once rebuilt
    same: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)  # bound to this machine: neither written nor removed
    damaged: list[str] = field(default_factory=list)  # damaged in the source: what is there stays
    shorter: dict[str, int] = field(default_factory=dict)  # to be replaced by fewer bytes than these
    closed: list[str] = field(default_factory=list)  # come back as 0600: secrets and conversations
    remove: list[str] = field(default_factory=list)  # exact only, or in the way of a directory
    outside: list[str] = field(default_factory=list)  # full paths outside the home
    executable: list[str] = field(default_factory=list)  # what the agent would run
    held: list[tuple[str, str]] = field(default_factory=list)  # databases in use, and by whom
    links: list[str] = field(default_factory=list)  # links that stand where a directory is needed
    mounts: list[str] = field(default_factory=list)  # mount points that would have to be replaced
    bytes: int = 0
    needed: int = 0  # room on the home's filesystem
    free: int = 0
    items: dict[str, Item] = field(default_factory=dict, repr=False)
    unchanged: dict[str, os.stat_result] = field(default_factory=dict, repr=False)  # the same by hash
    removals: Removals = field(default_factory=Removals, repr=False)
    roots: list[Root] = field(default_factory=list, repr=False)
    layout: Layout | None = field(default=None, repr=False)
    owners: OwnersLanding | None = field(
        default=None, repr=False
    )  # the child of the owner that carries it out

    @property
    def unseen(self) -> list[tuple[str, str]]:
        """What an exact landing could not look at, so that what is there stays: path, why."""
        return self.removals.unseen

    @property
    def replaced_for_sure(self) -> list[str]:
        """Without those that are compared first."""
        return [path for path in self.replace if path not in self.compared]

    @property
    def obstacles(self) -> list[str]:
        """Why the landing would be refused as things are now, in sentences; empty where it would not."""
        found = [
            f"`{link}` is a link where a directory is needed; safekept never writes through links"
            for link in self.links
        ]
        found += [mount_sentence(place) for place in self.mounts]
        if self.needed + SPARE > self.free:
            needed = f"{self.needed + SPARE:,} bytes are needed, {self.free:,} are free"
            found.append(f"There is not enough room beside `{self.home}`: {needed}")
        return found

    def as_dict(self) -> dict[str, object]:
        return {
            "home": self.home,
            "exact": self.exact,
            "only": list(self.only),
            "create": self.create,
            "replace": self.replace,
            "compared": self.compared,
            "same": self.same,
            "kept": self.kept,
            "damaged": self.damaged,
            "shorter": [
                {"path": path, "bytes_now": now, "bytes": self.items[path].size}
                for path, now in sorted(self.shorter.items())
            ],
            "closed": self.closed,
            "remove": self.remove,
            "outside": self.outside,
            "executable": self.executable,
            "held": [{"path": path, "holder": holder} for path, holder in self.held],
            "links_in_the_way": self.links,
            "mounts_in_the_way": self.mounts,
            "obstacles": self.obstacles,
            "bytes": self.bytes,
            "needed_bytes": self.needed,
            "free_bytes": self.free,
        }


def plan_landing(
    source: Source,
    targets: Targets,
    layout: Layout,
    *,
    exact: bool = False,
    only: Sequence[str] = (),
    spare: Callable[[str], bool] = never,
    damaged: Collection[str] = (),
) -> LandingPlan:
    """Compare a source with its target. An exact landing leaves what `spare` names where it is.

    `damaged` are files that the source itself calls damaged: they come where nothing is, and replace nothing.
    Raises ImportOutsideHome, NothingMatches and UnsafeEntry; links in the way and a lack of room
    are part of the plan (`obstacles`), and refused when it is carried out.
    """
    if (worker := worker_for(targets.home)) is not None:
        return worker.plan_landing(source, targets, layout, exact, only, spare, damaged)
    if os.path.exists(targets.home) and not os.path.isdir(targets.home):
        raise HomeNotDirectory(
            f"`{targets.home}` is not a directory, so nothing can be restored into it",
            kept="Nothing was changed",
            next_steps=(
                f"Move it away first: `mv {shell_word(targets.home)} {shell_word(targets.home + '.file')}`",
                NextStep("import", ("FILE", "--into", "DIR"), before="Name another place:"),
            ),
            home=targets.home,
        )
    places = Places(targets)
    chosen = collect(source, places, layout, only)
    plan = LandingPlan(places.home, exact, chosen.only, items=chosen.items, roots=places.roots, layout=layout)
    plan.kept = chosen.kept
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_filling(places.home))
        trees = [StillTree(root.base) for root in places.roots]
        for tree in trees:
            stack.callback(tree.close)
        _leave_damaged(plan, trees, damaged)
        vacant = [_is_vacant(tree, root.name) for tree, root in zip(trees, places.roots, strict=True)]
        for item in chosen.items.values():
            _judge(plan, item, trees[item.root], places, layout, vacant[item.root])
        if exact:
            plan.removals = find_removals(
                places.home, layout, chosen, lambda path: _stays(plan, path) or spare(path)
            )
            plan.remove = list(plan.removals.files)
            for path in plan.remove:
                _note_holders(plan, trees[0], f"{places.roots[0].name}/{path}", path)
        marks = tombstones(places.home, layout, chosen)
        plan.removals.files += [path for path in marks if path not in plan.removals.files]
        plan.remove = sorted({*plan.remove, *marks, *_in_the_way(chosen, places, trees[0], vacant[0])})
    for listing in (
        plan.create,
        plan.replace,
        plan.compared,
        plan.same,
        plan.kept,
        plan.damaged,
        plan.closed,
        plan.outside,
        plan.executable,
    ):
        listing.sort()
    plan.links = sorted(set(plan.links))
    plan.mounts = _mounts_in_the_way(plan, places)
    plan.free = free_bytes(existing(places.home))
    return plan


def existing(path: str) -> str:
    """The directory itself, or the nearest one above it that is there."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _mounts_in_the_way(plan: LandingPlan, places: Places) -> list[str]:
    """Files to be replaced or removed with a mount on them. Databases in use are restored in place."""
    mounts = mount_points()
    held = {path for path, _ in plan.held}
    found = [places.outside(0, f"{places.roots[0].name}/{path}") for path in plan.remove]
    for path in plan.replace:
        if path not in held:
            found.append(places.outside(plan.items[path].root, plan.items[path].place))
    return sorted(place for place in found if place in mounts)


def _is_vacant(tree: LandingTree, name: str) -> bool:
    """Whether nothing is there yet, so that no single file has to be looked for."""
    try:
        found = tree.look(name)
        return found is None or (stat.S_ISDIR(found.st_mode) and not os.listdir(tree.full(name)))
    except (OSError, LandingThroughLink):
        return False  # each entry will tell


def _in_the_way(chosen: Chosen, places: Places, tree: LandingTree, vacant: bool) -> Iterator[str]:
    """Files of the home that stand where a directory is needed: they are moved out of it, and kept."""
    if vacant:
        return
    home, seen = places.roots[0].name, set()
    for item in chosen.items.values():
        place = item.place if item.kind is Kind.DIRECTORY else os.path.dirname(item.place)
        while item.root == 0 and place not in seen and place.startswith(f"{home}/"):
            seen.add(place)
            with contextlib.suppress(LandingThroughLink):  # that is refused for the link
                now = tree.look(place)
                if now is not None and not stat.S_ISDIR(now.st_mode) and not stat.S_ISLNK(now.st_mode):
                    yield place[len(home) + 1 :]
            place = os.path.dirname(place)


def _leave_damaged(plan: LandingPlan, trees: Sequence[LandingTree], damaged: Collection[str]) -> None:
    """Take what is damaged off the plan where the home has something: anything there may be better."""
    for path in damaged:
        item = plan.items.get(path)
        if item is None or item.kind is not Kind.FILE:
            continue
        try:
            there = trees[item.root].look(item.place) is not None
        except LandingThroughLink:
            continue  # refused for the link
        if there:
            plan.damaged.append(path)
            for name in (path, *(path + suffix for suffix in SIDECARS)):
                plan.items.pop(name, None)


def _stays(plan: LandingPlan, path: str) -> bool:
    return (database_of(path) or path) in plan.damaged


def _judge(
    plan: LandingPlan, item: Item, tree: LandingTree, places: Places, layout: Layout, vacant: bool = False
) -> None:
    """What would become of one entry."""
    try:
        now = None if vacant else tree.look(item.place)
    except LandingThroughLink:
        plan.links.append(tree.full(tree.link_in_the_way(item.place)))
        return
    if item.kind is Kind.DIRECTORY:
        if now is not None and item.crosses_link(now):
            plan.links.append(tree.full(item.place))
        return
    plan.bytes += item.size
    # An index that is rebuilt may take more room than the one that was left out.
    room = -(-(max(0, item.size - item.holes) + item.left_out // 4) // _BLOCK) * _BLOCK
    if item.sidecar and database_of(item.path) in plan.items:
        plan.needed += room
        return  # folded into its database, which is listed itself
    # One that is rebuilt is never known to be there: what is stored of it lacks its indexes.
    if now is not None and item.looks_like(now) and not item.left_out:
        unchanged = already_there(tree, item) if item.comparable else None
        if unchanged is not None:
            plan.unchanged[item.path] = unchanged
        if unchanged is not None or not item.comparable:
            plan.needed += 0 if unchanged is not None else room
            plan.same.append(item.path)
            return
    plan.needed += room
    (plan.create if now is None else plan.replace).append(item.path)
    if item.kind is Kind.FILE and not item.left_out and _bytes_of(now) > item.size:
        plan.shorter[item.path] = _bytes_of(now)
    if item.closed and (now is None or now.st_mode & 0o077):  # what is closed already is no news
        plan.closed.append(item.path)
    if item.root:
        plan.outside.append(places.outside(item.root, item.place))
    if item.kind is Kind.FILE and layout.executable(item.path, item.mode):
        plan.executable.append(item.path)
    if now is not None:
        held = len(plan.held)
        plan.needed += _note_holders(plan, tree, item.place, item.path)
        if item.left_out and item.was_kept(now) and len(plan.held) == held:
            plan.compared.append(item.path)


def _bytes_of(now: os.stat_result | None) -> int:
    return now.st_size if now is not None and stat.S_ISREG(now.st_mode) else 0


def _note_holders(plan: LandingPlan, tree: LandingTree, place: str, path: str) -> int:
    """Add who has the target's database open; returns the room that keeping a copy of it needs."""
    facts = tree.look(place)
    if facts is None or not is_database_file(tree, place, facts):
        return 0
    holders = who_holds(tree.full(place))
    if holders:
        plan.held.append((path, describe(holders)))
    return facts.st_size if holders else 0
