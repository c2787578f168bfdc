"""Which repositories of a project moved since a point, and what bringing them back would do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping

from safekept.core.files.small import read_start

from ...checkpoint import Checkpoint
from ..objects import object_id
from ..store import Store
from .keeping import Kept
from .locating import Located, locate
from .moves import Move, RepositoryPlan, compare, in_words
from .reading import RepositoryReading
from .recreating import Recreating, mend_shell
from .restoring import RepositoryRestored, Restoring, stashes_in
from .state import HEAD, OBJECTS, REF, STASH, RepositoryState, read_states

#: A `.git` that is gone leaves nothing to compare with; one that never was there is no loss.
States = Mapping[str, RepositoryState]
#: Seconds in which missing objects are looked for.
_LOOK = 120.0


def plan_repositories(
    store: Store,
    then: Checkpoint,
    now: Checkpoint,
    mark: Checkpoint | None = None,
    *,
    undoing: bool = False,
    deep: bool = False,
    kept_in: str = "",
) -> list[RepositoryPlan]:
    """What differs between two points, repository by repository. Raises CheckpointDamaged.

    `mark`: what an agent's last turn left; what differs from it as well was moved by a person. A repository
    that is new since stays: nothing removes one. `deep`: missing objects are looked for, too. `kept_in`:
    where the objects are, if `store` is a view of that.
    """
    marked: States = read_states(store, mark) if mark is not None else {}
    reason = "since" if undoing else "mine"
    before, after = read_states(store, then), read_states(store, now)
    return _plans(store, before, after, marked, reason, kept_in or store.directory, deep)


def _plans(
    store: Store,
    before: States,
    after: States,
    marked: States,
    reason: str,
    kept_in: str = "",
    deep: bool = False,
) -> list[RepositoryPlan]:
    plans = []
    for path, state in before.items():
        current = after.get(path)
        if current is not None and (current.git, current.format) != (state.git, state.format):
            continue  # another one stands in its place
        plan = compare(
            state,
            current,
            marked.get(path),
            reason=reason,
            elsewhere=_checked_out(current) if current else (),
        )
        if deep and current is not None and not _has_objects(store, state, current, kept_in):
            plan.moves.append(Move(OBJECTS, "whole", "missing"))
        if plan.moves or plan.left:
            if kept_in:
                plan.words = _words(store, plan, kept_in)
            plans.append(plan)
    return plans


def _has_objects(store: Store, then: RepositoryState, now: RepositoryState, kept_in: str) -> bool:
    """Whether the repository holds everything behind the refs that it still has as they were."""
    current = now.refs()
    same = {name: value for name, value in then.refs().items() if current.get(name) == value}
    names = [value for value in dict.fromkeys(same.values()) if not value.startswith("ref:")]
    kept = Kept(kept_in or store.directory, then.common, then.format)
    if not names or not kept.exists or kept.incomplete:  # a partial clone never had them all
        return True
    return kept.connected(os.path.join(now.common, "objects"), names, _LOOK)


def _words(store: Store, plan: RepositoryPlan, kept_in: str) -> str:
    kept = Kept(kept_in, plan.then.common, plan.then.format)
    objects = os.path.join(plan.then.common, "objects")
    plan.stashes, now = _stashes(store, plan.then), _stashes(store, plan.now)
    return in_words(plan, (plan.stashes, now), lambda one, other: kept.count(objects, one, other))


def _stashes(store: Store, state: RepositoryState | None) -> int:
    if state is None or STASH not in state.items:
        return 0
    return len(stashes_in(store.read(state.items[STASH])))


def _checked_out(state: RepositoryState) -> list[str]:
    """Branches that other worktrees stand on: one that moves looks like a change made there."""
    base = os.path.join(state.common, "worktrees")
    places = [state.common]
    with contextlib.suppress(OSError):
        places += [os.path.join(base, name) for name in sorted(os.listdir(base))[:200]]
    found = []
    for place in places:
        if place == state.git:
            continue
        with contextlib.suppress(OSError):
            head = read_start(os.path.join(place, HEAD), 4096, follow=False).split(b"\n")[0].strip()
            if head.startswith(b"ref: "):
                found.append(os.fsdecode(head[5:]))
    return found


def plan_again(
    store: Store, project: str, then: Checkpoint, items: Mapping[str, list[str]]
) -> list[RepositoryPlan]:
    """What is left of a plan that was killed: of those items, what is not yet as it was."""
    before = {path: state for path, state in read_states(store, then).items() if path in items}
    plans = _plans(store, before, states_now(store, project, list(before)), {}, "mine")
    for plan in plans:
        if not plan.gone:
            plan.moves = [move for move in plan.moves if move.name in items[plan.path]]
    return plans


def states_now(store: Store, project: str, paths: list[str]) -> dict[str, RepositoryState]:
    """The repositories of a project as they stand, read and not stored."""
    found = {}
    for path in paths:
        place = locate(project, path)
        if place is not None:
            found[path] = _read_now(store, place)
    return found


def _read_now(store: Store, place: Located) -> RepositoryState:
    kept = Kept(store.directory, place.common, place.format)
    ours = store.repository if place.format == "sha1" else kept.directory
    return RepositoryReading(place, ours, lambda data: object_id(b"blob", data).hex()).read()


def restore_repositories(
    store: Store, project: str, plans: list[RepositoryPlan], target: str, undo: str
) -> list[RepositoryRestored]:
    """Carry plans out; what could not be done is named in each answer. Nothing raises for one repository."""
    done = []
    for plan in plans:
        kept = Kept(store.directory, plan.then.common, plan.then.format)
        try:
            done.append(_restore(store, project, plan, kept, target, undo))
        except OSError as error:
            failed = RepositoryRestored(plan.path)
            failed.left = [("repository", "failed", error.strerror or str(error))]
            done.append(failed)
    return done


def _restore(
    store: Store, project: str, plan: RepositoryPlan, kept: Kept, target: str, undo: str
) -> RepositoryRestored:
    read: Callable[[str], bytes] = store.read
    reason = f"safekept: rollback to {target}"
    made: RepositoryRestored | None = None
    if plan.gone:
        if not _its_place(project, plan.then):
            failed = RepositoryRestored(plan.path)
            failed.left = [("repository", "failed", f"`{plan.then.git}` is not its place")]
            return failed
        if os.path.isdir(plan.then.git) and not os.path.islink(plan.then.git):
            mend_shell(plan.then, undo)
            place = Located(plan.path, plan.then.git, plan.then.common)
            mended = compare(plan.then, _read_now(store, place))
            made = Restoring(mended, kept, read, reason).run()
            made.made = True
            made.left += Recreating(project, plan, kept, read, undo).run().left
            return made
        made = Recreating(project, plan, kept, read, undo).run()
        if not plan.then.linked or not made.made:
            return made
        # Of a linked worktree the branch may be gone with it; HEAD and index came with its directory.
        found = locate(project, plan.path)
        if found is None:
            return made
        plan = compare(plan.then, _read_now(store, found))
        plan.moves = [move for move in plan.moves if move.name.startswith(REF) and not move.now]
    assert plan.now is not None
    restored = Restoring(plan, kept, read, reason).run()
    if made is not None:
        made.done += restored.done
        made.left += restored.left
        made.remarks += restored.remarks
        return made
    return restored


def _its_place(project: str, state: RepositoryState) -> bool:
    """Whether a repository that is gone may be made where the point says it was."""
    work = os.path.join(project, state.path) if state.path else project
    own = os.path.join(project, ".git")
    if state.git == os.path.join(work, ".git"):
        return True
    if state.linked:
        return os.path.dirname(os.path.dirname(state.git)) == state.common
    return state.git.startswith(own + "/modules/")
