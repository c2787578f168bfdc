"""`safekept snapshot pin`: keep a snapshot whatever the retention says."""

from __future__ import annotations

import click

from safekept.actions.snapshots.forgetting import pin_snapshots
from safekept.actions.vault.opening import open_vault

from ....options import common_options, start


@click.command("pin")
@click.argument("snapshots", metavar="ID|N|latest...", nargs=-1, required=True)
@click.option("--days", metavar="N", type=click.IntRange(1, 36500), help="Only for so many days.")
@click.option("--off", "--remove", "off", is_flag=True, help="Take the pin away again.")
@common_options
def command(
    snapshots: tuple[str, ...], days: int | None, off: bool, home: str, layout: str, as_json: bool
) -> int:
    """Pin snapshots: no retention, `forget` or prune touches them until the pin is off or its days are over.

    A snapshot that was forgotten is called back by it.
    """
    if off and days:
        raise click.UsageError("--off and --days cannot both be given.")
    _, context, console = start(as_json)
    place = context.locate(home, layout, existing=False)
    with open_vault(context, listener=console.listener()) as repository:
        chosen, until = pin_snapshots(
            context,
            repository,
            place,
            snapshots,
            days=days or 0,
            off=off,
            listener=console.listener(),
        )
    console.finish()
    ids = [one.id for one in chosen]
    console.document({"snapshots": ids, "pinned": not off, "until": until})
    for one in chosen:
        if off:
            console.line(f"Snapshot {one.short} is no longer pinned")
        else:
            console.line(f"Snapshot {one.short} is pinned" + (f" until {until}" if until else ""))
    return 0
