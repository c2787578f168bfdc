"""`safekept helper stop`: end it."""

from __future__ import annotations

import os
import time

import click

from safekept.core.errors import SafekeptError
from safekept.core.locks import lock_is_held
from safekept.integrations.helper import client
from safekept.integrations.helper.server import LOCK

from ....options import start

_SECONDS = 30.0


class HelperStays(SafekeptError):
    code = "helper-stays"


@click.command("stop")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(as_json: bool) -> int:
    """End the helper. What it has begun is finished first; the next hook starts another one."""
    _, _, console = start(as_json)
    directory = client.helper_directory(dict(os.environ))
    answer = client.ask(directory, client.request("stop", {}), b"", 5.0)
    if answer is None or "pid" not in answer[0]:
        console.document({"stopped": False, "process": None})
        console.line("No helper runs")
        return 0
    ends = time.monotonic() + _SECONDS
    while lock_is_held(os.path.join(directory, LOCK)):
        if time.monotonic() > ends:
            raise HelperStays(
                f"the helper (process {answer[0]['pid']}) was told to end, and is still at work",
                kept="What it does is finished in any case",
                next_steps=("See whether it is still there: `safekept helper status`",),
                process=int(answer[0]["pid"]),
            )
        time.sleep(0.01)
    console.document({"stopped": True, "process": int(answer[0]["pid"])})
    console.line(f"The helper (process {answer[0]['pid']}) takes no more requests and ends")
    return 0
