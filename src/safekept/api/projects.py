"""Projects: checkpoints of one, going back to them, and keeping them while an agent of yours works."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from .here import Here, PathLike, any_text, here, text, texts, words
from .home_files import home_point_named, home_points_of, keep_home_files, roll_home_back
from .values import Diff, Missing, Point, Protected, RolledBack, Step

if TYPE_CHECKING:
    from safekept.actions.projects.rollback import RollbackOutcome
    from safekept.checkpoints.checkpoint import Checkpoint
    from safekept.checkpoints.checkpoints import Checkpoints as Door
    from safekept.checkpoints.take import Protection


class Checkpoints:
    """The checkpoints of the project around a directory; by default where the program stands.

    >>> checkpoints = safekept.Checkpoints(project)
    >>> point = checkpoints.take("before the refactoring")
    >>> _ = (project / "parser.py").write_text("broken")
    >>> [one.reason for one in checkpoints.list()]
    ['before the refactoring']
    >>> print(checkpoints.diff(point.id))
    --- a/parser.py
    +++ b/parser.py
    @@ -1 +1 @@
    -def parse(): ...
    +broken
    >>> checkpoints.rollback(point.id).complete
    True
    >>> (project / "parser.py").read_text()
    'def parse(): ...\\n'
    """

    def __init__(self, directory: PathLike | None = None) -> None:
        self.directory = os.path.abspath(text(directory) or os.getcwd())

    def take(self, reason: str = "", *, files: Iterable[PathLike] = ()) -> Point:
        """Keep the project as it is now; with `files` only those.

        >>> safekept.Checkpoints(project).take("by hand", files=["parser.py"]).kind
        'manual'
        """
        from safekept.actions.projects.checkpoint import take_checkpoint

        user = here()
        done = take_checkpoint(
            user.context,
            self.directory,
            user.policy,
            reason=reason,
            files=texts(files),
        )
        point = done.taken.checkpoint or done.taken.latest
        assert point is not None  # one that is asked for is always taken
        return _point(point)

    def list(self, *, session: str = "", turn: str = "", every: bool = False) -> list[Point]:
        """What can be gone back to, newest first; number 1 undoes the last change.

        `session` and `turn` narrow it to what an agent left there. `every` shows marks and undo points too.
        Points of the kind `home` hold files of an agent's home that were kept in the same time.

        >>> safekept.Checkpoints(project).list()
        []
        """
        from safekept.actions.projects.rollback import list_timeline

        user = here()
        found = list_timeline(
            user.context,
            self.directory,
            settings=user.policy.take,
            session=session,
            turn=turn,
            every=every,
        )
        points = [
            _point(row.checkpoint, row.number, row.changes.files if row.changes else None, row.damaged)
            for row in found.rows
        ]
        points += home_points_of(user, session, turn)
        return sorted(points, key=lambda one: one.time_ns, reverse=True)

    def diff(self, point: str | int = 1, *, files: Iterable[PathLike] = ()) -> Diff:
        """What changed since a checkpoint, by its number or id; as a unified diff.

        >>> checkpoints = safekept.Checkpoints(project)
        >>> point = checkpoints.take()
        >>> _ = (project / "new.py").write_text("x = 1")
        >>> checkpoints.diff().files
        ('new.py',)
        """
        from safekept.actions.projects.rollback import show_difference

        user = here()
        names = texts(files)
        found = show_difference(user.context, self.directory, str(point), names, settings=user.policy.take)
        paths = tuple(path for path, _, _ in found.pairs)
        return Diff(found.project, found.checkpoint.id, paths, "\n".join(found.lines))

    def rollback(
        self,
        point: str | int = 1,
        *,
        files: Iterable[PathLike] = (),
        overwrite_mine: bool = False,
        dry_run: bool = False,
    ) -> RolledBack:
        """Go back to a checkpoint, by its number or id; with `files` only those.

        Files that the user changed after the agent's last turn stay, unless `overwrite_mine`. With `dry_run`
        the answer is the plan. What is replaced is kept: `undo()` brings it back; after going back to a point
        of the kind `home`, `safekept.undo()` does.

        >>> checkpoints = safekept.Checkpoints(project)
        >>> point = checkpoints.take()
        >>> (project / "parser.py").unlink()
        >>> checkpoints.rollback(dry_run=True).steps[0]
        Step(path='parser.py', action='recreate')
        >>> checkpoints.rollback().done
        True
        """
        return self._roll_back(str(point), files, overwrite_mine, undo=False, dry_run=dry_run)

    def undo(self, *, overwrite_mine: bool = False, dry_run: bool = False) -> RolledBack:
        """Take the last rollback of this project back.

        >>> checkpoints = safekept.Checkpoints(project)
        >>> point = checkpoints.take()
        >>> _ = (project / "parser.py").write_text("better")
        >>> _ = checkpoints.rollback(point.id)
        >>> _ = checkpoints.undo()
        >>> (project / "parser.py").read_text()
        'better'
        """
        return self._roll_back("", (), overwrite_mine, undo=True, dry_run=dry_run)

    @contextmanager
    def turn(self, session: str, turn: str = "") -> Iterator[Turn]:
        """One turn of an agent: call `before` or `before_shell` on what this gives, before each change.

        A full pass is made before the first change of the turn; when the block ends, what the turn left
        behind is marked, so that later edits of the user are known as his. `before` and `before_shell` never
        raise: look at `complete` of what they return.

        >>> checkpoints = safekept.Checkpoints(project)
        >>> with checkpoints.turn("session-1", "turn-1") as turn:
        ...     kept = turn.before(["parser.py"], reason="before write_file")
        ...     _ = (project / "parser.py").write_text("broken")
        >>> kept.complete
        True
        >>> checkpoints.rollback(1).complete
        True
        """
        from safekept.actions.projects.project import checkpoint_directory, forbidden_roots
        from safekept.checkpoints.checkpoints import Checkpoints as Door

        user = here()
        policy = user.policy
        door = Door(
            checkpoint_directory(user.context),
            settings=policy.take,
            forbidden=forbidden_roots(user.context),
            maintenance=policy.maintenance,
        )
        turn = turn or f"{time.time_ns():x}"
        door.new_turn(session, turn)
        try:
            yield Turn(door, self.directory, user, session, turn)
        finally:
            door.after(wait=True)

    def _roll_back(
        self, target: str, files: Iterable[PathLike], overwrite_mine: bool, *, undo: bool, dry_run: bool
    ) -> RolledBack:
        from safekept.actions.projects.rollback import RollbackRequest, rollback

        user: Here = here()
        names = texts(files)
        if not undo and (point := home_point_named(user, self.directory, target)):
            return roll_home_back(point, names, self.directory, dry_run=dry_run)
        request = RollbackRequest(
            directory=self.directory,
            target=target,
            files=names,
            overwrite_mine=overwrite_mine,
            undo=undo,
            dry_run=dry_run,
            settings=user.policy.take,
        )
        return _rolled_back(rollback(user.context, request))


class Turn:
    """One turn of an agent, from `Checkpoints.turn`."""

    def __init__(self, door: Door, directory: str, user: Here, session: str, turn: str) -> None:
        self._door, self._directory, self._user = door, directory, user
        self._session, self._turn = session, turn

    @property
    def _off(self) -> bool:
        """Whether this session, or whoever started it, wants no checkpoints."""
        from safekept.actions.hosts.sessions import switch

        here = self._user.context
        return not switch(here.places.data_directory, here.caller.environment, self._session).on

    def before(self, paths: Iterable[PathLike], *, reason: str = "") -> Protected:
        """Call before a tool changes these files; relative ones are meant in the project's directory.

        Files of an agent's home are kept in the vault, as a point of the kind `home`.

        >>> with safekept.Checkpoints(project).turn("session-1") as turn:
        ...     turn.before(["parser.py", "not_there_yet.py"]).complete
        True
        """
        if self._off:
            return Protected((), off=True)
        names = [os.path.join(self._directory, any_text(path)) for path in words(paths)]
        others, points, failures = keep_home_files(
            self._user, names, reason=reason, session=self._session, turn=self._turn
        )
        found = _protected(self._door.before(others, reason, directory=self._directory))
        return replace(
            found, checkpoints=(*found.checkpoints, *points), failures=(*found.failures, *failures)
        )

    def before_shell(self, directory: PathLike | None = None, *, reason: str = "") -> Protected:
        """Call before a command whose changes nobody can foresee: the whole project is kept.

        >>> with safekept.Checkpoints(project).turn("session-1") as turn:
        ...     kept = turn.before_shell(reason="before make clean")
        >>> len(kept.checkpoints)
        1
        """
        if self._off:
            return Protected((), off=True)
        place = os.path.join(self._directory, any_text(directory))
        found = self._door.before([place], reason, directory=place, shell=True)  # noqa: S604 - no shell is run
        return _protected(found)


def _point(point: Checkpoint, number: int = 0, changed: int | None = None, damaged: bool = False) -> Point:
    return Point(
        point.id,
        point.project,
        number or None,
        point.time_ns,
        point.kind,
        point.reason,
        point.session,
        point.turn,
        changed,
        damaged,
    )


def _rolled_back(outcome: RollbackOutcome) -> RolledBack:
    from safekept.checkpoints.points import LEFT

    plan, done = outcome.plan, outcome.rolled_back
    pairs = [(step.path, step.action) for step in plan.steps] if done is None else done.done
    left = plan.left if done is None else done.left
    return RolledBack(
        project=plan.project,
        checkpoint=plan.target.id,
        done=done is not None,
        steps=tuple(Step(path, action) for path, action in pairs),
        left=tuple(Missing(one.path, LEFT[one.reason]) for one in left),
        complete=done.complete if done is not None else not plan.incomplete(plan.left),
        operation=outcome.operation if done is not None else "",
        not_covered=tuple(Missing(one.path, LEFT[one.reason]) for one in plan.not_covered),
        gone=tuple(Missing(one.path, LEFT[one.reason]) for one in plan.gone),
    )


def _protected(found: Protection) -> Protected:
    points = [taken.checkpoint or taken.latest for taken in found.taken]
    return Protected(
        checkpoints=tuple(point.id for point in points if point is not None),
        skipped=tuple(Missing(one.path, one.detail or one.reason) for one in found.skipped),
        failures=tuple(one.what for one in found.failures),
        notices=tuple(found.notices),
    )
