"""The line for a prompt, as `safekept status --short` prints it."""

from __future__ import annotations

from safekept.actions.status.short_status import short_status

from .connecting.overview import host_statuses
from .places import Place


def short_line(place: Place) -> str:
    """How everything is. Raises what a home that cannot be named raises."""
    place.context.locate(existing=False)
    hours = place.settings.number("status.stale_hours")
    found = short_status(place.context, hosts=host_statuses(place.context), stale_hours=hours)
    return f"safekept: {found.text}\n"
