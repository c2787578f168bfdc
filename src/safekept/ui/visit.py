"""One request to the page: what was asked, for whom, and what the whole server knows."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import field
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from safekept.actions.base.context import UserContext
from safekept.actions.page.listings import Listings
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.integrations.connecting.keeping import holding
from safekept.integrations.plan_tokens import Confirmations
from safekept.settings import Settings, load_settings
from safekept.settings.context import context_of

from .admission import Admission
from .gate import FORM, parsed
from .rendering import at_home, exact, marked, query, render
from .watching import PageWatch
from .work import WorkBoard

#: What stands at the top of every page: address, name.
VIEWS = (("/", "Today"), ("/timeline", "Timeline"), ("/browse", "Browse"), ("/proof", "Proof"))


#: Seconds that a view waits for a vault that another process holds alone.
_PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class PageOffice:
    """What all requests to one server share."""

    admission: Admission
    watch: PageWatch
    board: WorkBoard = field(default_factory=WorkBoard)
    listings: Listings = field(default_factory=Listings)
    confirmations: Confirmations = field(default_factory=Confirmations)
    allow_changes: bool = False
    program: str = "safekept"  # how it was called, for commands that are shown


def user_context() -> tuple[Settings, UserContext]:
    """Settings are read again for each request, so that a change of them needs no new server."""
    settings = load_settings(os.environ)
    return settings, context_of(settings).changed(keep_connected=holding)


class Visit:
    """One request."""

    def __init__(self, request: Request, office: PageOffice) -> None:
        self.request, self.office = request, office
        self.settings, self.context = user_context()
        if request.method != "POST":  # a person sits before it; work that was begun may wait
            self.context = self.context.changed(patience=_PATIENCE)
        self._query = parsed(request.scope["query_string"])
        self.remembered: dict[str, object] = {}  # what was found out for this request
        self._form: Mapping[str, list[str]] = request.scope.get(FORM, {})

    def asked(self, name: str, default: str = "") -> str:
        """A word of the address."""
        return self._query.get(name, [default])[0]

    def all_asked(self, name: str) -> tuple[str, ...]:
        """Every word of the address that has this name."""
        return tuple(self._query.get(name, ()))

    def number(self, name: str, default: int, most: int) -> int:
        """A number of the address; anything else is the default."""
        word = self.asked(name)
        return min(int(word), most) if word.isascii() and word.isdigit() and len(word) < 10 else default

    def field(self, name: str, default: str = "") -> str:
        """A word of the form."""
        return self._form.get(name, [default])[0]

    def name(self, name: str) -> str:
        """A path of the form, byte for byte as it was written there (`rendering.exact`)."""
        return unquote(self.field(name), errors="surrogateescape")

    def names(self, name: str) -> tuple[str, ...]:
        """Every path of the form that has this name."""
        return tuple(unquote(one, errors="surrogateescape") for one in self._form.get(name, ()))

    def asked_name(self, name: str) -> str:
        """The same of a form that only looks."""
        return unquote(self.asked(name), errors="surrogateescape")

    def page(
        self, template: str, title: str, values: Mapping[str, object], status: int = 200, *, again: float = 0
    ) -> Response:
        """A whole page. `again`: seconds after which a browser loads it again, with or without scripts."""
        path = self.request.scope["path"]  # `url` fails where the query is no UTF-8
        common = {
            **common_values(self.context, self.office.program),
            "title": title,
            "views": VIEWS,
            "here": path,
            "allow_changes": self.office.allow_changes,
            "token": self.office.admission.form_token,
            "running": [one for one in self.office.board.all if not one.over],
        }
        headers = {"Refresh": f"{again:g}"} if again else {}
        return HTMLResponse(render(template, {**common, **values}, time.time()), status, headers)

    def said(self, path: str) -> str:
        """A path as a person says it."""
        return tilde(self.context, path)

    def elsewhere(self, path: str, **words: object) -> Response:
        """After a form: the page that shows what came of it."""
        text = query(words)
        return RedirectResponse(f"{path}?{text}" if text else path, 303)


def tilde(context: UserContext, path: str) -> str:
    """A path as a person says it."""
    home = context.places.user_home.rstrip("/")
    return f"~{path[len(home) :]}" if home and path.startswith(home + "/") else path


def common_values(context: UserContext, program: str) -> dict[str, object]:
    """What every template may use."""

    def call(verb: str, *words: str, home: str = "") -> str:
        """A command as it is typed; `home` is named where it is not the usual one."""
        other = home and home != context.locate(existing=False).home
        return NextStep(verb, (*words, *(("--home", home) if other else ()))).line(program)

    return {
        "host": os.uname().nodename,
        "program": program,
        "tilde": lambda path: tilde(context, path),
        "call": call,
        "raw": exact,
        "said": lambda text: marked(at_home(text, context.places.user_home)),
        "exported": False,
    }
