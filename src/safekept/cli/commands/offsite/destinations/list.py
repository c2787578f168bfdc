"""`safekept destinations list`: which there are, and when each was last pushed to."""

from __future__ import annotations

import time

import click

from safekept.actions.offsite.destinations import ListedDestination, list_destinations
from safekept.core.ages import seconds_text

from ....console import count_text, path_text, size_text
from ....options import start


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(as_json: bool) -> int:
    """See the destinations of the settings, what each takes, and how the last push to it ended.

    Nothing is contacted for this; `safekept destinations test` does that.
    """
    _, context, console = start(as_json)
    found = list_destinations(context)
    console.document({"destinations": [one.as_dict() for one in found]})
    for one in found:
        console.heading(path_text(one.setting.name), good=one.last is not None and one.last.state == "done")
        console.fact("Place", path_text(one.setting.url))
        console.fact("Takes", " and ".join(one.setting.takes))
        console.fact("Last push", _last(one))
    if not found:
        console.line("No destinations yet; describe one in `config.toml`: `[[destination]]`")
    return 0


def _last(one: ListedDestination) -> str:
    last = one.last
    if last is None:
        return "never"
    age = f"{seconds_text(max(0.0, time.time() - last.time))} ago"
    good = f"; the last good one {seconds_text(max(0.0, time.time() - last.done))} ago" if last.done else ""
    if last.state == "done":
        return f"{age}: {count_text(last.snapshots, 'new snapshot')}, {size_text(last.bytes)}"
    if last.state == "absent":
        return f"{age}: it was not there{good}"
    return f"{age}: {last.state}{f' ({last.error})' if last.error else ''}{good}"
