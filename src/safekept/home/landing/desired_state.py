"""What a landing or an undo wants to be true afterwards, and the steps that lead there from now.

The steps are made by looking at the target at the last moment, not from the plan that a person
agreed to some time ago: the journal must say what is really there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import field

from safekept.core.entries import Remark
from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass
from safekept.core.sqlite import SIDECARS

from .landing_trees import LandingTrees
from .record import AWAY, IN_PLACE, MAKE, PUT, UNMAKE, DirectoryBefore, Step
from .stage.comparing import same_content, untouched
from .swap.open_databases import (
    is_database_file,
    mount_points,
    mounted_at,
    refuse_held,
    refuse_mount,
    who_holds,
    why_not_in_place,
)
from .tree import LandingTree, through_link

Place = tuple[int, str]


class MachineBoundInTheWay(SafekeptError):
    code = "machine-bound-in-the-way"


class HomeChanged(SafekeptError):
    code, retry = "home-changed", True


def home_changed(path: str, what: str, kept: str = "The home is as it was") -> HomeChanged:
    """Another program was at work in the home at the same time."""
    return HomeChanged(
        f"`{path}` {what}",
        kept=kept,
        next_steps=("Run the command again; stop the agent first if it happens again",),
        path=path,
    )


@dataclass(slots=True)
class Wanted:
    """A staged thing and the name it shall have; not frozen, because there are tens of thousands."""

    root: int
    path: str
    entry: str
    staged: str
    database: bool = False


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A file of the home that was found to be the same, byte for byte, and must still be when it counts."""

    root: int
    path: str
    entry: str
    facts: os.stat_result


@dataclass(slots=True)
class DesiredState:
    """Everything that shall be true."""

    puts: list[Wanted] = field(default_factory=list)
    aways: list[tuple[int, str, str]] = field(default_factory=list)  # root, path, name for people
    directories: dict[Place, tuple[int, int] | None] = field(default_factory=dict)  # mode and time, if known
    gone_directories: list[Place] = field(default_factory=list)  # removed where they end up empty
    same: list[Unchanged] = field(default_factory=list)
    machine_bound: Callable[[str], bool] = lambda path: False


@dataclass(slots=True)
class Steps:
    """The steps from now to the desired state."""

    steps: list[Step] = field(default_factory=list)
    directories: list[DirectoryBefore] = field(default_factory=list)
    finish: dict[Place, tuple[int, int | None]] = field(default_factory=dict)  # set at the very end
    same: int = 0
    remarks: list[Remark] = field(default_factory=list)  # made while the steps were taken


