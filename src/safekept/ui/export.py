"""Today and Proof as one file, to send or to keep: no script, nothing from elsewhere, nothing to click."""

from __future__ import annotations

import time

from markupsafe import Markup

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from .rendering import render, static_file
from .views import proof, today
from .visit import common_values, user_context
from .watching import PageWatch

#: By this a file that is there is known to be one of ours, and may be replaced.
MARK = b'content="safekept ui --export"'
#: Seconds that an export waits for the vault: no person waits for it.
_PATIENCE = 120.0


class NotExported(SafekeptError):
    code = "page-not-exported"


def exported(program: str) -> bytes:
    """The file. Raises NotExported where nothing could be seen."""
    settings, context = user_context()
    sight = PageWatch(_PATIENCE).look(settings, context)
    if sight.error is not None:
        raise sight.error
    if sight.status is None:
        raise NotExported(
            "The vault does not answer, so there is nothing to write down",
            kept="No file was written",
            next_steps=(NextStep("status", before="See what is wrong:"),),
        )
    values = {
        **common_values(context, program),
        **today.values_of(sight, program, context.places.user_home),
        **proof.values_of(context, sight),
        "allow_changes": False,
        "exported": True,
        "token": None,
        "style": Markup(static_file("page.css").decode("utf-8")),  # noqa: S704 - our own sheet
    }
    return render("export.html", values, time.time()).encode("utf-8")
