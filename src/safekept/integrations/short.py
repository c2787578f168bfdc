"""The line for a prompt, as `safekept status --short` prints it."""

from __future__ import annotations

from safekept.actions.status.short_status import short_status

from .places import Place


def short_line(place: Place) -> str:
    """How the default home is. Raises what a home that cannot be named raises."""
    located = place.context.locate(existing=False)
    hours = place.settings.number("status.stale_hours")
    return f"safekept: {short_status(place.context, located.home, stale_hours=hours).text}\n"
