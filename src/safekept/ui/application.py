"""The addresses of the page, and what becomes of an error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from safekept.actions.page.events import nothing_kept_yet
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from .gate import Gate
from .rendering import STATIC, static_file, step_markup
from .views import browse, going_back, history, places, proof, starting, timeline, today
from .visit import PageOffice, Visit, user_context

Shows = Callable[[Visit], Response]


class PageBroke(SafekeptError):
    code = "page-broke"


class NothingKeptYet(SafekeptError):
    code = "nothing-kept-yet"


#: What is only looked at.
READS: Mapping[str, Shows] = {
    "/": today.show,
    "/timeline": timeline.show,
    "/snapshot": timeline.show_snapshot,
    "/point": timeline.show_point,
    "/operation": timeline.show_operation,
    "/browse": browse.show,
    "/history": history.show,
    "/download": browse.download,
    "/proof": proof.show,
    "/places": places.show,
}
#: Plans and work; none of it exists where changes are not allowed.
PLANS: Mapping[str, Shows] = {
    "/restore": going_back.plan_restore,
    "/rollback": going_back.plan_rollback,
    "/undo": going_back.plan_undo,
    "/work": starting.show_work,
}
CHANGES: Mapping[str, Shows] = {
    "/do/restore": going_back.restore,
    "/do/rollback": going_back.rollback,
    "/do/undo": going_back.undo,
    "/do/snapshot": starting.snapshot,
    "/do/drill": starting.drill_now,
    "/do/push": starting.push_now,
}


def make_application(office: PageOffice, heard: Callable[[], None]) -> ASGIApp:
    """Everything behind the gate."""
    routes = [Route("/static/{name}", _static, methods=["GET"])]
    routes += [Route(path, _answering(show, office), methods=["GET"]) for path, show in READS.items()]
    if office.allow_changes:
        routes += [Route(path, _answering(show, office), methods=["GET"]) for path, show in PLANS.items()]
        routes += [Route(path, _answering(show, office), methods=["POST"]) for path, show in CHANGES.items()]
        routes.append(Route("/work/events", functools.partial(_stream, office), methods=["GET"]))
    handlers: dict[Any, Any] = {HTTPException: lambda request, error: _missing(request, error, office)}
    return Gate(Starlette(routes=routes, exception_handlers=handlers), office.admission, heard)


def _answering(show: Shows, office: PageOffice) -> Callable[[Request], Response]:
    """Not `async`: the work is done in a thread, and the server goes on."""

    def answer(request: Request) -> Response:
        try:
            return show(Visit(request, office))
        except SafekeptError as error:
            return error_page(request, office, _first_said(error))
        except Exception as error:
            return error_page(request, office, _unexpected(error), 500)

    return answer


def _first_said(error: SafekeptError) -> SafekeptError:
    """Who never kept anything has no trouble with a vault, and does not want one by itself."""
    if not nothing_kept_yet(user_context()[1], error):
        return error
    return NothingKeptYet(
        "There is no vault yet, so there is nothing to look at",
        kept="Nothing was read or changed",
        next_steps=(NextStep("setup", before="Protect this machine:"),),
    )


def error_page(request: Request, office: PageOffice, error: SafekeptError, status: int = 400) -> Response:
    """What happened, what was kept safe, what to do next."""
    visit = Visit(request, office)
    home = visit.context.places.user_home
    steps = [step_markup(step, office.program, home) for step in error.next_steps]
    values = {"what": error.what, "kept": error.kept, "steps": steps, "code": error.code}
    return visit.page("error.html", "That did not work", values, status)


def _unexpected(error: Exception) -> PageBroke:
    return PageBroke(
        f"safekept did not expect this: {type(error).__name__}: {error}",
        kept="The page changed nothing; work that was begun is finished or taken back by the next command",
        next_steps=(NextStep("status", before="See how everything is:"),),
    )


def _missing(request: Request, error: HTTPException, office: PageOffice) -> Response:
    visit = Visit(request, office)
    values = {"what": "There is no such page.", "kept": "", "steps": [], "code": str(error.status_code)}
    return visit.page("error.html", "Not found", values, error.status_code)


async def _stream(office: PageOffice, request: Request) -> Response:
    return await starting.stream(request, office)


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404)
    headers = {"Cache-Control": "private, max-age=86400"}
    return Response(static_file(name), media_type=STATIC[name], headers=headers)