class Builder:
    """Turns a desired state into steps, in the order in which they must be taken."""

    def __init__(self, trees: LandingTrees, desired: DesiredState) -> None:
        self.trees, self.desired = trees, desired
        self.out = Steps()
        self._away: dict[Place, str] = {}
        self._make: dict[Place, bool] = {}
        self._touched: set[Place] = set()
        self._puts: list[Step] = []
        self._pours: list[Step] = []
        self._aways: list[Step] = []
        #: Directories that were seen to be there, so that they are not asked about for every file in them.
        self._there: set[Place] = set()
        bases = tuple(root.base.rstrip("/") + "/" for root in trees.roots)
        self._mounts = [place for place in mount_points() if place.startswith(bases)]

    def build(self) -> Steps:
        for unchanged in self.desired.same:
            self._still_the_same(unchanged)
        for root, path, entry in self.desired.aways:
            facts = self._look((root, path))
            if facts is not None and stat.S_ISLNK(facts.st_mode):
                # Before a directory is asked for in its place: nothing is written through a link.
                self._take_away((root, path), entry)
        for place in sorted(self.desired.directories):
            self._directory(place)
        for wanted in sorted(self.desired.puts, key=lambda wanted: (wanted.root, wanted.path)):
            self._put(wanted)
        for root, path, entry in self.desired.aways:
            self._take_away((root, path), entry)
        makes = [self._step(MAKE, place, place[1]) for place in sorted(self._make)]
        unmakes = [
            self._step(UNMAKE, place, place[1])
            for place in sorted(self.desired.gone_directories, reverse=True)
            if self._is_directory(place) and not self._below_moved(place)
        ]
        # What is in the way goes first; databases in use come last, since taking them back is not free.
        self.out.steps = [*self._aways, *makes, *self._puts, *unmakes, *self._pours]
        for number, step in enumerate(self.out.steps):
            step.number = number
        self._remember_directories()
        return self.out

    def _still_the_same(self, unchanged: Unchanged) -> None:
        if not untouched(self._look((unchanged.root, unchanged.path)), unchanged.facts):
            raise home_changed(unchanged.entry, "was changed while the landing was being prepared")
        self.out.same += 1

    def _directory(self, place: Place) -> None:
        facts = self._look(place)
        if facts is not None and stat.S_ISLNK(facts.st_mode):
            raise through_link([self.trees.targets[place[0]].full(place[1])])
        known = self.desired.directories[place]
        if facts is None or not stat.S_ISDIR(facts.st_mode):
            self._ensure(place)
            self.out.finish[place] = known or (0o700, None)
        elif known is not None and known != (stat.S_IMODE(facts.st_mode), facts.st_mtime_ns):
            self.out.finish[place] = known
            self._touched.add(place)

    def _ensure(self, place: Place) -> None:
        """Make a directory and those above it; a file in the way is moved out of it."""
        root, path = place
        while path and (root, path) not in self._make and (root, path) not in self._there:
            facts = self._look((root, path))
            if facts is not None and stat.S_ISDIR(facts.st_mode):
                self._there.add((root, path))
                return
            if facts is not None and stat.S_ISLNK(facts.st_mode):
                raise through_link([self.trees.targets[root].full(path)])
            if facts is not None:
                self._take_away((root, path), path)
            self._make[root, path] = True
            self.out.finish.setdefault((root, path), (0o700, None))
            self._touch((root, path))
            path = path.rpartition("/")[0]

    def _put(self, wanted: Wanted) -> None:
        place = (wanted.root, wanted.path)
        parent = (wanted.root, wanted.path.rpartition("/")[0])
        self._ensure(parent)
        staged = self.trees.staged.look(wanted.staged)
        if staged is None:
            raise FileNotFoundError(wanted.staged)
        now = None if parent in self._make else self._look(place)
        tree = self.trees.targets[wanted.root]
        if now is not None and (stat.S_ISDIR(now.st_mode) or stat.S_ISDIR(staged.st_mode)):
            self._take_away(place, wanted.entry)
            now = None
        old_database = now is not None and is_database_file(tree, wanted.path, now)
        step = self._step(
            PUT,
            place,
            wanted.entry,
            had=now is not None,
            staged=wanted.staged,
            size=staged.st_size,
            mtime_ns=staged.st_mtime_ns,
            database=wanted.database or old_database,
            carries=tuple(s for s in SIDECARS if self.trees.staged.look(wanted.staged + s) is not None)
            if wanted.database
            else (),
        )
        if now is not None and old_database and (held := who_holds(tree.full(wanted.path))):
            if not wanted.database:
                raise refuse_held(wanted.entry, held, "what would replace it is not a database")
            step.do = IN_PLACE
            self._pours.append(step)
        elif now is not None and self._equal(tree, wanted, now, staged):
            self.out.same += 1
            return
        else:
            self._refuse_mount(place)
            if now is not None and wanted.database and (held := who_holds(tree.full(wanted.path))):
                raise refuse_held(wanted.entry, held, why_not_in_place(now))
            self._puts.append(step)
        self._touch(place)

    def _take_away(self, place: Place, entry: str) -> None:
        root, path = place
        if place in self._away or self._below_moved(place):
            return
        facts = self._look(place)
        if facts is None:
            return
        tree = self.trees.targets[root]
        database = is_database_file(tree, path, facts)
        if database and (held := who_holds(tree.full(path))):
            raise refuse_held(entry, held, "it cannot be taken away from under that program")
        self._refuse_mount(place)
        if stat.S_ISDIR(facts.st_mode):
            self._guard_directory(place)
        self._away[place] = entry
        self._there.clear()
        self._aways.append(self._step(AWAY, place, entry, had=True, database=database))
        self._touch(place)

    def _refuse_mount(self, place: Place) -> None:
        """What something is mounted on, or holds such a thing, cannot be renamed."""
        if self._mounts:
            mount = mounted_at(self.trees.targets[place[0]].full(place[1]), self._mounts)
            if mount:
                raise refuse_mount(mount)

    def _guard_directory(self, place: Place) -> None:
        """A directory that goes as a whole must hold nothing that has to stay."""
        root, path = place
        if root:
            return
        name = self.trees.roots[0].name
        top = self.trees.targets[0].full(path)
        for directory, _, names in os.walk(top):
            for file in names:
                full = os.path.join(directory, file)
                entry = full[len(self.trees.targets[0].full(name)) + 1 :]
                if self.desired.machine_bound(entry):
                    raise MachineBoundInTheWay(
                        f"`{entry}` belongs to this machine, and a file would replace the directory it is in",
                        kept="The home is as it was",
                        next_steps=("Move that directory away yourself, then run the command again",),
                        path=entry,
                    )

    def _equal(self, tree: LandingTree, wanted: Wanted, now: os.stat_result, staged: os.stat_result) -> bool:
        """Same kind, mode, time and bytes: nothing to do. A live log beside a database says no."""
        if (now.st_mode, now.st_size, now.st_mtime_ns) != (
            staged.st_mode,
            staged.st_size,
            staged.st_mtime_ns,
        ):
            return False
        if wanted.database and any(tree.look(wanted.path + suffix) is not None for suffix in SIDECARS):
            return False
        try:
            return same_content(self.trees.staged, wanted.staged, tree, wanted.path, now)
        except FileNotFoundError:
            return False  # gone since it was looked at

    def _look(self, place: Place) -> os.stat_result | None:
        """What is there, seen through what will have been moved away by then."""
        if place in self._away or self._below_moved(place):
            return None
        return self.trees.targets[place[0]].look(place[1])

    def _below_moved(self, place: Place) -> bool:
        root, path = place
        above = path.rpartition("/")[0]
        while above and self._away:
            if (root, above) in self._away:
                return True
            above = above.rpartition("/")[0]
        return False

    def _is_directory(self, place: Place) -> bool:
        facts = self._look(place)
        return facts is not None and stat.S_ISDIR(facts.st_mode)

    def _touch(self, place: Place) -> None:
        self._touched.add((place[0], place[1].rpartition("/")[0]))

    def _remember_directories(self) -> None:
        for step in self.out.steps:
            if step.do == UNMAKE:
                self._touched.add((step.root, step.path))
                self._touch((step.root, step.path))
        for root, path in sorted(self._touched):
            # A base is not ours to date, and what goes as a whole keeps its own facts.
            facts = self._look((root, path)) if path else None
            if facts is not None and stat.S_ISDIR(facts.st_mode):
                self.out.directories.append(
                    DirectoryBefore(root, path, stat.S_IMODE(facts.st_mode), facts.st_mtime_ns)
                )
                # It had its recorded time until now; landing in it changes that.
                known = self.desired.directories.get((root, path))
                if known is not None:
                    self.out.finish.setdefault((root, path), known)

    @staticmethod
    def _step(do: str, place: Place, entry: str, **facts: object) -> Step:
        return Step(0, do, place[0], place[1], entry, **facts)  # type: ignore[arg-type]
