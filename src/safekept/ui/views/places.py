"""Which home or project an address of the page is about; only those that are known here."""

from __future__ import annotations

from starlette.responses import Response

from safekept.actions.base.context import HomeRef, UserContext
from safekept.actions.base.own_places import known_homes
from safekept.actions.page.known_projects import known_projects
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ..visit import Visit


class NotKnownHere(SafekeptError):
    code = "not-known-here"


@dataclass(frozen=True, slots=True)
class ShownPlace:
    """A home or a project; `query` is how an address names it."""

    kind: str  # "home" or "project"
    path: str

    @property
    def query(self) -> dict[str, object]:
        return {self.kind: self.path}


def places(context: UserContext) -> list[ShownPlace]:
    """Every home of this user that is here or was kept, then every project with checkpoints."""
    homes = dict.fromkeys([context.locate(existing=False).home, *known_homes(context)])
    found = [ShownPlace("home", one) for one in homes]
    return found + [ShownPlace("project", one) for one in known_projects(context)]


#: Places to choose from on every page; the others have a page of their own.
_CHOICES = 20


def known_places(visit: Visit) -> list[ShownPlace]:
    """The same, found out once for a request."""
    found = visit.remembered.get("places")
    if found is None:
        found = visit.remembered["places"] = places(visit.context)
    assert isinstance(found, list)
    return found


def choices(visit: Visit) -> dict[str, object]:
    """What a page offers to choose from: the homes, the projects of late, and the one that is shown."""
    known, chosen = known_places(visit), place_of(visit)
    few = known[:_CHOICES]
    few = few if chosen in few else [chosen, *few[:-1]]
    return {"place": chosen, "places": few, "more_places": len(known) - len(few)}


def show(visit: Visit) -> Response:
    """Every home and project."""
    return visit.page("places.html", "Homes and projects", {"known": known_places(visit)})


def place_of(visit: Visit, *, form: bool = False) -> ShownPlace:
    """The one that was asked for; without a word, the usual home."""
    word = visit.name if form else visit.asked
    known = known_places(visit)
    chosen = dict([visit.asked_name("place").split(":", 1)]) if ":" in visit.asked_name("place") else {}
    for kind in ("project", "home"):
        if path := chosen.get(kind) or word(kind):
            for one in known:
                if (one.kind, one.path) == (kind, path):
                    return one
            raise NotKnownHere(
                f"`{path}` is no {kind} that is kept here",
                kept="Nothing was read or changed",
                next_steps=(NextStep("status", before="See what is kept:"),),
            )
    return known[0]


def home_of(visit: Visit, *, form: bool = False) -> HomeRef:
    """The home that was asked for."""
    place = place_of(visit, form=form)
    return visit.context.locate(place.path if place.kind == "home" else "", existing=False)
