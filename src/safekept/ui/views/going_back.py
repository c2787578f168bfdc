"""Going back: a plan first, its token, a typed word for what replaces, then the work; and an undo after it.

None of these addresses exists where changes are not allowed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from starlette.responses import Response

from safekept.actions.page.plans import plan_patches
from safekept.actions.projects.points import CHECKPOINT, PointRollback, Points, Target
from safekept.actions.projects.rollback import RollbackOutcome
from safekept.actions.projects.turns.turn import Turn
from safekept.actions.restoring.restore import PreparedRestore, RestoreRequest, prepare_restore
from safekept.actions.undo.undo import Undone, UndoRequest, take_back
from safekept.checkpoints.points import ACTIONS, REMOVING
from safekept.core.ages import count_text
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.records import dataclass
from safekept.integrations.plan_tokens import of_restore, of_rollback, of_undo
from safekept.settings.policies import policy_from

from ..diffs import DiffRows, backwards, diff_rows
from ..rendering import moment_words, query
from ..visit import Visit
from ..work import WorkResult
from .places import ShownPlace, home_of, place_of

#: Paths of a list that a page shows.
_MOST = 200


class NotConfirmed(SafekeptError):
    code = "not-confirmed"


class PlanOutdated(SafekeptError):
    code = "plan-outdated"


@dataclass(frozen=True, slots=True)
class PlanList:
    """One part of a plan."""

    title: str
    paths: Sequence[str]
    left_out: int = 0
    bytes: int | None = None  # of what would come; None: nothing would


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan as the page shows it. `word` must be typed; nothing: a button is enough."""

    title: str
    text: str
    address: str  # where the form goes
    fields: Sequence[tuple[str, str]]  # a name may stand there more than once
    button: str
    word: str = ""
    lists: Sequence[PlanList] = ()
    notes: Sequence[str] = ()
    patches: Sequence[tuple[str, DiffRows]] = ()
    nothing: bool = False  # there is nothing to do
    another: tuple[str, str] = ("", "")  # a plan that does more: its address, what it would do


def _lists(
    *parts: tuple[str, Sequence[str]], size: Callable[[str], int | None] = lambda _: None
) -> list[PlanList]:
    found = []
    for title, paths in parts:
        if paths:
            sizes = [count for path in paths if (count := size(path)) is not None]
            found.append(PlanList(title, paths[:_MOST], len(paths) - _MOST, sum(sizes) if sizes else None))
    return found


# ── a restore ──────────────────────────────────────────────────────────────────────────────────────


def plan_restore(visit: Visit) -> Response:
    """What a restore would do."""
    request = _restore(visit, visit.all_asked("path"), visit.asked("id"))
    with visit.office.board.turn(), prepare_restore(visit.context, request) as prepared:
        plan = _restore_plan(visit, prepared, request)
    return visit.page("plan.html", plan.title, {"plan": plan})


def _restore(visit: Visit, paths: Sequence[str], word: str, *, form: bool = False) -> RestoreRequest:
    place = home_of(visit, form=form)
    return RestoreRequest(
        word=word or "latest",
        paths=tuple(path for one in paths if (path := one.strip("/"))),
        home=place.home,
        deadline=visit.settings.number("database.deadline"),
        keep_days=visit.settings.whole("import.keep_days"),
        isolated=True,  # another thread of this process may be at the same databases
    )


def _restore_plan(visit: Visit, prepared: PreparedRestore, request: RestoreRequest) -> ShownPlan:
    plan, chosen = prepared.plan, prepared.chosen
    notes = [f"{one} (in use: {holder})" for one, holder in plan.held]
    notes += [f"{path} is not in the snapshot: {reason}" for path, reason in prepared.losses]
    notes += plan.obstacles
    if prepared.doubt is not None:
        notes.insert(0, prepared.doubt.text)
    replaces = bool(plan.replace or plan.remove or plan.outside)
    when = moment_words(chosen.snapshot.time_ns / 1e9)
    return ShownPlan(
        f"Restore {_what(plan.only)}",
        f"As it was on {when} (snapshot {chosen.short}), into {visit.said(prepared.place.home)}. "
        "What is there now is kept, and can be brought back.",
        "/do/restore",
        (
            ("home", request.home),
            ("id", chosen.id),
            *(("path", path) for path in request.paths),
            ("plan", visit.office.confirmations.give(of_restore(prepared))),
        ),
        "Restore",
        "restore" if replaces else "",
        _lists(
            ("Would be replaced", plan.replaced_for_sure),
            ("Databases that would be compared, and replaced where they differ", plan.compared),
            ("Would be made", plan.create),
            ("Would be removed", plan.remove),
            ("Outside the home", prepared.writes_outside),
            size=lambda path: plan.items[path].size if path in plan.items else None,
        ),
        notes,
        [(path, diff_rows(lines, 200, one_file=True)) for path, lines in plan_patches(prepared).items()],
        not (plan.create or plan.replace or plan.remove),
    )


def _what(paths: Sequence[str]) -> str:
    """What comes back, in a title."""
    if not paths:
        return "the whole home"
    return ", ".join(paths) if len(paths) <= 3 else f"{paths[0]} and {len(paths) - 1:,} more"


