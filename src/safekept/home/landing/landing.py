"""The landing: stage, prove, swap in, keep what was replaced.

Until the swap begins the home is not touched. From then on, until the record is marked landed, any
failure, Ctrl-C included, takes everything back at once; a kill is made right by the next command.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Container
from dataclasses import field

from safekept.core.entries import Kind, Outcome, Remark, Source
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, Listener, silent
from safekept.core.files import NoRoom, free_bytes
from safekept.core.next_step import NextStep
from safekept.core.platform.syncing import sync_filesystem
from safekept.core.records import dataclass

from .area import INTENT, LANDED, Area, LandingDirectory, not_permitted, open_area, place_of
from .desired_state import Builder, DesiredState, Steps, Unchanged, Wanted
from .disk_names import OtherSpellings, left_by_disk
from .landing_trees import LandingTrees
from .plan import SPARE, LandingPlan, existing
from .record import AWAY, LandingRecord, Root, write_record
from .recovery import clear_away, settle
from .search import SearchNote
from .stage.proving import leave_out, prove, prover
from .stage.rebuilding import rebuild_lean
from .stage.staging import Staging, stage
from .swap.swap import swap
from .swap.takeback import take_back
from .tree import LandingTree, through_link


class LandingFailed(SafekeptError):
    code = "landing-failed"


@dataclass(frozen=True, slots=True)
class Landed:
    """What a landing did."""

    operation: str
    home: str
    created: int
    replaced: int
    removed: int
    same: int
    kept: int
    bytes: int
    seconds: float
    replaced_in: str  # where what was replaced is kept
    undoes: str = ""
    remarks: list[Remark] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            "home": self.home,
            "created": self.created,
            "replaced": self.replaced,
            "removed": self.removed,
            "same": self.same,
            "kept": self.kept,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "replaced_in": self.replaced_in,
            "undoes": self.undoes,
            "remarks": [remark.as_dict() for remark in self.remarks],
            "timings": {name: round(value, 3) for name, value in self.timings.items()},
        }


def land(
    source: Source,
    plan: LandingPlan,
    *,
    operation: str,
    deadline: float = 30.0,
    allow_damaged: bool = False,
    leave_lost: bool = False,
    without_search: bool = False,
    search_behind: bool = False,
    listener: Listener = silent,
) -> Landed:
    """Put a source on disk as planned. Raises with the home as it was, or returns with it as new.

    With `leave_lost`, files that the source cannot give (damage in a vault) stay as they are in the
    home, each with a remark; without it they stop the landing. With `without_search`, indexes that a
    lean capture left out stay empty. With `search_behind`, those that take long may stay empty for now:
    `unfilled` of this home names them, and the caller sees to it that they are filled.
    """
    if plan.links:
        raise through_link(plan.links)
    if plan.owners is not None:
        return plan.owners.land(
            source,
            listener,
            operation=operation,
            deadline=deadline,
            allow_damaged=allow_damaged,
            leave_lost=leave_lost,
            without_search=without_search,
        )
    work = Work(plan.home, operation, deadline, listener)

    def fill(directory: LandingDirectory) -> tuple[DesiredState, Staging]:
        _check_room(plan)
        left = left_by_disk(plan.items.values(), directory.path)
        work.clock("stage")
        staging = stage(source, plan, directory.staged, listener, prover(plan.items, listener))
        if any(staged.lean is not None for staged in staging.things.values()):
            work.clock("rebuild")
            rebuild_lean(staging, plan.layout, without_search, search_behind, listener)
            if staging.unfilled:
                SearchNote(directory, tuple(staging.unfilled)).write()
        work.clock("prove")
        listener(Event("prove"))
        prove(staging, plan, allow_damaged, leave_lost, listener)
        for path, why in sorted(left.items()):
            leave_out(staging, path)
            staging.same.pop(path, None)
            staging.remarks.append(Remark(path, Outcome.UNREADABLE, why))
        return _desired_state(plan, staging, left.keys()), staging

    return work.run(plan.roots, fill, kept=len(plan.kept), wanted_bytes=plan.bytes)


class Work:
    """The frame around every landing: lock, recovery, staging, swap, and the way back."""

    def __init__(self, home: str, operation: str, deadline: float, listener: Listener) -> None:
        self.home, self.operation, self.deadline, self.listener = home, operation, deadline, listener
        self.timings: dict[str, float] = {}
        self.started = time.monotonic()
        self._last: tuple[str, float] = ("", self.started)

    def clock(self, phase: str) -> None:
        now = time.monotonic()
        if self._last[0]:
            self.timings[self._last[0]] = self.timings.get(self._last[0], 0.0) + now - self._last[1]
        self._last = (phase, now)

    def run(
        self,
        roots: list[Root],
        fill: Callable[[LandingDirectory], tuple[DesiredState, Staging | None]],
        *,
        kept: int = 0,
        wanted_bytes: int = 0,
        verb: str = "land",
        undoes: LandingDirectory | None = None,
    ) -> Landed:
        """`fill` stages and proves; the rest is the same for a landing and for an undo."""
        try:
            area = open_area(self.home)
            with area.lock("import" if verb == "land" else verb):
                return self._locked(area, roots, fill, kept, wanted_bytes, verb, undoes)
        except OSError as error:
            raise self._typed(error) from error

    def _locked(
        self,
        area: Area,
        roots: list[Root],
        fill: Callable[[LandingDirectory], tuple[DesiredState, Staging | None]],
        kept: int,
        wanted_bytes: int,
        verb: str,
        undoes: LandingDirectory | None,
    ) -> Landed:
        settle(area, self.home)
        directory = area.begin(self.operation)
        try:
            desired, staging = fill(directory)
            self.clock("sync")
            sync_filesystem(directory.path)
            self.clock("swap")
            with LandingTrees(directory, roots) as trees:
                steps = Builder(trees, desired).build()
                if verb == "land" and not steps.steps and not steps.finish:
                    return self._nothing_to_do(directory, steps, kept, wanted_bytes, staging)
                record = LandingRecord(
                    self.operation,
                    self.home,
                    verb,
                    undoes.operation if undoes is not None else "",
                    time.time(),
                    os.getpid(),
                    roots,
                    steps.directories,
                    steps.steps,
                )
                write_record(os.path.join(directory.path, INTENT), record)
                swap(trees, record, steps, self.deadline, self.listener)
                landed = self._landed(trees, record, steps, kept, wanted_bytes, staging)
        except BaseException:
            self._abandon(directory)
            raise
        directory.sweep("staged")
        if undoes is not None:
            # Its files are the home's own again; what the undo replaced is kept by the undo.
            undoes.sweep("replaced")
        self.clock("")
        return landed

    def _nothing_to_do(
        self, directory: LandingDirectory, steps: Steps, kept: int, wanted_bytes: int, staging: Staging | None
    ) -> Landed:
        """Everything is there already. No record is left: an undo is for what was really done."""
        directory.sweep()
        return Landed(
            operation=self.operation,
            home=self.home,
            created=0,
            replaced=0,
            removed=0,
            same=steps.same,
            kept=kept,
            bytes=wanted_bytes,
            seconds=time.monotonic() - self.started,
            replaced_in="",
            remarks=list(staging.remarks) if staging is not None else [],
            timings=self.timings,
        )

    def _abandon(self, directory: LandingDirectory) -> None:
        """Take back what was begun. One that is already marked landed stays: the home is the new one."""
        state = directory.state
        if state == LANDED:
            directory.sweep("staged")
            return
        if state == INTENT:
            take_back(directory, self.deadline)
        clear_away(directory)

    def _landed(
        self,
        trees: LandingTrees,
        record: LandingRecord,
        steps: Steps,
        kept: int,
        wanted_bytes: int,
        staging: Staging | None,
    ) -> Landed:
        puts = [step for step in record.steps if step.staged]
        taken = {(step.root, step.path) for step in record.steps if step.do == AWAY}
        replaced = sum(step.had or (step.root, step.path) in taken for step in puts)
        put_places = {(step.root, step.path) for step in puts}
        self.clock("clean")
        return Landed(
            operation=self.operation,
            home=self.home,
            created=len(puts) - replaced,
            replaced=replaced,
            removed=len(taken - put_places),
            same=steps.same,
            kept=kept,
            bytes=wanted_bytes,
            seconds=time.monotonic() - self.started,
            replaced_in=trees.directory.replaced,
            undoes=record.undoes,
            remarks=[*(staging.remarks if staging is not None else ()), *steps.remarks],
            timings=self.timings,
        )

    def _typed(self, error: OSError) -> SafekeptError:
        kept = "The home is as it was"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return no_room(self.home, 0, free_bytes(existing(self.home)))
        refused = not_permitted(error, self.home, kept)
        if refused is not None:
            return refused
        where = place_of(error, self.home)
        return LandingFailed(
            f"`{where}`: {error.strerror or error}",
            kept=kept,
            next_steps=("Look at the cause, then run the command again",),
            path=where,
        )


def no_room(home: str, needed: int, free: int) -> NoRoom:
    """The one text for a full disk, met before or while staging."""
    sizes = f": {needed:,} bytes are needed, {free:,} are free" if needed else f": {free:,} bytes are free"
    return NoRoom(
        f"There is not enough room beside `{home}`{sizes}",
        kept="The home is as it was; what was staged has been removed",
        next_steps=(
            "Make room on that disk, then run the command again",
            NextStep("import", ("FILE", "--into", "DIR"), before="Or restore onto another disk:"),
        ),
        needed=needed,
        free=free,
    )


def _check_room(plan: LandingPlan) -> None:
    free = free_bytes(existing(plan.home))
    if plan.needed + SPARE > free:
        raise no_room(plan.home, plan.needed + SPARE, free)


def _desired_state(plan: LandingPlan, staging: Staging, left: Container[str]) -> DesiredState:
    desired = DesiredState()
    if plan.layout is not None:
        desired.machine_bound = plan.layout.machine_bound
    desired.directories[0, plan.roots[0].name] = None
    with contextlib.ExitStack() as stack:
        trees = [stack.enter_context(LandingTree(root.base)) for root in plan.roots]
        for item in plan.items.values():
            if item.kind is not Kind.DIRECTORY or item.path in left:
                continue
            if item.leading:
                now = trees[item.root].look(item.place)
                if now is not None and stat.S_ISDIR(now.st_mode):
                    continue
            desired.directories[item.root, item.place] = (item.mode, item.mtime_ns)
    for staged in staging.things.values():
        item = staged.item
        desired.puts.append(Wanted(item.root, item.place, item.path, staged.name, staged.database))
    for path, facts in staging.same.items():
        item = plan.items[path]
        desired.same.append(Unchanged(item.root, item.place, path, facts))
    name = plan.roots[0].name
    # Another spelling of what lands: by any list of removals that would be the file that was just put there.
    spellings = OtherSpellings(plan.home, plan.items)
    going = [path for path in plan.removals.files if not spellings.of(path)]
    desired.aways = [(0, f"{name}/{path}", path) for path in going]
    desired.gone_directories = [(0, f"{name}/{path}") for path in plan.removals.directories]
    return desired
