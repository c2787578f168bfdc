"""Going back in the hidden half: the same rules, the same landing, other contents.

The visible half is planned, and lands, without it. What is decided here are the paths that the visible half
cannot settle alone: those that are hidden, were hidden, or became so. Where a path is in both halves, the
visible one counts. The caller gives both states of the hidden half, and where its bytes are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener
from safekept.core.records import dataclass

from ..checkpoint import Checkpoint, FileState, Skipped
from ..points.attribution import History, changed_by_user, marks_amid_turns
from ..points.reconstructed_state import LeftOut, named_paths
from ..points.rollback_plan import (
    HIDDEN_REASONS,
    OWN,
    Left,
    RollbackPlan,
    file_mode,
    parents,
    visible_state,
)
from ..store.store import Store
from ..store.tree_state import TreeState
from .both_halves import BothHalves, Same
from .deciding import RollbackInputs, plan_steps
from .planning import looking_at, wanted_among
from .project_tree import ProjectTree
from .proving import FileContents
from .rollback import RolledBack, carry_out


@dataclass(frozen=True, slots=True)
class SecondHalf:
    """What is known of the hidden half, then and now."""

    then: TreeState
    now: TreeState
    history: History  # of the hidden half: a point of which nothing is kept raises CheckpointDamaged
    contents: FileContents  # of both halves
    same: Same  # whether two states are of the same bytes, in whichever half they are
    #: Where a rollback is undone: the hidden half as that rollback wanted it; where one turn goes back: as
    #: that turn left it. None where that is not known.
    undone: TreeState | None = None
    overwrite_mine: bool = False
    left_now: Mapping[str, Skipped] = field(default_factory=dict)  # what is there and not kept
    unread: Collection[str] = ()  # what is there and could not be read; `.` is the project itself


def plan_second_half(store: Store, plan: RollbackPlan, half: SecondHalf) -> RollbackPlan:
    """What is to be done in the hidden half; `plan` is that of the visible one."""
    then: dict[str, FileState] = {**half.then, **plan.then}
    now: dict[str, FileState] = {**half.now, **plan.now}
    settled = {step.path for step in plan.steps}
    asked, taken_over = wanted_among(plan.files), _taken_over(plan, half)

    def own(path: str) -> bool:
        """Whether a path is the hidden half's to decide."""
        if path in taken_over:
            return True
        if path not in half.then and path not in half.now:
            return False
        return path not in settled and not (path in plan.then and path in plan.now) and asked(path)

    differing = [
        path
        for path in half.then.keys() | half.now.keys() | taken_over
        if own(path) and visible_state(then.get(path)) != visible_state(now.get(path))
    ]
    wanted, since, mine = own, set[str](), set[str]()
    # With --overwrite-mine only what later turns changed stays.
    spared = plan.until is None or plan.later_turns or not half.overwrite_mine
    if half.undone is not None:
        changed = _changed_between(half.then, half.undone)
        since = {
            path
            for path in differing
            if path in changed
            and spared
            and (path in now or half.now.knows(path))
            and _other(now, half.undone, path)
            and not _as_undone(now, path, half)
        }

        def wanted(path: str) -> bool:
            return own(path) and (path in changed or path in taken_over)

    elif not half.overwrite_mine and not plan.made_project:
        mine = _users_own(store, plan, half, now, differing)
    more = RollbackPlan(plan.project, plan.target, plan.undo, plan.files, then=then, now=now)
    more.root, more.root_now = plan.root, plan.root_now
    with ProjectTree(plan.project) as ground:
        sides = RollbackInputs(
            then,
            now,
            wanted,
            mine,
            lambda path: "" if path in taken_over else LeftOut(half.then).reason(path),
            _LeftNow(half.left_now),
            looking_at(ground),
            since=since,
        )
        more.steps, more.left = plan_steps(sides)
    if plan.until is not None:
        why = "later" if plan.later_turns else "mine"
        more.left = [replace(one, reason=why) if one.reason == "since" else one for one in more.left]
    for path in _new_and_unread(half):
        if path == OWN or asked(path):
            _leave_unread(more, path)
    return more


def _new_and_unread(half: SecondHalf) -> Iterator[str]:
    """What is there now, was not there then, and could not be read: it cannot be saved, so it stays. A
    directory counts where it was there, too: what is new in it is not seen. What could not be read then is no
    change."""
    changed = None if half.undone is None else _changed_between(half.then, half.undone)
    for path in sorted(half.unread):
        then = half.then.get(path)
        if path in half.then.skipped or not half.then.knows(path) or (then and then.kind != "directory"):
            continue
        below = "" if path == OWN else path + "/"
        if changed is None or path in changed or any(one.startswith(below) for one in changed):
            yield path


