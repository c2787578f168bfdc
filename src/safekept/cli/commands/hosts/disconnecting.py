"""`safekept connect --remove`: take out of an agent's settings what connecting put in."""

from __future__ import annotations

import click

from ...options import start
from ...words.connecting import agree, show_plan


def disconnect(host: str, project: str, home: str, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Take our entries out of the settings of this host."""
    if not host:
        raise click.UsageError("--remove goes with the name of a host: `safekept connect HOST --remove`.")
    _, context, console = start(as_json)
    from safekept.actions.alarms.declined import decline
    from safekept.actions.hosts.connections import connection_of
    from safekept.integrations.connecting.carrying_out import carry_out
    from safekept.integrations.connecting.hosts import host_named, scope_of
    from safekept.integrations.connecting.plan import plan_disconnect

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
