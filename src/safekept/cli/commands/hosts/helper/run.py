"""`safekept helper run`: be the helper."""

from __future__ import annotations

import gc
import os

import click

from safekept.core.locks import AlreadyRunning
from safekept.integrations.helper import client
from safekept.integrations.helper.server import IDLE_SECONDS, Server


@click.command("run")
@click.option(
    "--idle", metavar="SECONDS", type=float, default=IDLE_SECONDS, help="End when nobody asked so long."
)
@click.option("--quiet", is_flag=True, help="Say nothing, also where one runs already.")
def command(idle: float, quiet: bool) -> int:
    """Be the helper, in the foreground, until nobody asks any more. Hooks start one by themselves."""
    from ....console import Console
    from ....main import program

    console = Console(as_json=False, program=program())
    directory = client.helper_directory(dict(os.environ))
    server = Server(directory, dict(os.environ), max(0.1, idle))
    server.warm()
    # What was loaded stays to the end; the collector need not look at it again.
    gc.collect()
    gc.freeze()
    try:
        why = server.run()
    except AlreadyRunning:
        if quiet:
            return 0
        raise
    if not quiet:
        console.line(f"The helper ended: {why}")
    return 0
