"""`safekept destinations show`: the vaults and archives in a destination."""

from __future__ import annotations

import time

import click

from safekept.actions.offsite.destinations import contents_of

from ....console import count_text, path_text, size_text
from ....options import place_argument, start


@click.command("show")
@click.argument("place", metavar="DESTINATION|URL")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(place: str, as_json: bool) -> int:
    """See what a destination holds: the copies of vaults, and the archives of every host.

    No key is needed for this; what is in a vault says `safekept snapshot list --destination NAME`.
    """
    _, context, console = start(as_json)
    found = contents_of(context, place_argument(place))
    console.document(found.as_dict())
    console.heading(path_text(found.place))
    for vault in found.vaults:
        when = f", the newest of {_when(vault.newest)}" if vault.newest else ""
        whole = "" if vault.whole else "; not whole yet, its `config` is missing"
        console.fact("Vault", f"{vault.directory}: {count_text(vault.snapshots, 'snapshot')}{when}{whole}")
    for archive in found.archives:
        note = "" if archive.checked else "; no checksum, so it may not have arrived whole"
        name = f"{path_text(archive.host)}/{path_text(archive.name)}"
        console.fact("Archive", f"{name}: {size_text(archive.size)}{note}")
    if not found.vaults and not found.archives:
        console.line("Nothing of safekept's is there")
    return 0


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
