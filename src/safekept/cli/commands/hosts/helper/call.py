"""`safekept helper call`: one call, for a plugin that cannot reach a helper."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import click

from safekept.core.errors import SafekeptError

_LARGEST = 64 << 20


class BadCall(SafekeptError):
    code, exit_code = "bad-call", 2


@click.command("call")
@click.option("--apart", is_flag=True, help="Nobody waits: at low priority, and all of it in this process.")
def command(apart: bool) -> int:
    """Read one call as JSON from standard input, do what it asks for, and print the outcome as JSON.

    Plugins use it where no helper answers them. The exit code is 0 also where something could not be
    kept: the outcome says so.
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
        os.nice(10)
        place = replace(place, apart=True)
    outcome = protect(Call.from_dict(document), place)
    click.echo(json.dumps(outcome.as_dict()))
    return 0


def _bad(why: str) -> BadCall:
    return BadCall(
        f"standard input is not a call: {why}",
        kept="Nothing was kept, and nothing was changed",
        next_steps=("See what a call is in `docs/design/integrations.md`",),
    )
