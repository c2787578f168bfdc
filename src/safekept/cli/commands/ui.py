"""`safekept ui`: the page in the browser."""

from __future__ import annotations

import os
import sys

import click

from safekept.core.errors import SafekeptError
from safekept.core.files import durable_write
from safekept.core.files.small import read_start
from safekept.core.next_step import NextStep
from safekept.core.owner import held_output
from safekept.core.platform.system import on_macos

from ..console import Console, path_text, size_text
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
@click.option(
    "--export",
    metavar="FILE",
    default="",
    help="Write Today and Proof into this HTML file; serve nothing. Only a page of safekept's is replaced.",
)
def command(
    port: int | None, socket: str, address: str, no_open: bool, allow_changes: bool | None, export: str
) -> int:
    """Am I protected, what happened, bring it back: a page in the browser, on this machine only.

    The link that is printed works once, within a minute. The page ends when it was not used for half an
    hour; Ctrl-C ends it at once. Without --allow-changes it shows commands where it would have buttons.
    """
    if socket and port is not None:
        raise click.UsageError("--port and --socket do not go together.")
    if address and not socket:
        raise click.UsageError("--address goes with --socket.")
    if export and (port is not None or socket or allow_changes or no_open):
        raise click.UsageError("--export goes alone: nothing is served.")
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
    from ..main import program

    console = Console(as_json=False, program=program())
    if export:
        return _export(console, os.path.abspath(os.path.expanduser(export)))
    from safekept.ui.server import PageRequest, serve

    if allow_changes is None:
        allow_changes = console.can_ask() and console.ask(
            "May the page change anything: take snapshots, restore, undo?"
        )
    request = PageRequest(port or 0, socket, address, allow_changes, console.program)
    number = serve(request, lambda link: _ready(console, link, allow_changes, no_open or bool(socket)))
    console.say("The page has ended" if not number else "The page was ended")
    return 128 + number if number and number != 2 else 0


def _export(console: Console, path: str) -> int:
    from safekept.ui.export import MARK, NotExported, exported

    again = NextStep("ui", ("--export", "FILE.html"), before="Name another file:")
    data = exported(console.program)
    try:
        with held_output(path) as held:
            if os.path.lexists(held) and MARK not in read_start(held, 4096, follow=False):
                raise NotExported(
                    f"`{path}` exists and is not a page that safekept wrote",
                    kept="It was not touched",
                    next_steps=(again,),
                )
            durable_write(held, data)
    except OSError as error:
        raise NotExported(
            f"`{path}` cannot be written: {error.strerror or error}",
            kept="Nothing was written",
            next_steps=(again,),
        ) from error
    console.line(f"Written: {path_text(path)} ({size_text(len(data))})")
    return 0


def _ready(console: Console, link: str, allow_changes: bool, no_open: bool) -> None:
    opened = not no_open and _open(link)
    console.line("The page is open in your browser." if opened else "Open this in your browser:")
    console.verbatim(f"  {link}")
    console.line("The link works once, within a minute; it is a key to what your agent knows.")
    console.line("The page may change things." if allow_changes else "The page is read-only.")
    console.line("It ends after 30 minutes without use; Ctrl-C ends it now.")
    sys.stdout.flush()


def _open(link: str) -> bool:
    """Whether a browser was started; never where there is no screen."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or on_macos()
    if not screen or os.environ.get("SSH_CONNECTION"):
        return False
    import webbrowser

    try:
        return webbrowser.open(link)
    except (webbrowser.Error, OSError):
        return False
