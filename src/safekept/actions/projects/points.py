"""One way to name a point, and to list, compare, go back to and undo it: for every face.

A point is a checkpoint of a project, in the checkpoint store, or a home point, in the vault. Which of them a
word means is decided here and nowhere else. A number means a checkpoint wherever a project is; only in an
agent's home, outside every project, it counts the points of that home. An id means whatever has it. What
needs nothing from the vault does not open it, and does not even load what could: a vault on a server that
does not answer stops no rollback of a project.

One `Points` serves one command: the store is opened once, at the first need, and closed at the end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from safekept.checkpoints.checkpoint import SHORTEST_PREFIX, Checkpoint, is_checkpoint_id
from safekept.checkpoints.store import Store
from safekept.checkpoints.take import TakeSettings
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..base.own_places import within
from .home_points.point import HomePoint, may_be_point
from .project import checkpoint_directory, find_project, need_project

if TYPE_CHECKING:
    from safekept.checkpoints.rollback import RollbackPlan

    from .difference import PointDifference
    from .timeline import EveryPoint, Timeline
    from .turns.turn import Turn
    from .turns.work import Workplace

CHECKPOINT, HOME, TURN = "checkpoint", "home", "turn"


@dataclass(frozen=True, slots=True)
class Target:
    """What a word means: whose point it is, and by what it is found there."""

    kind: str  # CHECKPOINT, HOME or TURN
    place: str  # the project, or the agent's home; of a turn: none
    id: str  # of a checkpoint the word as it was given; of an undo in a home, or of a turn: the operation
    turn: Turn | None = None


class PointRollback(Protocol):
    """What going back, or taking that back, did or would do; the same for both kinds of points."""

    @property
    def operation(self) -> str: ...
    @property
    def point(self) -> Checkpoint | HomePoint | Turn: ...
    @property
    def planned(self) -> bool:
        """Whether nothing was done, and this is what would be."""
        ...

    @property
    def undoes(self) -> bool:
        """Whether it takes an earlier rollback back."""
        ...

    @property
    def changed(self) -> bool:
        """Whether anything differs at all."""
        ...

    @property
    def complete(self) -> bool: ...
    @property
    def steps(self) -> Sequence[tuple[str, str]]:
        """Each path that is changed, and how: a key of `checkpoints.points.ACTIONS`."""
        ...

    @property
    def stays(self) -> Sequence[tuple[str, str]]:
        """Each path that differs and stays as it is, and why."""
        ...

    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def plan_document(self) -> dict[str, object]: ...
    def as_dict(self) -> dict[str, object]: ...


class WholeRepositoryOnly(SafekeptError):
    code = "whole-repository-only"


#: Is shown the plan before anything is changed, and raises where it is not what was agreed to.
Agreed = Callable[[PointRollback], None]


def names_a_point(word: str) -> bool:
    """Whether a word can mean a point at all; else it is the name of a file."""
    word = word.strip().lower()
    return word.isdecimal() or is_checkpoint_id(word, SHORTEST_PREFIX) or may_be_point(word)


class Points:
    """The points that can be gone back to from one directory."""

    def __init__(
        self,
        context: UserContext,
        directory: str,
        *,
        settings: TakeSettings | None = None,
        session: str = "",
        deadline: float = 30.0,
        keep_days: float = 14.0,
        listener: Listener = silent,
    ) -> None:
        self.context, self.directory = context, directory
        self._settings, self._session, self._listener = settings, session, listener
        self._deadline, self._keep_days = deadline, keep_days
        self._opened: Store | None = None

    def __enter__(self) -> Points:
        return self

    def __exit__(self, *_: object) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # ── which one is meant ─────────────────────────────────────────────────────────────────────────

    def resolve(self, word: str = "") -> Target:
        """What a number, an id or the start of one means here; nothing means the last change.

        Raises NoCheckpointsHere where there is neither a project nor a home; that a project has no such
        checkpoint is reported when the target is used.
        """
        word = word.strip() or "1"
        number = word.isascii() and word.isdigit() and len(word) < SHORTEST_PREFIX
        project = self.project
        if project and (number or not may_be_point(word) or self._has_checkpoint(project, word)):
            return Target(CHECKPOINT, project, word)
        if number:
            from .home_points.timeline import home_around, point_by_number

            if home := home_around(self.context, self.directory):
                return Target(HOME, home, point_by_number(self.context, home, int(word)).id)
        elif may_be_point(word):
            from .home_points.stored import find_point

            if point := find_point(self.context, word):
                return Target(HOME, point.home, point.id)
        return Target(CHECKPOINT, self.need_project(), word)

    def need_project(self) -> str:
        """The project with checkpoints that the directory means. Raises NoCheckpointsHere."""
        return self.project or need_project(self._looked, self.directory, self.context)

    @property
    def project(self) -> str:
        """The project with checkpoints that the directory means; empty where there is none."""
        return find_project(self._looked, self.directory, self.context) or ""

    def _has_checkpoint(self, project: str, word: str) -> bool:
        return any(point.id.startswith(word.lower()) for point in self._store.checkpoints(project))

    @property
    def _looked(self) -> Store | None:
        """The store where there is one: none is made only to look."""
        there = self._opened is not None or os.path.isdir(checkpoint_directory(self.context))
        return self._store if there else None

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store.open(checkpoint_directory(self.context), listener=self._listener)
        return self._opened

    def turn(self, word: str = "", session: str = "") -> Target:
        """The turn of an agent that a word means, wherever it worked; nothing means the one that changed
        something here last. Raises NoSuchTurn, and NoCheckpointsHere where neither project nor home is."""
        from .home_points.timeline import home_points
        from .turns.turn import named_turn, newest_turn, turns_among, turns_of_store, with_words

        newest = None
        if not word.strip():
            found = self.list(session=session)
            if found.project is None and found.home is None:
                self.need_project()
            newest = newest_turn(found)
        at_homes = home_points(self.context, session=session)
        points = [one for one in turns_of_store(self._looked) if not session or one.session == session]
        every = turns_among([*points, *at_homes])
        if newest is None:
            meant = named_turn(every, word)
        else:  # with every place that it worked in
            meant = next((one for one in every if one.id == newest.id), newest)
        return Target(TURN, "", "", with_words(self.context, [meant])[0])

    # ── lists and differences ──────────────────────────────────────────────────────────────────────

    def list(
        self,
        *,
        session: str = "",
        turn: str = "",
        every: bool = False,
        git: bool = False,
        words: bool = False,
    ) -> Timeline:
        """What can be gone back to from here. A rollback that was killed is finished first.

        `git`: what only moved the project's repository has a number, too. `words`: with what the person said,
        for that person alone.
        """
        from safekept.checkpoints.rollback import recover

        from .timeline import timeline, with_home_points

        self.recover_turns()
        if project := self.project:
            with contextlib.suppress(SafekeptError):
                recover(self._store, project, settings=self._settings, listener=self._listener)
        found = timeline(
            self._looked,
            self.directory,
            self.context,
            settings=self._settings,
            session=session,
            turn=turn,
            every=every,
            git=git,
            listener=self._listener,
        )
        found = with_home_points(self.context, found, session=session, turn=turn, every=every)
        if words:
            from .turns.turn import with_words

            named = with_words(self.context, found.turns)
            found.words = {one.id: one.words for one in named if one.words}
        return found

    def everywhere(self, *, session: str = "", turn: str = "", every: bool = False) -> EveryPoint:
        """The points of all projects and homes in one list."""
        from .timeline import every_point

        return every_point(self._looked, self.context, session=session, turn=turn, every=every)

    def diff(self, target: Target, files: Sequence[str] = ()) -> PointDifference:
        """What changed since a point, as text."""
        if target.kind == HOME:
            from .home_points.opened import home_difference

            return home_difference(self.context, target.id, files, self.directory, self._listener)
        from .difference import project_difference
        from .hidden.difference import with_hidden

        found = project_difference(
            self._store,
            target.place,
            target.id,
            files,
            directory=self.directory,
            settings=self._settings,
        )
        if self._settings is None:
            return found
        return with_hidden(self.context, self._store, found, self._settings)

    # ── going back ─────────────────────────────────────────────────────────────────────────────────

    def plan(
        self,
        target: Target,
        files: Sequence[str] = (),
        *,
        overwrite_mine: bool = False,
        git: bool = False,
    ) -> PointRollback:
        """What going back would do; nothing is changed."""
        return self._go(target, files, overwrite_mine, git=git, dry_run=True)

    def apply(
        self,
        target: Target,
        files: Sequence[str] = (),
        *,
        overwrite_mine: bool = False,
        git: bool = False,
        agreed: Agreed | None = None,
    ) -> PointRollback:
        """Go back. What is replaced is kept, and `undo` brings it back. `git`: the repository, too."""
        return self._go(target, files, overwrite_mine, git=git, agreed=agreed)

    def _go(
        self,
        target: Target,
        files: Sequence[str],
        overwrite_mine: bool,
        *,
        git: bool = False,
        dry_run: bool = False,
        agreed: Agreed | None = None,
    ) -> PointRollback:
        if git and (files or target.kind != CHECKPOINT):
            raise WholeRepositoryOnly(
                "A git repository goes back as a whole: not with single files, a turn or a home point",
                kept="Nothing was changed",
                next_steps=("Ask for one of the two at a time.",),
            )
        self.recover_turns()
        if target.turn is not None:
            from .turns.rollback import plan_turn, take_turn_back

            if dry_run:
                return plan_turn(self._work, target.turn, overwrite_mine=overwrite_mine)
            return take_turn_back(self._work, target.turn, overwrite_mine=overwrite_mine, agreed=agreed)
        if target.kind == HOME:
            from .home_points.rollback import HomeRollbackRequest, roll_back_home

            request = HomeRollbackRequest(
                target.id,
                tuple(files),
                self.directory,
                dry_run,
                self._session,
                self._deadline,
                self._keep_days,
                agreed=agreed,
            )
            return roll_back_home(self.context, request, self._listener)
        return self._in_project(target, tuple(files), overwrite_mine, False, dry_run, agreed, git)

    # ── taking it back ─────────────────────────────────────────────────────────────────────────────

    def called(self, operation: str) -> Target:
        """The rollback with this id of the journal, wherever it was. Raises NothingToUndo."""
        from safekept.home.landing import NothingToUndo

        from ..undo.changes import ROLLBACK, changes
        from ..undo.changes import TURN as ONE_TURN
        from ..undo.undo import named_change

        rollbacks = (ROLLBACK, ONE_TURN)
        known = [one for one in changes(self.context) if one.kind in rollbacks or one.landed.home_point]
        change = named_change(known, operation)
        if change is None:
            raise NothingToUndo(
                f"There is no rollback called `{operation}`",
                kept="Nothing was changed",
                next_steps=(NextStep("log", before="See what was done, with ids:"),),
            )
        if change.kind == ROLLBACK:
            return Target(CHECKPOINT, change.project, change.point)
        return Target(TURN if change.kind == ONE_TURN else HOME, change.home, change.operation)

    def last_rollback(self) -> Target:
        """What `undo` takes back here: the last rollback of the project, or of a home point.

        One of a home counts where it was asked for, and in the home itself; in a project only if it is newer
        than the last rollback of the project.
        """
        from ..base.operations.homes import RestoreFacts

        with contextlib.suppress(OSError):
            from .turns import any_records

            restores = self.context.journal.backwards("restore")
            of_turns = any_records(self.context)
            if of_turns or any(RestoreFacts.read(one).home_point for one in restores):
                from ..undo.changes import LANDING, ROLLBACK, changes
                from ..undo.changes import TURN as ONE_TURN

                place = os.path.realpath(self.directory)
                standing = [one for one in changes(self.context) if one.open]
                of_home = [
                    one
                    for one in standing
                    if one.kind == LANDING
                    and one.landed.home_point
                    and (within(place, one.home) or _asked_in(one.landed.directory) == place)
                ]
                own = [one for one in standing if one.kind == ROLLBACK and within(place, one.project)]
                whole = [
                    one
                    for one in standing
                    if one.kind == ONE_TURN and any(within(place, where) for where in one.places)
                ]
                last = max([*of_home, *whole], key=lambda one: one.time, default=None)
                if last is not None and not any(one.time > last.time for one in own):
                    kind = TURN if last.kind == ONE_TURN else HOME
                    return Target(kind, last.home, last.operation)
        return Target(CHECKPOINT, self.need_project(), "")

    def undo(
        self,
        target: Target | None = None,
        *,
        overwrite_mine: bool = False,
        dry_run: bool = False,
        agreed: Agreed | None = None,
    ) -> PointRollback:
        """Take a rollback back, by default the last one here; in a project also by its undo point."""
        self.recover_turns()
        target = target or self.last_rollback()
        if target.kind != CHECKPOINT:
            from ..undo.undo import Undone, UndoRequest, take_back
            from .home_points.rollback import HomeRollbackUndone

            def shown(undone: Undone) -> None:
                if agreed is not None:
                    agreed(undone.turn or HomeRollbackUndone(undone))

            request = UndoRequest(
                operation=target.id,
                dry_run=dry_run,
                deadline=self._deadline,
                keep_days=self._keep_days,
                settings=self._settings,
                overwrite_mine=overwrite_mine,
                agreed=shown if agreed is not None else None,
            )
            undone = take_back(self.context, request, self._listener)
            return undone.turn or HomeRollbackUndone(undone)
        return self._in_project(target, (), overwrite_mine, True, dry_run, agreed)

    def _in_project(
        self,
        target: Target,
        files: tuple[str, ...],
        overwrite_mine: bool,
        undo: bool,
        dry_run: bool,
        agreed: Agreed | None,
        git: bool = False,
    ) -> PointRollback:
        from .rollback import RollbackOutcome, RollbackRequest, rollback_in

        def shown(plan: RollbackPlan) -> None:
            if agreed is not None:
                agreed(RollbackOutcome("", plan, None, undo))

        request = RollbackRequest(
            directory=self.directory,
            target=target.id,
            files=files,
            overwrite_mine=overwrite_mine,
            undo=undo,
            git=git,
            dry_run=dry_run,
            session=self._session,
            settings=self._settings,
            agreed=shown,
        )
        return rollback_in(self.context, self._store, target.place, request, self._listener)

    def recover_turns(self) -> None:
        """Finish the rollback of a turn that was killed."""
        from .turns import any_records

        if any_records(self.context):
            from .turns.rollback import recover_turns

            recover_turns(self._work)

    @property
    def _work(self) -> Workplace:
        from .turns.work import Workplace

        return Workplace(
            self.context,
            lambda: self._store,
            self._settings,
            self.directory,
            self._session,
            self._deadline,
            self._keep_days,
            self._listener,
        )


def _asked_in(directory: object) -> str:
    return os.path.realpath(str(directory)) if directory else ""
