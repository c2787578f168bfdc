"""What the helper answers, in this very process: for when no helper does."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping

from safekept.core.errors import SafekeptError

from .calls import Call
from .entry import own_command
from .places import Place


def hook_here(host: str, raw: bytes, environment: dict[str, str], directory: str) -> tuple[bytes, bytes, int]:
    """What a hook answers. Never raises: whatever goes wrong, the host goes on."""
    try:
        from .hosts import handle

        found = handle(host, raw, Place.load(environment), directory)
        return found.stdout, found.stderr, found.exit
    except Exception as error:
        text = f"safekept: nothing was kept before this: {type(error).__name__}: {error}\n"
        return b"", text.encode("utf-8", "replace"), 1 if host == "cursor" else 0  # to Cursor, 0 is a verdict


def short_here(environment: dict[str, str]) -> bytes | None:
    """The line for a prompt; None where there is something to say that is not one line."""
    try:
        place = Place.load(environment)
        return None if place.troubles else short_line(place).encode("utf-8", "surrogateescape")
    except (SafekeptError, OSError):
        return None


def short_line(place: Place) -> str:
    """The line for a prompt, as `safekept status --short` prints it.

    Raises what a home that cannot be named raises.
    """
    # A hook needs none of this.
    from safekept.actions.status.short_status import short_status

    from .connecting.overview import host_statuses

    place.context.locate(existing=False)
    hours = place.settings.number("status.stale_hours")
    found = short_status(place.context, hosts=host_statuses(place.context), stale_hours=hours)
    return f"safekept: {found.text}\n"


# A call that is carried out by a process of its own: slow work, which no agent and no helper waits for.


#: Seconds for a shell to start something and end.
_SHELL = 10.0


def run_apart(call: Call, environment: Mapping[str, str]) -> None:
    """Start it, in a session of its own and at low priority, and do not wait. Nothing is raised."""
    command = own_command("helper", "call", "--apart")
    # The shell ends at once and is waited for; what it leaves behind is no zombie of ours.
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["/bin/sh", "-c", 'cd /; exec 3<&0; "$@" <&3 3<&- &', "sh", *command],
            input=json.dumps(call.as_dict()).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
            timeout=_SHELL,
            check=False,
        )
