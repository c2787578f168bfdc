"""`safekept helper status`: whether it runs."""

from __future__ import annotations

import os
import time

import click

from safekept.integrations.helper import client
from safekept.integrations.helper.code import code_on_disk

from ....console import path_text, time_text
from ....options import start


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(as_json: bool) -> int:
    """Whether a helper runs for your data directory, and since when."""
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