def _leave_unread(more: RollbackPlan, path: str) -> None:
    """Name it, once; a directory that holds it stays as well."""
    kept = {path, *parents(path)}
    more.steps = [one for one in more.steps if one.action != "remove-directory" or one.path not in kept]
    if all(one.path != path for one in more.left):
        more.left.append(Left(path, "unreadable"))


#: Why a path stays that is not as it was left: by a rollback that is undone, or by the turn that goes back.
_SINCE = ("since", "later", "mine")


def _taken_over(plan: RollbackPlan, half: SecondHalf) -> set[str]:
    """What the visible half leaves because it cannot know: that a new file is no renamed hidden one, since
    that one comes back; that nothing was there, where the hidden half knows what was; whose change it is,
    where a point hid it; and that what a rollback brought back did not change, where it was hidden then."""
    found: set[str] = set(plan.deferred)
    for one in plan.left:
        if one.reason in _SINCE and _as_undone(plan.now, one.path, half):
            found.add(one.path)
        if one.path not in plan.now or one.path in plan.then:
            continue
        if one.reason == "renamed":
            known = one.detail.removeprefix("`").removesuffix("` is gone") in half.then
        else:
            unsure = one.reason in ("then-left-out", "unproven")
            known = unsure and any(above in half.then for above in parents(one.path))
            known = known and one.path not in half.then and half.then.knows(one.path)
        if known:
            found.add(one.path)
    # A new directory that held nothing but these goes with the last of them.
    new = (path for path in half.now if path not in half.then)
    above = {place for path in (*found, *new) for place in parents(path)}
    return found | {place for place in above if place in plan.now and place not in plan.then}


def settle_visible(plan: RollbackPlan, more: RollbackPlan, half: SecondHalf) -> None:
    """What the visible half could only list is settled by the hidden one; the lists say what is left."""
    decided = {step.path for step in more.steps} | {one.path for one in more.left}
    known = (half.then, half.now)
    plan.left = [
        one for one in plan.left if one.path not in decided and not any(one.path in state for state in known)
    ]
    plan.gone = [one for one in plan.gone if one.path not in half.then]
    plan.not_covered = [one for one in plan.not_covered if one.reason not in HIDDEN_REASONS]


def land_second_half(
    store: Store, more: RollbackPlan, contents: FileContents, result: RolledBack, listener: Listener
) -> None:
    """Carry it out, after the visible half. What cannot be done is listed, and the visible half stays."""
    result.left += more.left
    if not more.steps:
        return
    before = set(result.done)
    try:
        carry_out(store, more, result, contents, listener)
        done = {path for path, _ in set(result.done) - before}
        result.left = [one for one in result.left if one.path not in done or one.reason != "not-empty"]
    except SafekeptError as error:
        result.left += [Left(step.path, "hidden-shut", error.what) for step in more.steps]


class _LeftNow:
    """What is there and not kept, by its own name or that of a directory above it."""

    def __init__(self, items: Mapping[str, Skipped]) -> None:
        state = TreeState()
        state.skipped = dict(items)
        self._left = LeftOut(state)

    def __call__(self, path: str) -> Skipped | None:
        found = self._left.find(path)
        return Skipped(path, "not-kept", found.detail) if found is not None else None


def _users_own(
    store: Store,
    plan: RollbackPlan,
    half: SecondHalf,
    now: Mapping[str, FileState],
    differing: Collection[str],
) -> set[str]:
    """What the user changed after the agent, by the one rule of both halves: see `points/attribution.py`.

    Raises what keeps the points shut: then nothing hidden is touched.
    """
    points = [point for point in store.checkpoints(plan.project) if point.id != plan.undo.id]
    start = (plan.target.time_ns, plan.target.id)
    later = [point for point in points if (point.time_ns, point.id) > start]
    paths = [path for path in differing if path in now or half.now.knows(path)]
    history = BothHalves(store, half.history, plan.undo, now, paths, half.same)

    def named(point: Checkpoint) -> Collection[str]:
        return named_paths(store, point)

    return changed_by_user(history, later, plan.undo, now, paths, named, marks_amid_turns(points))


def _as_undone(now: Mapping[str, FileState], path: str, half: SecondHalf) -> bool:
    """Whether a file is as the rollback wanted it that is undone, though it is in the other half by now: each
    half has names of its own for contents."""
    one, other = now.get(path), half.undone.get(path) if half.undone is not None else None
    if one is None or other is None or (one.kind, one.size) != (other.kind, other.size):
        return False
    if one.kind == "directory" or (one.kind == "file" and file_mode(one) != file_mode(other)):
        return False
    return half.same(other, one)


def _changed_between(one: Mapping[str, FileState], other: Mapping[str, FileState]) -> set[str]:
    return {path for path in one.keys() | other.keys() if _other(one, other, path)}


def _other(one: Mapping[str, FileState], other: Mapping[str, FileState], path: str) -> bool:
    return visible_state(one.get(path)) != visible_state(other.get(path))
