"""`safekept checkpoint clear-legacy`: remove the older repositories that `adopt` archived."""

from __future__ import annotations

import click

from ....console import count_text, path_text, size_text
from ....options import common_options, start
from ....words.grace import gone_text
from ....words.lists import consent


@click.command("clear-legacy")
@click.option("-f", "--force", "--yes", "force", is_flag=True, help="Do not ask.")
@click.option("--now", is_flag=True, help="For good: without the three days in which it can be brought back.")
@click.option("--dry-run", is_flag=True, help="Show what would go; change nothing.")
@common_options
def command(force: bool, now: bool, dry_run: bool, home: str, layout: str, as_json: bool) -> int:
    """Remove what `safekept checkpoint adopt` archived, and nothing else. Hermes's own files stay.

    For three days it can be brought back, unless the disk is nearly full; `--now` removes it at once.
    """
    from safekept.actions.projects.adopting import remove_legacy
    from safekept.actions.projects.project import checkpoint_directory
    from safekept.checkpoints.hermes import legacy_archives

    _, context, console = start(as_json)
    archives = legacy_archives(checkpoint_directory(context))
    for archive in archives:
        names = count_text(len(archive.repositories), "repository", "repositories")
        console.fact("Archive", f"{path_text(archive.path)}: {names}, {size_text(archive.bytes)}")
    if dry_run or not archives:
        console.document({"dry_run": dry_run, "archives": [archive.as_dict() for archive in archives]})
        console.line("Nothing was changed" if archives else "Nothing is archived")
        return 0
    count = sum(len(archive.repositories) for archive in archives)
    what = f"{count_text(count, 'archived repository', 'archived repositories')} would be removed"
    again = console.command("checkpoint", "clear-legacy", *(["--now"] if now else []))
    consent(console, force, what + (" for good" if now else ""), again)
    done = remove_legacy(context, now=now)
    undo = console.command("undo", done.operation) if done.kept_until else ""
    console.document(
        {
            "operation": done.operation,
            "archives": done.archives,
            "bytes": done.bytes,
            "kept_until": done.kept_until or None,
            "undo": undo or None,
        }
    )
    console.heading(f"Removed {count_text(done.archives, 'archive')}, {size_text(done.bytes)}")
    console.fact("Kept", gone_text(done.kept_until))
    if undo:
        console.fact("", f"bring it back: `{undo}`")
    return 0
