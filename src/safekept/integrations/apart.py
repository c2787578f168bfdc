"""A call that is carried out by a process of its own: slow work, which no agent and no helper waits for."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping

from .calls import Call
from .entry import own_command


def run_apart(call: Call, environment: Mapping[str, str]) -> None:
    """Start it, in a session of its own and at low priority, and do not wait. Nothing is raised."""
    command = own_command("helper", "call", "--apart")
    # The shell ends at once and is waited for; what it leaves behind is nobody's zombie.
    with contextlib.suppress(OSError):
        subprocess.run(
            ["/bin/sh", "-c", 'cd /; exec 3<&0; "$@" <&3 3<&- &', "sh", *command],
            input=json.dumps(call.as_dict()).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
            check=False,
        )
