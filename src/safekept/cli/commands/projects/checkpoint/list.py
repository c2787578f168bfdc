"""`safekept checkpoint list`: every checkpoint of every project."""

from __future__ import annotations

import click

from ....options import common_options, start


@click.command("list")
@click.option("--all", "every", is_flag=True, help="Marks and undo points, too, and all of them.")
@common_options
def command(every: bool, home: str, layout: str, as_json: bool) -> int:
    """Every checkpoint of every project, newest first: the same as `safekept rollback --all-projects`."""
    from safekept.actions.projects.points import Points

    from ....words.points import show_every_point

    _, context, console = start(as_json)
    with Points(context, "") as points:
        return show_every_point(console, points.everywhere(every=every), every)
