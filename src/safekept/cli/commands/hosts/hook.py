"""`safekept hook HOST`: what an agent's host runs before and after its tools; not for people.

Hosts reach it through the lean entry. This is the same for a person at a terminal, who is shown what it is
for, and for a call by the ordinary command line. Exit code 2 would stop the host's tool, so nothing here ends
with it unless a person is there to read why.
"""

from __future__ import annotations

import os
import sys

import click

from safekept.core.next_step import NextStep
from safekept.integrations.entry import HOSTS

from ...main import program


@click.command("hook", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("host", metavar="HOST", required=False, default="")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="")
def command(host: str, rest: tuple[str, ...]) -> int:
    """Answer an agent's host: claude-code, codex, gemini, hermes, cursor, opencode, qwen, copilot or cline.

    The host runs this before and after its tools and sends JSON to standard input. What a tool is about
    to change is kept in a checkpoint first. It prints nothing when all is well, it grants and denies
    nothing, and it never stops the host. `safekept connect HOST` writes it into the host's settings.
    """
    if sys.stdin.isatty():
        return _tell(host)
    if host not in HOSTS:
        see = NextStep("hook", ("--help",), before="see").text(program())
        click.echo(f"safekept: there is no hook for `{host}`; {see}", err=True)
        return 0
    from safekept.integrations.in_process import hook_here

    out, errors, code = hook_here(host, sys.stdin.buffer.read(), dict(os.environ), _directory())
    for stream, content in ((sys.stdout, out), (sys.stderr, errors)):
        stream.write(content.decode("utf-8", "replace"))
    return code


def _tell(host: str) -> int:
    if host and host not in HOSTS:
        raise click.UsageError(f"There is no hook for '{host}'. Choose from: {', '.join(HOSTS)}.")
    click.echo(
        "This is for an agent's host, which sends JSON to it before and after its tools; at a terminal it "
        "does nothing."
    )
    seen = NextStep("status", after=".")
    connect = NextStep(
        "connect", (host or "HOST",), "To connect a host, run", "; what its hooks did is in", seen
    )
    click.echo(connect.text(program()))
    return 0


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted under us
        return os.environ.get("PWD", "")
