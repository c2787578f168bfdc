"""What a bare `undo` takes back: the last change where its caller stands, else that of an agent's home.

A person who stands in a project means the project. What they asked for from there counts too, wherever it
was done: a restore of the home that was typed here a minute ago is not passed over for a rollback of last
week. What is newer elsewhere is named. A project that the person neither stands in nor rolled back from here
is not changed: its undo is named, with its command.
"""

from __future__ import annotations

import os

from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.home.landing import NothingToUndo

from ..base.context import UserContext
from ..base.own_places import within
from .changes import ROLLBACK, Change, rolled_back_projects
from .log import require_journal

#: So many parts of a rebuild are named, each with its command; `log` has them all.
_PARTS = 3

#: How a change came to be meant: it was done where the caller stands, it was asked for there, or neither.
HERE, ASKED_HERE, ANYWHERE = "here", "asked-here", ""


@dataclass(frozen=True, slots=True)
class LastChange:
    """The change that is meant, why, and the newer one that is not."""

    change: Change
    how: str = ANYWHERE
    newer: Change | None = None
    place: str = ""  # of several places that it changed, the one where the caller stands

    def other_step(self) -> tuple[NextStep, ...]:
        """For a refusal of the one that is meant: the newer one can be taken back all the same."""
        if self.newer is None:
            return ()
        before = f"To take back the newer {self.newer.noun} in {self.newer.place}:"
        return (NextStep("undo", (self.newer.operation,), before),)


def last_change(context: UserContext, known: list[Change], home: str, project: str) -> LastChange:
    """The last one that still stands, of the home or project that was named, else where the caller stands."""
    standing = [one for one in known if one.open]
    if not standing:
        require_journal(context)
        raise _nothing(home, project)
    directory = context.caller.directory
    standing = _since_rebuild(standing, "" if home or project else directory)
    if home or project or not directory:
        return LastChange(standing[-1])
    place = os.path.realpath(directory)
    done_here = {one.operation for one in standing if any(within(place, where) for where in one.every_place)}
    around = project_around(context, place)
    if not done_here:
        last = standing[-1]
        if last.kind == ROLLBACK and (asked := last.landed.directory) and os.path.realpath(asked) != place:
            raise _elsewhere(place, last)
        return LastChange(last)
    for one in reversed(standing):
        asked, where = one.landed.directory, ""
        if one.operation in done_here:
            how = HERE
            where = max((found for found in one.every_place if within(place, found)), key=len)
        elif asked and project_around(context, asked) == around:
            how = ASKED_HERE
        else:
            continue
        return LastChange(one, how, standing[-1] if standing[-1] is not one else None, where)
    raise AssertionError("unreachable")


def _since_rebuild(standing: list[Change], directory: str) -> list[Change]:
    """What a person or an agent changed, without what a rebuild put back and what is older in the same place.

    A person who types `undo` means what they did. NothingToUndo where that is nothing, or where the rebuild
    came last and they do not stand in anything that they changed; `directory` is "" where a place was named.
    """
    theirs: list[Change] = []
    rebuilt: list[Change] = []
    back: set[str] = set()
    for one in reversed(standing):
        if one.rebuilt:
            rebuilt.append(one)
            back.update(one.every_place)
        elif not back.intersection(one.every_place):
            theirs.insert(0, one)
    last = standing[-1]
    place = os.path.realpath(directory) if directory else ""
    stands = not place or any(within(place, where) for one in theirs for where in one.every_place)
    if theirs and (stands or not last.rebuilt):
        return theirs
    raise NothingToUndo(
        "There is nothing of yours to take back: the last change was made by a rebuild",
        kept="Nothing changed.",
        next_steps=(
            *(NextStep("undo", (one.operation,), before=_before(one)) for one in rebuilt[:_PARTS]),
            NextStep("log", before="See what was done:"),
        ),
        operation=rebuilt[0].operation,
    )


def _before(change: Change) -> str:
    return f"To take away again what it brought to {change.place}:"


def project_around(context: UserContext, directory: str) -> str:
    """The project that a directory is in: the nearest one that was ever rolled back, else itself."""
    place = os.path.realpath(directory)
    known = {path for _, path in rolled_back_projects(context)}
    around = place
    while around not in known and around != os.path.dirname(around):
        around = os.path.dirname(around)
    return around if around in known else place


def _elsewhere(place: str, last: Change) -> NothingToUndo:
    """Who types `undo` in one folder does not expect another project to change."""
    return NothingToUndo(
        f"There is nothing to take back in `{place}`: the last change is the {last.noun} in `{last.place}`",
        kept="Nothing changed.",
        next_steps=(
            NextStep("undo", (last.operation,), before="To take that one back:"),
            NextStep("log", before="See what was done:"),
        ),
    )


def _nothing(home: str, project: str) -> NothingToUndo:
    where = f" in `{home or project}`" if home or project else ""
    what = "rollback" if project else "import or restore" if home else "import, restore or rollback"
    return NothingToUndo(
        f"There is no {what} to take back{where}",
        kept="Nothing was changed",
        next_steps=(
            NextStep("rollback", before="See what there is to go back to:")
            if project
            else NextStep("log", before="See what was done:"),
        ),
    )
