"""`safekept disconnect`: take out of an agent's settings what `connect` put in."""

from __future__ import annotations

import click

from ...options import start
from ...words.connecting import agree, show_plan


@click.command("disconnect")
@click.argument("host", metavar="HOST")
@click.option("--project", metavar="DIR", default="", help="What was connected in this project only.")
@click.option(
    "--home", metavar="PATH", default="", help="Of Hermes: this home; default: the one it works in."
)
@click.option("--dry-run", is_flag=True, help="Show the diff; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(host: str, project: str, home: str, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Take out of the settings of an agent exactly what `safekept connect` put in.

    A file that nobody else wrote to comes back byte for byte, or goes where connecting made it; from
    others only our entries are removed. Checkpoints and snapshots stay.
    """
    _, context, console = start(as_json)
    from safekept.actions.alarms.declined import decline
    from safekept.actions.hosts.connections import connection_of
    from safekept.integrations.connecting.carrying_out import carry_out
    from safekept.integrations.connecting.hosts.every_host import host_named, scope_of
    from safekept.integrations.connecting.planning import plan_disconnect

    chosen = host_named(host)
    where = scope_of(context, chosen, project, home)
    option = chosen.option(context, where)
    plan = plan_disconnect(context, chosen, where)
    recorded = connection_of(context, chosen.name, where, plan.place) is not None
    copies: list[str] = []
    if not as_json:
        show_plan(console, plan)
    if not dry_run and (plan.changes or recorded):
        if plan.changes and not yes:
            agree(console, plan, chosen.title, option)
        copies = carry_out(context, plan, console.notes())
        if not option:  # who takes it out does not miss it
            decline(context, (f"not-connected:{chosen.name}",))
    console.document(
        {
            "host": chosen.name,
            "scope": where or None,
            "dry_run": dry_run,
            "changed": plan.changes and not dry_run,
            "files": [
                {"path": edit.file.path, "changes": edit.changes, "diff": edit.diff()} for edit in plan.edits
            ],
            "copies": copies,
        }
    )
    if not plan.changes:
        console.line(f"{chosen.title} is not connected; nothing was changed")
    elif dry_run:
        console.line("Nothing was changed")
    else:
        console.heading(f"Disconnected {chosen.title}")
        for copy in copies:
            console.fact("Copy", f"what was there: {copy}")
        console.fact("Again", f"`{console.command('connect', chosen.name, *option)}`")
    return 0