def restore(visit: Visit) -> Response:
    """Carry a plan out that was shown."""
    request = _restore(visit, visit.names("path"), visit.field("id"), form=True)
    token, typed = visit.field("plan"), visit.field("typed")
    context, confirmations = visit.context, visit.office.confirmations

    def work(listener: Listener) -> WorkResult:
        with prepare_restore(context, request, listener) as prepared:
            plan = prepared.plan
            if plan.replace or plan.remove or plan.outside:
                _need_word(typed, "restore")
            _spend(confirmations.spend(token, of_restore(prepared)))
            done = prepared.carry_out(listener)
        landed = done.landed
        lines = [
            f"{landed.created:,} new, {landed.replaced:,} replaced, {landed.removed:,} removed, "
            f"{landed.same:,} already the same"
        ]
        lines += [f"Not restored: {path}: {reason}" for path, reason in done.lost]
        lines.append("What was there before is kept.")
        title = "Restored" if done.complete else "Restored, but not everything"
        return WorkResult(title, lines, done.complete, done.operation)

    if not visit.field("plan"):
        _spend("it came without a plan")
    piece = visit.office.board.begin(f"Restore {_what(request.paths)}", work)
    return visit.elsewhere("/work", id=piece.id)


def _need_word(typed: str, word: str) -> None:
    if typed.strip().casefold() != word:
        raise NotConfirmed(
            f"The word `{word}` was not typed, and this would replace something",
            kept="Nothing was changed",
            next_steps=(f"Go back to the plan, type `{word}` and send it again",),
        )


def _spend(refusal: str) -> None:
    if refusal:
        raise PlanOutdated(
            f"This plan cannot be carried out any more: {refusal}",
            kept="Nothing was changed",
            next_steps=("Look at the plan again, as it is now",),
        )


# ── a rollback ─────────────────────────────────────────────────────────────────────────────────────


def _points(visit: Visit, project: str, listener: Listener = silent) -> Points:
    policy = policy_from(visit.settings, visit.context)
    return Points(
        visit.context,
        project,
        settings=policy.take,
        deadline=visit.settings.number("database.deadline"),
        keep_days=visit.settings.number("import.keep_days"),
        listener=listener,
    )


def _files(project: str, path: str) -> tuple[str, ...]:
    """One file of a project, so that no name in it can mean something elsewhere."""
    return (os.path.join(project, path),) if path else ()


def plan_rollback(visit: Visit) -> Response:
    """What going back to a checkpoint would do."""
    place, word, path = place_of(visit), visit.asked("id"), visit.asked("path").strip("/")
    if turn := visit.asked("turn"):
        return _plan_turn(visit, place, word, turn)
    git = bool(visit.asked("git")) and not path
    target, files = Target(CHECKPOINT, place.path, word), _files(place.path, path)
    with visit.office.board.turn(), _points(visit, place.path) as points:
        found = points.plan(target, files, git=git)
        rows = diff_rows(backwards(points.diff(target, files).lines))
    token = visit.office.confirmations.give(of_rollback(found))
    fields = [("project", place.path), ("id", word), ("path", path), ("plan", token)]
    removing = any(action in REMOVING for _, action in found.steps)
    when, moved = moment_words(found.point.time_ns / 1e9), _moved(found)
    reason = f": {found.point.reason}" if found.point.reason else ""
    more = query({**place.query, "id": word, "git": 1})
    plan = ShownPlan(
        f"Restore {path}" if path else f"Go back to {when}",
        f"In {visit.said(place.path)}, as it was on {when} ({found.point.title}{reason}). "
        "What is there now is kept, and can be brought back.",
        "/do/rollback",
        [*fields, ("git", "1")] if git else fields,
        "Roll back",
        "rollback" if removing or found.changed else "",
        _lists(
            ("Would change", [f"{path}: {ACTIONS[action]}" for path, action in found.steps]),
            ("Would go back in the git repository", moved if git else ()),
            ("Would stay as it is", [f"{path}: {why}" for path, why in found.stays]),
        ),
        list(found.notes),
        [("What would go and what would come back", rows)] if rows.lines else [],
        not found.changed,
        ("", "") if git or path or not moved else (f"/rollback?{more}", "; ".join(moved)),
    )
    return visit.page("plan.html", plan.title, {"plan": plan})


def _plan_turn(visit: Visit, place: ShownPlace, word: str, turn: str) -> Response:
    """What taking a whole turn back would do, everywhere."""
    with visit.office.board.turn(), _points(visit, place.path) as points:
        found = points.plan(points.turn(turn))
    token = visit.office.confirmations.give(of_rollback(found))
    words = f": {found.point.reason}" if found.point.reason else ""
    places = found.point.places if isinstance(found.point, Turn) else ()
    plan = ShownPlan(
        f"Take {found.point.title} back",
        f"What it changed in {' and '.join(map(visit.said, places))}{words}. "
        "What is there now is kept, and can be brought back.",
        "/do/rollback",
        [("project", place.path), ("id", word), ("turn", turn), ("plan", token)],
        "Roll back",
        "rollback" if found.changed else "",
        _lists(
            ("Would change", [f"{path}: {ACTIONS[action]}" for path, action in found.steps]),
            ("Would stay as it is", [f"{path}: {why}" for path, why in found.stays]),
        ),
        list(found.notes),
        [],
        not found.changed,
    )
    return visit.page("plan.html", plan.title, {"plan": plan})


