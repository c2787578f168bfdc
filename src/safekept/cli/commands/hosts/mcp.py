"""`safekept mcp`: serve an agent over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import os
import sys

import click

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ..packages import installing


class McpMissing(SafekeptError):
    code = "mcp-missing"


class NoSuchRoot(SafekeptError):
    code, exit_code = "no-such-root", 2


@click.command("mcp")
@click.option(
    "--root",
    "roots",
    metavar="DIR",
    multiple=True,
    help="Work only below this directory, whatever the client names; may be repeated.",
)
def command(roots: tuple[str, ...]) -> int:
    """Serve an agent over the Model Context Protocol (MCP), until the client goes.

    It is started by the agent's host, not by a person. The agent sees checkpoints and snapshots and takes
    changes back; what would change something answers with a plan, and needs that plan's token. Only
    projects within the roots that the client names are touched; where it names none: --root, else
    CLAUDE_PROJECT_DIR, else the directory that the server was started in.
    """
    for place in roots:
        if not os.path.isdir(place):
            raise NoSuchRoot(
                f"There is no directory `{place}` to be a root",
                kept="No server was started",
                next_steps=(NextStep("mcp", ("--root", "DIR"), before="Name a directory that is there:"),),
                root=place,
            )
    try:
        import mcp.server.mcpserver  # noqa: F401 - is it there, and new enough?
    except ImportError as error:
        raise McpMissing(
            "The MCP server needs the package `mcp`, version 2.3 or newer, which is not installed",
            kept="No server was started",
            next_steps=(f"Install it beside safekept: `{installing('mcp>=2.3')}`",),
        ) from error
    from safekept.integrations.mcp.caller import fallback_roots
    from safekept.integrations.mcp.server import run_server

    if sys.stdin.isatty():
        click.echo("This is a server: an agent's host starts it and speaks to it. Ctrl-C ends it.", err=True)
    run_server(fallback_roots(roots, os.environ, os.getcwd()))
    return 0
