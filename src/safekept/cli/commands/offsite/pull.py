"""`safekept pull`: bring copies back from a destination."""

from __future__ import annotations

import os

import click

from safekept.actions.offsite.pull import PullRequest, PullResult, pull

from ...console import Console, count_text, path_text, size_text, time_text
from ...options import place_argument, start

_LISTED = 10


@click.command("pull")
@click.argument("place", metavar="DESTINATION|PLACE")
@click.option(
    "--archive",
    metavar="NAME|latest",
    default="",
    help="Fetch this archive, or the latest one, not the vault.",
)
@click.option("--host", metavar="NAME", default="", help="With --archive: whose; default: any host's.")
@click.option(
    "--into",
    metavar="DIR",
    default="",
    help="Where to put it; default: the usual place of the vault, for an archive the current directory.",
)
@click.option(
    "--mend",
    is_flag=True,
    help="Only what the vault here has lost: every file here is read, and what is damaged is fetched.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be fetched; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(place: str, archive: str, host: str, into: str, mend: bool, dry_run: bool, as_json: bool) -> int:
    """Fetch the copy of a vault, what a damaged vault here has lost, or an archive; all of it proven.

    A vault goes to its usual place where there is none yet, or to --into. To read from a copy without
    fetching it, name it: `safekept snapshot list --destination NAME`. A pull that was cut short goes on
    where it ended. Exit code 3: something could not be fetched and is listed.
    """
    if mend and (archive or into):
        raise click.UsageError("--mend goes with neither --archive nor --into.")
    if host and not archive:
        raise click.UsageError("--host goes with --archive.")
    _, context, console = start(as_json)
    request = PullRequest(
        destination=place_argument(place),
        into=os.path.abspath(os.path.expanduser(into)) if into else "",
        archive=archive,
        host=host,
        mend=mend,
        dry_run=dry_run,
    )
    result = pull(context, request, console.listener())
    console.finish()
    console.document(result.as_dict())
    _show(console, result, request, not context.choices.identities)
    return 0 if result.complete else 3


def _opens_with_key(path: str) -> bool:
    from safekept.archive.sealing import needs_key_file
    from safekept.core.errors import SafekeptError

    try:
        return needs_key_file(path)
    except SafekeptError:
        return False  # it is whole, and importing it will say what is wrong with it


def _show(console: Console, result: PullResult, request: PullRequest, key_file_wanted: bool) -> None:
    if request.dry_run:
        console.heading(f"Would fetch from {path_text(result.destination)}")
        console.fact("To", path_text(result.path))
        if result.archive is not None:
            console.fact("Archive", f"{path_text(result.archive.name)}, {size_text(result.archive.size)}")
        elif result.plan is not None:
            console.fact("Files", f"{result.plan.count:,}, {size_text(result.plan.bytes)}")
        console.line("Nothing was written")
        return
    if result.archive is not None:
        console.heading(f"Fetched {path_text(result.path)}")
        console.fact("Archive", f"{size_text(result.archive.size)}, of {path_text(result.archive.host)}")
        console.fact("Time", time_text(result.seconds))
        for note in result.notes:
            console.line(f"Note: {note}")
        key_file = key_file_wanted and _opens_with_key(result.path)
        identity = ("--identity", "KEYFILE") if key_file else ()
        console.line(f"Restore with: `{console.command('import', result.path, *identity)}`")
        if key_file:
            console.line("KEYFILE holds the private half of the key that it was sealed to")
        return
    _show_vault(console, result, request)


def _show_vault(console: Console, result: PullResult, request: PullRequest) -> None:
    fetched = result.fetched
    assert fetched is not None
    if not result.complete:
        console.heading("Fetched what could be had", good=False)
    elif request.mend:
        console.heading("Mended" if fetched.files else "Nothing is damaged here that the copy could mend")
    else:
        console.heading(f"Fetched the vault to {path_text(result.path)}")
    console.fact("From", path_text(result.place))
    console.fact("Files", f"{count_text(fetched.files, 'file')}, {size_text(fetched.bytes)}")
    console.fact("Time", time_text(result.seconds))
    for problem in fetched.problems[:_LISTED]:
        console.fact("Problem", f"{problem.file}: {problem.reason}")
    for name in result.lost[:_LISTED]:
        console.fact("Lost", f"{name}: damaged here, and not in the copy")
    if request.mend:
        console.line(f"See how the vault is: `{console.command('vault', 'check')}`")
    elif result.opens:
        more = ("--vault", result.path) if request.into else ()
        console.line(f"See what is in it: `{console.command('snapshot', 'list', '--all', *more)}`")
    else:
        console.line(
            "The key here does not open it. Put the key from your kit into a new file, as one line, and name "
            "it: `SAFEKEPT_VAULT_KEY_FILE`. Keep the key file that is there: another vault may need it"
        )
