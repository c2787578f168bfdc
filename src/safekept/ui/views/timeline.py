"""The timeline of one home or project: everything that happened, by day, a page at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from starlette.responses import Response

from safekept.actions.base.operations.care import DrillFacts
from safekept.actions.base.operations.facts import Facts
from safekept.actions.base.operations.homes import LandingFacts
from safekept.actions.page.events import GROUPS, EventRequest, PageEvent, detail_of, events, title_of
from safekept.actions.projects.file_history import file_history
from safekept.actions.projects.points import CHECKPOINT, Points, Target
from safekept.actions.projects.turns.turn import turn_of
from safekept.actions.snapshots.contents import opened, summary
from safekept.actions.snapshots.difference import Difference, differ
from safekept.actions.snapshots.history import history
from safekept.actions.undo.log import find_operation
from safekept.actions.undo.operation import Operation
from safekept.core.records import dataclass
from safekept.settings.policies import policy_from

from ..diffs import DiffRows, diff_rows
from ..visit import Visit
from .places import ShownPlace, choices, home_of, known_places, place_of

_MOST = 50
#: Files whose lines are shown; the others are listed.
_PATCHES = 12
_FILES = 300


def show(visit: Visit) -> Response:
    """The list."""
    place = place_of(visit)
    group = visit.asked("kind") if visit.asked("kind") in GROUPS else ""
    text = visit.asked("text")[:200]
    try:
        before = float(visit.asked("before") or "inf")
    except ValueError:
        before = float("inf")
    path = visit.asked("path").strip("/")[:4096]
    agent, session, turn = (visit.asked(name)[:4096] for name in ("agent", "session", "turn"))
    request = EventRequest(
        home=place.path if place.kind == "home" else "",
        project=place.path if place.kind == "project" else "",
        before=before,
        most=_MOST,
        group=group,
        text=text,
        agent=agent,
        session=session,
        turn=turn,
        path=path,
        changed=_changed_in(visit, path) if path else frozenset(),
    )
    found = events(visit.context, request, visit.office.listings)
    days = [(day, list(rows)) for day, rows in groupby(found.events, key=_day)]
    here = {**place.query, "kind": group, "text": text, "path": path}
    here |= {"agent": agent, "session": session, "turn": turn}
    values = {
        **choices(visit),
        "groups": GROUPS,
        "group": group,
        "text": text,
        "path": path,
        "only": [
            (name, here[name], {**here, name: ""}) for name in ("agent", "session", "turn") if here[name]
        ],
        "narrowed": here,
        "days": days,
        "problem": found.problem,
        "newest": {**here} if before != float("inf") else None,
        "older": {**here, "before": repr(found.events[-1].time)} if found.more else None,
    }
    return visit.page("timeline.html", "Timeline", values)


def _changed_in(visit: Visit, path: str) -> frozenset[str]:
    """The snapshots or checkpoints that were the first with another content of this file."""
    place = place_of(visit)
    if place.kind == "project":
        return frozenset(one.first.id for one in file_history(visit.context, place.path, path).versions)
    return frozenset(one.first.id for one in history(visit.context, home_of(visit), path).versions)


def _day(event: PageEvent) -> str:
    return time.strftime("%a %d %b %Y", time.localtime(event.time))


@dataclass(frozen=True, slots=True)
class ShownChange:
    """One file that differs."""

    path: str
    how: str
    sizes: tuple[int, int]
    rows: DiffRows | None
    tables: tuple[tuple[str, int | None, int | None], ...] = ()


def show_snapshot(visit: Visit) -> Response:
    """One snapshot: what it counted, and what had changed since the one before it."""
    place, word = home_of(visit), visit.asked("id")
    with opened(visit.context, place, word) as found:
        account = summary(found)
        earlier: Mapping[str, Any] = {}
        chosen = found.chosen
        order = [one for one in found.listing.of_home if not one.partial or one.id == chosen.id]
        at = next((number for number, one in enumerate(order) if one.id == chosen.id), len(order))
        before = order[at + 1] if at + 1 < len(order) else None
        since = None
        if before is not None:
            with opened(visit.context, place, before.id) as older:
                earlier = summary(older).census
                since = differ(visit.context, older, found, with_patches=True)
    values = {
        "place": place,
        "chosen": chosen,
        "sizes": visit.office.watch.sizes.of(visit.context, place.home, chosen.id, chosen.files),
        "account": account,
        "earlier": earlier,
        "before": before,
        "changes": _changes(since) if since else [],
        "left_out": max(0, _count(since) - _FILES) if since else 0,
        "counts": _counts(since) if since else {},
    }
    return visit.page("snapshot.html", f"Snapshot {chosen.short}", values)


def _count(found: Difference) -> int:
    return sum(1 for one in found.changes if one.kind != "dir")


def _counts(found: Difference) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in found.changes:
        if one.kind != "dir":
            counts[one.how] = counts.get(one.how, 0) + 1
    return counts


def _changes(found: Difference) -> list[ShownChange]:
    shown, patches = list[ShownChange](), 0
    for one in [change for change in found.changes if change.kind != "dir"][:_FILES]:
        lines = found.patches.get(one.path)
        rows = diff_rows(lines, 200, one_file=True) if lines and patches < _PATCHES else None
        patches += rows is not None
        tables = tuple(
            (table.table, table.before, table.after)
            for table in found.tables.get(one.path, ())
            if table.before != table.after
        )
        shown.append(ShownChange(one.path, one.how, (one.before, one.after), rows, tables))
    return shown


def show_point(visit: Visit) -> Response:
    """One checkpoint: what changed in the project since."""
    place, word = place_of(visit), visit.asked("id")
    policy = policy_from(visit.settings, visit.context)
    with (
        visit.office.board.turn(),
        Points(visit.context, place.path, settings=policy.take) as points,
    ):
        found = points.diff(Target(CHECKPOINT, place.path, word))
    values = {"place": place, "point": found.point, "files": found.files, "rows": diff_rows(found.lines)}
    turn = {"turn": turn_of(found.point)}
    return visit.page("point.html", f"Checkpoint {found.point.short}", {**values, **turn})


def show_operation(visit: Visit) -> Response:
    """One operation of the journal."""
    one = find_operation(visit.context, visit.asked("id"))
    facts = [(name, _plain(value)) for name, value in sorted(one.facts.items())]
    work, place = one.work, one.common.home or one.common.project or ""
    kind = "home" if one.common.home else "project"
    snapshot = getattr(work, "snapshot", None)
    values = {
        "one": one,
        "facts": facts,
        "detail": detail_of(one, work),
        "state": _state(one, work),
        "about": {kind: place} if ShownPlace(kind, place) in known_places(visit) else {},
        "place": place,
        "snapshot": snapshot if isinstance(snapshot, str) and kind == "home" else "",
        "paths": list(work.only or ())[:_FILES] if isinstance(work, LandingFacts) else [],
    }
    return visit.page("operation.html", title_of(one.verb), values)


def _state(one: Operation, work: Facts) -> tuple[str, str]:
    """How it looks, and a word for it. That an alarm was raised well makes it no good news."""
    if one.verb == "alarm":
        return "bad", "alarm"
    if isinstance(work, DrillFacts) and work.ok is False:
        return "bad", "not proven"
    return {"done": ("good", "done"), "incomplete": ("warn", "not everything")}.get(
        one.outcome, ("bad", one.outcome)
    )


def _plain(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 400 else text[:399] + "…"
