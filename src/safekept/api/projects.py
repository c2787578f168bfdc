"""Projects: checkpoints of one, and going back to them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .apart import in_its_own_process
from .turns import Turn
from .user import ApiUser, PathLike, current_user, text, texts
from .values import Diff, Missing, Point, RolledBack, Step

if TYPE_CHECKING:
    from safekept.actions.projects.points import PointRollback, Points
    from safekept.actions.projects.timeline import PointRow


#: Seconds that a turn's point waits for ignored files, secrets and large files.
_HIDDEN_WAIT = 5.0


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

        user = current_user()
        done = take_checkpoint(
            user.context,
            self.directory,
            user.policy,
            reason=reason,
            files=texts(files),
        )
        point = done.taken.checkpoint or done.taken.latest
        assert point is not None  # one that is asked for is always taken
        from safekept.actions.projects.timeline import PointRow

        return _listed(PointRow(0, point))

    def list(self, *, session: str = "", turn: str = "", every: bool = False) -> list[Point]:
        """What can be gone back to, newest first; number 1 undoes the last change.

        `session` and `turn` narrow it to what an agent left there. `every` shows marks and undo points too.
        Points of the kind `home` hold files of an agent's home that were kept in the same time.

        >>> safekept.Checkpoints(project).list()
        []
        """
        with _points(current_user(), self.directory) as points:
            found = points.list(session=session, turn=turn, every=every)
        return [_listed(row) for row in found.in_order]

    def diff(self, point: str | int = 1, *, files: Iterable[PathLike] = ()) -> Diff:
        """What changed since a point of the list, by its number or id; as a unified diff.

        >>> checkpoints = safekept.Checkpoints(project)
        >>> point = checkpoints.take()
        >>> _ = (project / "new.py").write_text("x = 1")
        >>> checkpoints.diff().files
        ('new.py',)
        """
        with _points(current_user(), self.directory) as points:
            found = points.diff(points.resolve(str(point)), texts(files))
        return Diff(found.point.place, found.point.id, found.files, "\n".join(found.lines))

    def rollback(
        self,
        point: str | int = 1,
        *,
        files: Iterable[PathLike] = (),
        overwrite_mine: bool = False,
        git: bool = False,
        dry_run: bool = False,
    ) -> RolledBack:
        """Go back to a point of the list, by its number or id; with `files` only those.

        Files that the user changed after the agent's last turn stay, unless `overwrite_mine`. With `git` the
        project's repository goes back, too: branches, tags, HEAD, stashes, index. With `dry_run`
        the answer is the plan. What is replaced is kept: `undo()` brings it back.

        >>> checkpoints = safekept.Checkpoints(project)
        >>> point = checkpoints.take()
        >>> (project / "parser.py").unlink()
        >>> checkpoints.rollback(dry_run=True).steps[0]
        Step(path='parser.py', action='recreate')
        >>> checkpoints.rollback().done
        True
        """
        from safekept.actions.projects.points import HOME

        names = texts(files)
        with _points(current_user(), self.directory) as points:
            target = points.resolve(str(point))
            if target.kind == HOME and not git:
                return _roll_home_back(self.directory, target.id, names, dry_run)
            go = points.plan if dry_run else points.apply
            return _rolled_back(go(target, names, overwrite_mine=overwrite_mine, git=git))

    def undo(self, *, overwrite_mine: bool = False, dry_run: bool = False) -> RolledBack:
        """Take the last rollback back: of this project, or of files of an agent's home asked for here.

        >>> checkpoints = safekept.Checkpoints(project)
        >>> point = checkpoints.take()
        >>> _ = (project / "parser.py").write_text("better")
        >>> _ = checkpoints.rollback(point.id)
        >>> _ = checkpoints.undo()
        >>> (project / "parser.py").read_text()
        'better'
        """
        from safekept.actions.projects.points import CHECKPOINT

        with _points(current_user(), self.directory) as points:
            target = points.last_rollback()
            if target.kind != CHECKPOINT:
                return _undo_home_rollback(self.directory, overwrite_mine, dry_run)
            return _rolled_back(points.undo(target, overwrite_mine=overwrite_mine, dry_run=dry_run))

    def rollback_turn(
        self, turn: str = "", *, session: str = "", overwrite_mine: bool = False, dry_run: bool = False
    ) -> RolledBack:
        """Take back what one turn of an agent changed, in every project where it worked and in its home.

        `turn` is its short id or its name, as points of the list have it; empty means the newest that changed
        something here. `session` narrows it to one session. What you or a later turn changed again stays.
        One `safekept.undo(operation)` takes all of it back. Steps name whole paths.

        >>> checkpoints = safekept.Checkpoints(project)
        >>> with checkpoints.turn("session-1", "turn-1") as turn:
        ...     kept = turn.before(["parser.py"])
        ...     _ = (project / "parser.py").write_text("broken")
        >>> done = checkpoints.rollback_turn("turn-1")
        >>> done.complete, (project / "parser.py").read_text()
        (True, 'def parse(): ...\\n')
        """
        return _roll_turn_back(self.directory, turn, session, overwrite_mine, dry_run)

    @contextmanager
    def turn(self, session: str, turn: str = "") -> Iterator[Turn]:
        """One turn of an agent: call `before` or `before_shell` on what this gives, before each change.

        A full pass is made before the first change of the turn; when the block ends, what the turn left
        behind is marked, so that later edits of the user are known as such. `before` and `before_shell` never
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
        from safekept.actions.projects.guarding import forbidden_roots
        from safekept.actions.projects.hidden.record import keep_look
        from safekept.actions.projects.project import checkpoint_directory
        from safekept.checkpoints.checkpoints import Checkpoints as Door

        user = current_user()
        policy = user.policy
        door = Door(
            checkpoint_directory(user.context),
            settings=policy.take,
            forbidden=forbidden_roots(user.context),
            maintenance=policy.maintenance,
            hidden=lambda project, look: keep_look(
                user.context, project, look, deadline=time.monotonic() + _HIDDEN_WAIT
            ),
        )
        turn = turn or f"{time.time_ns():x}"
        door.new_turn(session, turn)
        try:
            yield Turn(door, self.directory, user, session, turn)
        finally:
            door.after(wait=True)


