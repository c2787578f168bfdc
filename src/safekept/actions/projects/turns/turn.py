"""One turn of an agent: what it did between two words of the person, in every project and in homes.

Its points say which turn they belong to. The hosts' own names for turns are long, and unique in their session
only, so a turn has a short id that is made from both and never changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.checkpoints.checkpoint import SHORTEST_PREFIX, Checkpoint
from safekept.checkpoints.store import Store
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ...base.context import UserContext
from ...hosts.turn_words import turn_words
from ..home_points.point import HomePoint

if TYPE_CHECKING:
    from ..timeline import Timeline

_ID = 7


class NoSuchTurn(SafekeptError):
    code = "no-such-turn"


@dataclass(frozen=True, slots=True)
class Turn:
    """What tells one turn from all others, and when it began."""

    session: str
    turn: str
    time_ns: int = 0
    places: tuple[str, ...] = ()  # projects and homes that it has points of
    words: str = ""  # the person's own, where they are kept; in no document but the list that asks for them

    @property
    def id(self) -> str:
        return turn_id(self.session, self.turn)

    @property
    def short(self) -> str:
        return self.id

    @property
    def kind(self) -> str:
        """As the kinds of points: this one is of a turn."""
        return "turn"

    @property
    def reason(self) -> str:
        """What it was for: the person's own words."""
        return self.words

    @property
    def title(self) -> str:
        return f"turn {self.id}"

    @property
    def place(self) -> str:
        """Where it worked, in words."""
        return self.places[0] + (f" and {len(self.places) - 1} more" if self.places[1:] else "")

    def holds(self, point: Checkpoint | HomePoint) -> bool:
        return (point.session, point.turn) == (self.session, self.turn)

    def as_dict(self) -> dict[str, object]:
        return {
            "id": self.id,
            "session": self.session,
            "turn": self.turn,
            "time_ns": self.time_ns,
            "places": list(self.places),
        }


def turn_id(session: str, turn: str) -> str:
    """The short id of a turn; empty where a point belongs to none."""
    if not turn or turn.startswith("rollback "):  # the mark of a rollback is no agent's
        return ""
    name = f"{session}\0{turn}".encode("utf-8", "surrogatepass")
    return "t" + hashlib.sha256(name).hexdigest()[:_ID]


def turn_of(point: Checkpoint | HomePoint) -> str:
    """The id of the turn that a point belongs to; empty where it belongs to none."""
    return turn_id(point.session, point.turn)


def turns_among(points: Iterable[Checkpoint | HomePoint]) -> list[Turn]:
    """The turns that have points among these, the one that began last first."""
    began: dict[tuple[str, str], int] = {}
    places: dict[tuple[str, str], dict[str, None]] = {}
    for point in points:
        if turn_of(point) and not (isinstance(point, HomePoint) and point.undo):
            key = (point.session, point.turn)
            began[key] = min(began.get(key, point.time_ns), point.time_ns)
            places.setdefault(key, {})[point.place] = None
    found = [Turn(*key, began[key], tuple(sorted(places[key]))) for key in began]
    return sorted(found, key=lambda one: (one.time_ns, one.id), reverse=True)


def named_turn(turns: Sequence[Turn], word: str) -> Turn:
    """The turn that an id means, the beginning of one, or the host's own name for it. Raises NoSuchTurn."""
    word = word.strip()
    exact = [one for one in turns if word.lower() == one.id or word == one.turn]
    long = len(word) >= SHORTEST_PREFIX
    found = exact or [
        one for one in turns if long and (one.id.startswith(word.lower()) or one.turn.startswith(word))
    ]
    if len(found) == 1:
        return found[0]
    listed = NextStep("rollback", before="See which there are:")
    if found:
        raise NoSuchTurn(
            f"`{word}` means {len(found):,} turns",
            kept="Nothing was changed",
            next_steps=tuple(
                NextStep("rollback", ("--turn", one.id), before="Take one of them back:") for one in found[:5]
            ),
            turn=word,
        )
    raise NoSuchTurn(
        f"There is no turn `{word}`: it never changed anything, or its points were dropped since",
        kept="Nothing was changed",
        next_steps=(listed,),
        turn=word,
    )


def newest_turn(found: Timeline) -> Turn:
    """The turn that changed something last in the place of a list. Raises NoSuchTurn."""
    points = [row.point for row in found.rows if row.number]
    turns = turns_among(points)
    if turns:
        return turns[0]
    place = found.project or found.home or found.directory
    raise NoSuchTurn(
        f"No turn of an agent changed anything in `{place}`",
        kept="Nothing was changed",
        next_steps=(
            NextStep("rollback", before="See what there is to go back to:"),
            NextStep("rollback", ("--all-projects",), before="See the points of every project:"),
        ),
        directory=found.directory,
    )


def with_words(context: UserContext, turns: Sequence[Turn]) -> list[Turn]:
    """The same with the person's own words, where they are kept: for that person's eyes."""
    known = {
        one: turn_words(context.places.data_directory, one)
        for one in {turn.session for turn in turns if turn.session}
    }
    return [replace(one, words=known.get(one.session, {}).get(one.turn, "")) for one in turns]


def turns_of_store(store: Store | None) -> list[Checkpoint]:
    """The points of turns in every project."""
    if store is None:
        return []
    return [point for project in store.projects() for point in store.checkpoints(project) if turn_of(point)]
