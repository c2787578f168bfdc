"""`safekept helper`: the process that answers hooks quickly."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from dataclasses import replace

import click

from safekept.core.errors import SafekeptError
from safekept.core.locks import AlreadyRunning, lock_is_held
from safekept.core.next_step import NextStep
from safekept.integrations.helper import client
from safekept.integrations.helper.code import code_on_disk
from safekept.integrations.helper.server import IDLE_SECONDS, LOCK, Server

from ...console import path_text, time_text
from ...groups import LazyGroup
from ...options import start


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def status_command(as_json: bool) -> int:
    """Whether a helper runs for your data directory, since when, and how much it was asked."""
    _, _, console = start(as_json)
    directory = client.helper_directory(dict(os.environ))
    answer = client.ask(directory, client.request("status", {}), b"", 5.0)
    keys = answer[0] if answer is not None and "pid" in answer[0] else {}
    console.document(
        {
            "directory": directory,
            "running": bool(keys),
            "wanted": client.wanted(dict(os.environ)),
            "process": int(keys["pid"]) if keys else None,
            "since": int(keys["since"]) if keys else None,
            "requests": int(keys["requests"]) if keys else None,
            "waiting": int(keys["pending"]) if keys else None,
            "current": keys["code"] == code_on_disk() if keys else None,
        }
    )
    if not keys:
        why = "" if client.wanted(dict(os.environ)) else " (SAFEKEPT_HELPER switches it off)"
        console.line(f"No helper runs{why}; the next hook starts one where it may")
        return 0
    age = time_text(max(0.0, time.time() - float(keys["since"])))
    console.line(
        f"The helper runs as process {keys['pid']}, since {age} ago; requests: {int(keys['requests']):,}"
    )
    console.line(f"  it listens in {path_text(directory)}")
    if keys["code"] != code_on_disk():
        console.line("  its code is not the one on disk any more: the next hook replaces it")
    return 0


_SECONDS = 30.0


class HelperStays(SafekeptError):
    code = "helper-stays"


@click.command("stop")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def stop_command(as_json: bool) -> int:
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
                f"The helper (process {answer[0]['pid']}) was told to end, and is still at work",
                kept="What it does is finished in any case",
                next_steps=(NextStep("helper status", before="See whether it is still there:"),),
                process=int(answer[0]["pid"]),
            )
        time.sleep(0.01)
    console.document({"stopped": True, "process": int(answer[0]["pid"])})
    console.line(f"The helper (process {answer[0]['pid']}) takes no more requests and ends")
    return 0


@click.command("run")
@click.option(
    "--idle",
    metavar="SECONDS",
    type=float,
    default=IDLE_SECONDS,
    help="End when there was no request for so long; default: 1800.",
)
@click.option("--quiet", is_flag=True, help="Say nothing, also where one runs already.")
def run_command(idle: float, quiet: bool) -> int:
    """Be the helper, in the foreground, until there are no more requests. Hooks start one by themselves."""
    from ...console import Console
    from ...main import program

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


_LARGEST = 64 << 20


class BadCall(SafekeptError):
    code, exit_code = "bad-call", 2


@click.command("call")
@click.option(
    "--apart", is_flag=True, help="Nothing waits for it: at low priority, and all of it in this process."
)
def call_command(apart: bool) -> int:
    """Read one call as JSON from standard input, do what it asks for, and print the outcome as JSON.

    Plugins use it where no helper answers them. The exit code is 0 also where something could not be
    kept: the outcome says so.

    A call is one object. `kind` says what happens (`before`, `after`, `turn`, `end`), `host` who calls;
    `paths` are the files that a tool names, `shell` is true for a command, `directory` where it works.
    Also `tool`, `session`, `turn`, `agent`, `reason` and `home`, where they are known.
    """
    from safekept.integrations.calls import Call
    from safekept.integrations.protect import Place, protect

    try:
        document = json.loads(sys.stdin.buffer.read(_LARGEST))
    except (ValueError, RecursionError) as error:
        raise _bad(str(error)) from error
    if not isinstance(document, dict):
        raise _bad("it is not an object")
    place = Place.load(dict(os.environ))
    if apart:
        from safekept.core.platform.rights import keep_freed_memory

        keep_freed_memory()  # it may be the first time that a project's hidden half is kept
        os.nice(10)
        place = replace(place, apart=True)
    outcome = protect(Call.from_dict(document), place)
    click.echo(json.dumps(outcome.as_dict()))
    return 0


def _bad(why: str) -> BadCall:
    return BadCall(
        f"Standard input is not a call: {why}",
        kept="Nothing was kept, and nothing was changed",
        next_steps=(NextStep("helper call", ("--help",), before="See what a call is:"),),
    )


COMMANDS = {
    "status": ("safekept.cli.commands.hosts.helper:status_command", "Whether it runs, and since when."),
    "stop": ("safekept.cli.commands.hosts.helper:stop_command", "End it, when its work is done."),
    "run": ("safekept.cli.commands.hosts.helper:run_command", "Be it; hooks start it themselves."),
    "call": ("safekept.cli.commands.hosts.helper:call_command", "Do what one call asks for, as JSON."),
}


@click.group("helper", cls=LazyGroup, table=COMMANDS, default="status")
def command() -> None:
    """The process that answers the hooks and plugins of agents, so that they wait for the work only.

    The first hook starts it, and it ends after half an hour without a request, or when safekept
    was updated. Nothing depends on it: without it each hook does its own work, some 150 ms slower.
    """
