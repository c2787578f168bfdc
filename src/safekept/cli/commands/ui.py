"""`safekept ui`: the page in the browser."""

from __future__ import annotations

import os
import sys

import click

from safekept.core.errors import SafekeptError

from ..console import Console
from .packages import installing

#: What the page needs beyond the rest, as `pyproject.toml` says.
PACKAGES = ("jinja2>=3.1", "starlette>=1.0", "uvicorn>=0.40")


class PageMissing(SafekeptError):
    code = "page-missing"


@click.command("ui")
@click.option("--port", type=click.IntRange(1, 65535), help="The port on 127.0.0.1; default: any free one.")
@click.option("--socket", metavar="PATH", default="", help="Listen on this Unix socket, for a proxy.")
@click.option(
    "--address",
    metavar="URL",
    default="",
    help="With --socket: how a browser reaches the proxy; default: http://localhost.",
)
@click.option("--no-open", is_flag=True, help="Print the link; open no browser.")
@click.option(
    "--allow-changes/--read-only",
    default=None,
    help="Whether the page may change anything; at a terminal it is asked, elsewhere it may not.",
)
def command(port: int | None, socket: str, address: str, no_open: bool, allow_changes: bool | None) -> int:
    """Am I protected, what happened, bring it back: a page in the browser, on this machine only.

    The link that is printed works once, within a minute. The page ends when nobody has asked for half an
    hour; Ctrl-C ends it at once. Without --allow-changes it shows commands where it would have buttons.
    """
    if socket and port is not None:
        raise click.UsageError("--port and --socket do not go together.")
    if address and not socket:
        raise click.UsageError("--address goes with --socket.")
    try:
        import jinja2  # noqa: F401 - are they there?
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise PageMissing(
            f"The page needs the package `{error.name}`, which is not installed",
            kept="No page was served",
            next_steps=(f"Install it beside safekept: `{installing(*PACKAGES)}`",),
        ) from error
    from safekept.ui.server import PageRequest, serve

    from ..main import program

    console = Console(as_json=False, program=program())
    if allow_changes is None:
        allow_changes = console.can_ask() and console.ask(
            "May the page change anything: take snapshots, restore, undo?"
        )
    request = PageRequest(port or 0, socket, address, allow_changes, console.program)
    number = serve(request, lambda link: _ready(console, link, allow_changes, no_open or bool(socket)))
    console.say("The page has ended" if not number else "The page was ended")
    return 128 + number if number and number != 2 else 0


def _ready(console: Console, link: str, allow_changes: bool, no_open: bool) -> None:
    opened = not no_open and _open(link)
    console.line("The page is open in your browser." if opened else "Open this in your browser:")
    console.verbatim(f"  {link}")
    console.line("The link works once, within a minute; it is a key to what your agent knows.")
    console.line("The page may change things." if allow_changes else "The page is read-only.")
    console.line("It ends after 30 minutes without use; Ctrl-C ends it now.")
    sys.stdout.flush()


def _open(link: str) -> bool:
    """Whether a browser was started; never where nobody sits before a screen."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"
    if not screen or os.environ.get("SSH_CONNECTION"):
        return False
    import webbrowser

    try:
        return webbrowser.open(link)
    except (webbrowser.Error, OSError):
        return False