def _moved(found: PointRollback) -> list[str]:
    """What moved in the project's git repositories since, a line for each of them."""
    if not isinstance(found, RollbackOutcome):
        return []
    return [f"{one.git_directory}: {one.words}" for one in found.plan.repositories if one.words]


def rollback(visit: Visit) -> Response:
    """Go back."""
    place, word, token = place_of(visit, form=True), visit.field("id"), visit.field("plan")
    typed, confirmations = visit.field("typed"), visit.office.confirmations
    path, git, turn = visit.name("path").strip("/"), bool(visit.field("git")), visit.field("turn")

    def agreed(plan: PointRollback) -> None:
        _need_word(typed, "rollback")
        _spend(confirmations.spend(token, of_rollback(plan)))

    def work(listener: Listener) -> WorkResult:
        with _points(visit, place.path, listener) as points:
            target = points.turn(turn) if turn else Target(CHECKPOINT, place.path, word)
            done = points.apply(target, _files(place.path, path), git=git, agreed=agreed)
        removed = sum(1 for _, action in done.steps if action in REMOVING)
        lines = [f"{count_text(len(done.steps) - removed, 'path')} brought back, {removed:,} removed"]
        if git:
            lines += [f"Back in the git repository: {one}" for one in _moved(done)]
        lines += [f"Stays as it is: {path}: {why}" for path, why in done.stays[:20]]
        lines += list(done.notes)
        when = moment_words(done.point.time_ns / 1e9)
        what = f"Took {done.point.title} back" if turn else f"Went back to {when}"
        return WorkResult(what, lines, done.complete, done.operation)

    return visit.elsewhere("/work", id=visit.office.board.begin(f"Roll back {path or place.path}", work).id)


# ── taking it back ─────────────────────────────────────────────────────────────────────────────────


def _undo(
    visit: Visit, operation: str, *, dry_run: bool, agreed: Callable[[Undone], None] | None
) -> UndoRequest:
    return UndoRequest(
        operation=operation,
        dry_run=dry_run,
        deadline=visit.settings.number("database.deadline"),
        keep_days=visit.settings.number("import.keep_days"),
        settings=policy_from(visit.settings, visit.context).take,
        agreed=agreed,
    )


def plan_undo(visit: Visit) -> Response:
    """What taking an operation back would do."""
    operation = visit.asked("id")
    with visit.office.board.turn():
        found = take_back(visit.context, _undo(visit, operation, dry_run=True, agreed=None))
    lists: list[tuple[str, Sequence[str]]] = []
    if found.plan is not None:
        lists += [("Would return", found.plan.returns), ("Would go", found.plan.goes)]
        lists += [("Changed since, and set aside", found.plan.since)]
    if found.rollback is not None:
        steps = [f"{path}: {ACTIONS[action]}" for path, action in found.rollback.steps]
        lists.append(("Would change", steps))
    if found.turn is not None:
        lists.append(("Would change", [f"{path}: {ACTIONS[action]}" for path, action in found.turn.steps]))
        lists.append(("Stays as it is", [f"{path}: {why}" for path, why in found.turn.stays]))
    where = " and ".join(visit.said(place) for place in found.change.every_place)
    plan = ShownPlan(
        f"Take the {found.change.noun} back",
        f"In {where}, as it was before. This, too, can be taken back.",
        "/do/undo",
        (
            ("id", found.change.operation),
            ("plan", visit.office.confirmations.give(of_undo(found))),
        ),
        "Take it back",
        lists=_lists(*lists),
    )
    return visit.page("plan.html", plan.title, {"plan": plan})


def undo(visit: Visit) -> Response:
    """Take an operation back."""
    operation, token = visit.field("id"), visit.field("plan")
    context, confirmations = visit.context, visit.office.confirmations

    def agreed(undone: Undone) -> None:
        _spend(confirmations.spend(token, of_undo(undone)))

    def work(listener: Listener) -> WorkResult:
        planned = take_back(context, _undo(visit, operation, dry_run=True, agreed=None), listener)
        if planned.plan is None and planned.rollback is None and planned.turn is None:
            agreed(planned)  # these check by themselves that nothing happened since
        done = take_back(context, _undo(visit, operation, dry_run=False, agreed=agreed), listener)
        lines = []
        if done.plan is not None:
            lines.append(f"{len(done.plan.returns):,} returned, {len(done.plan.goes):,} set aside")
        if done.turn is not None:
            lines += [f"Stays as it is: {path}: {why}" for path, why in done.turn.stays[:20]]
        lines += list(done.notes)
        return WorkResult("Taken back", lines, done.complete, done.operation)

    return visit.elsewhere("/work", id=visit.office.board.begin("Undo", work).id)
