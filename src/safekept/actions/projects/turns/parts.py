"""The parts of a turn: in each project the point before it and the mark after it, in each home its points.

What a later turn changed again is no part of it any more. In a project the plan of a rollback says so, path
by path; of a home it is said here, since going back to a home point knows of no later ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from safekept.checkpoints.checkpoint import Checkpoint
from safekept.checkpoints.store import Store
from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass
from safekept.vault.format import Snapshot
from safekept.vault.repo import Repository

from ...base.context import UserContext
from ...base.own_places import within
from ..home_points.point import HomePoint, any_taken
from .turn import Turn

CHECKPOINT, HOME = "checkpoint", "home"
LATER = "changed again by a later turn"
ROLLED_BACK = "a rollback changed it since"


@dataclass(frozen=True, slots=True)
class Part:
    """What goes back in one place."""

    kind: str  # CHECKPOINT or HOME
    place: str
    point: str  # the id of the point that it goes back to
    until: str = ""  # of a project: the point that holds what the turn left
    files: tuple[str, ...] = ()  # of a home: the paths, where not all that the point is about
    left: tuple[tuple[str, str], ...] = ()  # of a home: what stays, and why
    notes: tuple[str, ...] = ()
    trouble: SafekeptError | None = None  # why nothing can be said of this place

    @property
    def stays_whole(self) -> bool:
        """Whether nothing of it is the turn's any more."""
        return bool(self.left) and not self.files


def parts_of(context: UserContext, store: Store | None, turn: Turn) -> list[Part]:
    """Everything that a turn may have changed, projects first."""
    found = []
    for project in sorted(store.projects()) if store is not None else ():
        points = store.checkpoints(project) if store is not None else []
        if part := part_in(points, turn):
            found.append(part)
    return [*found, *_at_homes(context, turn)]


def part_in(points: Sequence[Checkpoint], turn: Turn) -> Part | None:
    """The part of one project; `points` are all of it. None where the turn did nothing there."""
    in_order = sorted(points, key=lambda point: (point.time_ns, point.id))
    befores = [point for point in in_order if turn.holds(point) and point.kind == "before"]
    if not befores:
        return None
    first, last = befores[0], befores[-1]
    following = in_order[in_order.index(last) + 1 :]
    marks = [point for point in following if turn.holds(point) and point.kind == "after"]
    others = [point for point in following if point.kind == "before"]
    # A turn that never ended ended when the next one looked; where none did, it is still all that happened.
    ends = marks[-1:] or [*(point for point in others if point.full), *others][:1]
    until = ends[0] if ends else None
    amid = [
        point
        for point in in_order[in_order.index(first) :]
        if point.kind == "before"
        and point.session != turn.session
        and (until is None or (point.time_ns, point.id) < (until.time_ns, until.id))
    ]
    notes = ("another session worked there at the same time; what it changed until then goes back, too",)
    return Part(CHECKPOINT, first.project, first.id, until.id if until else "", notes=notes if amid else ())


def _at_homes(context: UserContext, turn: Turn) -> list[Part]:
    if not any_taken(context):
        return []
    from ..home_points.stored import open_points

    try:
        with open_points(context) as (repository, found):
            own = [one for one in found if turn.holds(one[0]) and not one[0].undo]
            return [part for home in _homes(own) for part in _at_home(context, repository, found, own, home)]
    except SafekeptError as error:
        trouble = error
    except OSError as error:
        trouble = SafekeptError(
            f"The vault cannot be read: {error.strerror or error}", kept="Nothing was changed", next_steps=()
        )
    return [Part(HOME, "", "", trouble=trouble)]


def _homes(own: Sequence[tuple[HomePoint, Snapshot]]) -> list[str]:
    return list(dict.fromkeys(point.home for point, _ in own))


def _at_home(
    context: UserContext,
    repository: Repository,
    found: Sequence[tuple[HomePoint, Snapshot]],
    own: Sequence[tuple[HomePoint, Snapshot]],
    home: str,
) -> list[Part]:
    """The newest point first, so that where two speak of one path the older has the last word."""
    parts, spoken = [], list[str]()
    for point, snapshot in sorted(
        (one for one in own if one[0].home == home), key=lambda one: one[0].time_ns
    ):
        paths = [path for path in point.paths if not any(within(path, one) for one in spoken)]
        spoken += paths
        later = [
            one
            for one in found
            if one[0].home == home
            and one[0].time_ns > point.time_ns
            and (one[0].session, one[0].turn) != (point.session, point.turn)
        ]
        left = {}
        for path in paths if later else ():
            if _differs(context, repository, (point, snapshot), path):
                left[path] = _changed_again(context, repository, path, later)
        stay = [path for path in paths if not left.get(path)]
        whole = len(stay) == len(point.paths)
        if paths:
            parts.append(
                Part(
                    HOME,
                    home,
                    point.id,
                    files=() if whole else tuple(stay),
                    left=tuple((path, why) for path, why in left.items() if why),
                )
            )
    return parts[::-1]


def _changed_again(
    context: UserContext,
    repository: Repository,
    path: str,
    later: Sequence[tuple[HomePoint, Snapshot]],
) -> str:
    """Why a path stays: it was kept once more before something else changed it, and is not as it was kept
    then. Empty where it is as the turn left it, as far as that is known."""
    for one in reversed(later):  # newest first, so the next one comes last
        for named in one[0].paths:
            if within(path, named) or within(named, path):
                inner = path if within(path, named) else named
                why = ROLLED_BACK if one[0].undo else LATER
                return why if _differs(context, repository, one, inner) else ""
    return ""


def _differs(
    context: UserContext, repository: Repository, one: tuple[HomePoint, Snapshot], path: str
) -> bool:
    """Whether the home differs there from what a point holds."""
    from safekept.vault.read import snapshot_source
    from safekept.vault.tags import layout_of

    from ..home_points.comparison import compare

    point, snapshot = one
    source, manifest = snapshot_source(repository, snapshot)
    name = layout_of(snapshot)
    layout = context.layout(name if name in context.choices.layouts else "generic")
    return compare(point, source, layout, point.home, (path,), manifest).differs
