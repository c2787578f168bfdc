"""`safekept schedule remove`: take back exactly what was installed."""

from __future__ import annotations

import os

import click

from safekept.core.next_step import NextStep

from ...console import count_text, path_text
from ...options import common_options
from ...words.lists import consent
from .options import begin, machine_of, require_root, whose_options


@click.command("remove")
@click.option("--dry-run", is_flag=True, help="Show what would be removed; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@whose_options
@common_options
def command(
    dry_run: bool, yes: bool, system: bool, user_name: str, home: str, layout: str, as_json: bool
) -> int:
    """Take back exactly what was installed. Snapshots, archives and settings stay.

    A file that was changed since is left where it is and named, and so is a host that could not be
    asked; exit code 3 then.
    """
    from safekept.actions.schedule.host import find_leftovers
    from safekept.actions.schedule.install import NotInstalled, installed, remove

    settings, context, console = begin(as_json, system, user_name, home)
    machine = machine_of(settings)
    found = installed(context) or find_leftovers(machine, user_name, os.getuid())
    if found is None:
        raise NotInstalled(
            "no schedule was installed from here",
            kept="Nothing was changed",
            next_steps=(NextStep("schedule show", before="See what is known:"),),
        )
    states = found.states()
    console.heading(f"To be removed: what was installed with {found.host}")
    for path, state in states.items():
        console.fact("File", f"{path_text(path)} ({state})")
    if found.table:
        console.fact("Lines", "of safekept in your crontab")
    if dry_run:
        console.document({"dry_run": True, "host": found.host, "files": states, "crontab": found.table})
        console.line("Nothing was changed")
        return 0
    require_root(system)
    if not yes:
        whose = ["--system", "--user-name", user_name] if system else []
        consent(console, False, "This would be removed", console.command("schedule", "remove", *whose))
    done = remove(context, found, machine.run, console.notes())
    console.document({"dry_run": False, "removed": done.files, "left": done.left, "remarks": done.remarks})
    what = "the lines in your crontab" if found.table else count_text(len(done.files), "file")
    console.heading(f"Removed {what}", not done.left and not done.remarks)
    for path in done.left:
        console.fact("Left", f"{path_text(path)}: it was changed since it was written")
    for remark in done.remarks:
        console.fact("Note", remark)
    return 3 if done.left or done.remarks else 0