def _points(user: ApiUser, directory: str) -> Points:
    from safekept.actions.projects.points import Points

    return Points(
        user.context,
        directory,
        settings=user.policy.take,
        deadline=user.deadline,
        keep_days=user.settings.number("import.keep_days"),
    )


@in_its_own_process
def _roll_home_back(directory: str, point: str, files: tuple[str, ...], dry_run: bool) -> RolledBack:
    with _points(current_user(), directory) as points:
        go = points.plan if dry_run else points.apply
        return _rolled_back(go(points.resolve(point), files))


@in_its_own_process
def _roll_turn_back(
    directory: str, turn: str, session: str, overwrite_mine: bool, dry_run: bool
) -> RolledBack:
    with _points(current_user(), directory) as points:
        go = points.plan if dry_run else points.apply
        return _rolled_back(go(points.turn(turn, session), overwrite_mine=overwrite_mine))


@in_its_own_process
def _undo_home_rollback(directory: str, overwrite_mine: bool, dry_run: bool) -> RolledBack:
    with _points(current_user(), directory) as points:
        return _rolled_back(points.undo(overwrite_mine=overwrite_mine, dry_run=dry_run))


def _listed(row: PointRow) -> Point:
    point = row.point
    return Point(
        point.id,
        point.place,
        row.number or None,
        point.time_ns,
        point.kind,
        point.reason,
        point.session,
        point.turn,
        row.changes.files if row.changes else None,
        row.damaged,
    )


def _rolled_back(outcome: PointRollback) -> RolledBack:
    from safekept.actions.projects.rollback import RollbackOutcome
    from safekept.checkpoints.points import LEFT

    plan = outcome.plan if isinstance(outcome, RollbackOutcome) else None
    return RolledBack(
        project=outcome.point.place,
        checkpoint=outcome.point.id,
        done=not outcome.planned,
        steps=tuple(Step(path, action) for path, action in outcome.steps),
        left=tuple(Missing(path, why) for path, why in outcome.stays),
        complete=outcome.complete,
        operation="" if outcome.planned else outcome.operation,
        not_covered=tuple(Missing(one.path, LEFT[one.reason]) for one in plan.not_covered) if plan else (),
        gone=tuple(Missing(one.path, LEFT[one.reason]) for one in plan.gone) if plan else (),
    )
