"""Work that replaces nothing, begun by a button: a snapshot, a drill, a push; and how far all work is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from safekept.actions.drill.drill import DrillRequest, drill
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.vault.keys.kit_files import refresh_kit
from safekept.core.ages import count_text, size_text
from safekept.core.events import Listener
from safekept.home.scan import Selection

from ..rendering import step_markup
from ..visit import PageOffice, Visit
from ..work import PageWork, WorkResult
from .places import NotKnownHere, home_of

#: Seconds between two words about work that goes on.
_PACE = 0.4
#: Seconds after which a browser without scripts looks again.
_AGAIN = 1


def snapshot(visit: Visit) -> Response:
    """Take one now."""
    place, settings, context = home_of(visit, form=True), visit.settings, visit.context
    selection = Selection(include=settings.texts("backup.include"), exclude=settings.texts("backup.exclude"))
    request = SnapshotRequest(place, selection=selection, deadline=settings.number("database.deadline"))

    def work(listener: Listener) -> WorkResult:
        done = create_snapshot(context, request, listener)
        lines = [f"{count_text(done.files, 'file')}, {size_text(done.stored)} new in the vault"]
        lines += [f"Not whole: {one.path}: {one.reason}" for one in done.remarks if one.incomplete]
        if done.alarm is not None:
            lines.append(f"Fewer than before: {done.alarm.text}")
        title = f"Snapshot {done.id[:8]} taken"
        return WorkResult(title, lines, done.complete and done.alarm is None)

    return _begun(visit, visit.office.board.begin(f"Snapshot of {place.home}", work))


def drill_now(visit: Visit) -> Response:
    """Prove that the newest snapshot restores."""
    place, context = home_of(visit, form=True), visit.context

    def work(listener: Listener) -> WorkResult:
        done = drill(context, DrillRequest(home=place.home), listener)
        receipt = done.receipt
        lines = [f"{row.check}: {row.state}{', ' + row.text if row.text else ''}" for row in receipt.rows]
        title = "Proven: it restores" if receipt.ok else "NOT proven"
        return WorkResult(title, lines, receipt.ok, steps=done.next_steps)

    return _begun(visit, visit.office.board.begin(f"Drill of {place.home}", work))


def push_now(visit: Visit) -> Response:
    """Take copies to a destination."""
    name, context = visit.field("destination"), visit.context
    if name not in {one.name for one in context.choices.destinations}:
        raise NotKnownHere(
            f"`{name}` is no destination of yours",
            kept="Nothing was sent",
            next_steps=("Choose one that the page shows",),
        )

    def work(listener: Listener) -> WorkResult:
        done = push(context, PushRequest(name), listener)
        refresh_kit(context, listener)
        lines = [f"{size_text(done.bytes)} sent to {done.place}", *done.notes]
        if done.absence is not None:
            return WorkResult("Nothing was sent", [done.reason], good=False)
        title = "Copied" if done.complete else "Copied, but not everything"
        return WorkResult(title, lines, done.complete)

    return _begun(visit, visit.office.board.begin(f"Push to {name}", work))


def _begun(visit: Visit, piece: PageWork) -> Response:
    return visit.elsewhere("/work", id=piece.id)


def show_work(visit: Visit) -> Response:
    """One piece of work, or all of them. Loads itself again while it goes on."""
    found = visit.office.board.find(visit.asked("id"))
    if found is None:
        return visit.page("works.html", "Work", {"all": visit.office.board.all})
    steps = found.result.steps if found.result else found.error.next_steps if found.error else ()
    home = visit.context.places.user_home
    values = {"work": found, "steps": [step_markup(step, visit.office.program, home) for step in steps]}
    return visit.page("work.html", found.title, values, again=0 if found.over else _AGAIN)


async def stream(request: Request, office: PageOffice) -> Response:
    """The same for a script, as it happens, until it is over."""
    piece = office.board.find(request.query_params.get("id", ""))

    async def said() -> AsyncIterator[str]:
        last = ""
        while piece is not None:
            now = json.dumps(
                {"progress": piece.progress, "done": piece.done, "total": piece.total, "over": piece.over}
            )
            if now != last:
                yield f"data: {now}\n\n"
                last = now
            if piece.over:
                return
            await asyncio.sleep(_PACE)

    return StreamingResponse(said(), media_type="text/event-stream")
