"""The tool that takes the last rollback or restore back; within the roots and this user's homes only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.spelling import shown

from ..plan_tokens import of_undo
from .answers import ToolAnswer
from .caller import Caller
from .projects import rollback_plan, rolled_back

if TYPE_CHECKING:
    from safekept.actions.undo.changes import Change
    from safekept.actions.undo.undo import Undone, UndoRequest


class NotUndoneHere(SafekeptError):
    code = "not-undone-here"


def undo(caller: Caller, operation: str, directory: str, home: str, confirm: str) -> ToolAnswer:
    """Take an operation back: the plan, or with the token of that plan the deed."""
    from safekept.actions.undo.undo import UndoRequest, take_back

    place = caller.roots.directory(directory) if directory else ""
    home = caller.home(home, existing=False).home if home and not place else ""
    operation, place, home, newer = _meant(caller, operation, place, home)
    spend = caller.spending(confirm)

    def request(dry_run: bool) -> UndoRequest:
        return UndoRequest(
            operation=operation,
            home=home,
            directory=place,
            dry_run=dry_run,
            deadline=caller.settings.number("database.deadline"),
            keep_days=caller.settings.number("import.keep_days"),
            settings=caller.policy.take,
            agreed=lambda undone: spend(of_undo(undone)),
        )

    planned = take_back(caller.context, request(True), caller.listener)
    _confine(caller, planned)
    answer = _plan(planned, newer)
    unconfirmed = caller.planned(answer, confirm, of_undo(planned))
    if unconfirmed is not None:
        return unconfirmed
    if planned.plan is None and planned.rollback is None and planned.turn is None:
        spend(of_undo(planned))  # these check by themselves that nothing happened since
    return _done(take_back(caller.context, request(False), caller.listener))


def _meant(caller: Caller, operation: str, place: str, home: str) -> tuple[str, str, str, Change | None]:
    """What is to be taken back and where it was done, found in the records alone: nothing outside is read.

    Without any word it is the last change in the root of this session, else the last one that it may touch;
    and then also the newer one that is not meant.
    """
    from safekept.actions.undo.changes import changes
    from safekept.actions.undo.last_change import last_change

    if not operation and (place or home):
        return operation, place, home, None
    known = changes(caller.context, home, "")
    if operation:
        named = [one for one in known if one.is_called(operation)]
        named = named or [one for one in known if one.operation.endswith("-" + operation)]
        for one in named[:1]:
            _reach(caller, one)
            return one.operation, one.project, one.home, None
        return operation, place, home, None
    reached = [one for one in known if one.open and _reaches(caller, one)]
    if not reached:
        return "", caller.roots.directory(""), "", None
    last = last_change(caller.context, reached, "", "")
    return last.change.operation, last.change.project, last.change.home, last.newer


def _reaches(caller: Caller, change: Change) -> bool:
    if change.places:  # one turn, in several places: all of them
        return all(caller.roots.holds(os.path.realpath(one)) or caller.is_own(one) for one in change.places)
    if change.project:
        return caller.roots.holds(os.path.realpath(change.project))
    return bool(change.home) and caller.is_own(change.home)


def _reach(caller: Caller, change: Change) -> None:
    for place in change.places:
        if not caller.is_own(place):
            caller.roots.need(place, "the turn changed something in")
    if change.project:
        caller.roots.need(change.project, "the change is one of the project")
    elif change.home:
        caller.home(change.home, existing=False)


def _confine(caller: Caller, undone: Undone) -> None:
    """Only what was changed in a root or in a home of this user; what was dropped is a person's business."""
    change = undone.change
    if undone.brought_back is not None or not change.place:
        raise NotUndoneHere(
            f"{change.operation} changed neither a project nor a home",
            kept="Nothing was changed",
            next_steps=(NextStep("undo", (change.operation,), before="A person can take it back:"),),
            operation=change.operation,
        )
    _reach(caller, change)


def _plan(undone: Undone, newer: Change | None) -> ToolAnswer:
    change = undone.change
    if undone.turn is not None:
        answer = rollback_plan(undone.turn)
        answer.lines[0] = f"Plan: take the {change.noun} {change.operation} back"
    elif undone.rollback is not None:
        answer = rollback_plan(undone.rollback)
        answer.lines[0] = f"Plan: take the {change.verb} {change.operation} in {shown(change.project)} back"
    else:
        answer = ToolAnswer(data=undone.as_dict())
        where = f" in {shown(change.place)}" if change.place else ""
        answer.add(f"Plan: take the {change.verb} {change.operation}{where} back")
    if newer is not None:
        answer.add(
            f"Not the newer {newer.noun} {newer.operation} in {shown(newer.place)}; name it to mean that"
        )
    answer.data |= {"undoes": change.as_dict(), "newer_elsewhere": newer.as_dict() if newer else None}
    if undone.plan is not None:
        answer.items("Would return", undone.plan.returns)
        answer.items("Would go", undone.plan.goes)
        answer.items("Changed since, and set aside", undone.plan.since)
    if undone.session is not None:
        answer.add(f"Conversation {shown(undone.session.session)} in {shown(undone.session.database)}")
    return answer


def _done(undone: Undone) -> ToolAnswer:
    if undone.turn is not None:
        answer = rolled_back(undone.turn)
        answer.lines[0] = f"Took {undone.change.operation} back, everywhere."
        answer.data["undoes"] = undone.change.as_dict()
        return answer
    if undone.rollback is not None:
        answer = rolled_back(undone.rollback)
        answer.lines[0] = f"Took {undone.change.operation} back in {shown(undone.change.project)}."
        answer.data["undoes"] = undone.change.as_dict()
        return answer
    answer = ToolAnswer(data={"changed": True, **undone.as_dict()})
    answer.add(f"Took {undone.change.operation} back.")
    if undone.landed is not None and undone.plan is not None:
        answer.items("Returned", undone.plan.returns)
        answer.items("Set aside", undone.plan.goes)
    answer.add("It can be done again: call the tool `undo` once more.")
    return answer
