"""`holdfast checkpoints clear-legacy`: remove the older repositories that `adopt` archived."""

from __future__ import annotations

import click

from holdfast.cli.console import count_text, path_text, size_text
from holdfast.cli.options import common_options, start
from holdfast.cli.points import consent


@click.command("clear-legacy")
@click.option("-f", "--force", "--yes", "force", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would go; change nothing.")
@common_options
def command(force: bool, dry_run: bool, home: str, layout: str, as_json: bool) -> int:
    """Remove what `holdfast checkpoints adopt` archived, and nothing else. Hermes's own files stay."""
    from holdfast.actions.checkpoints import remove_legacy
    from holdfast.actions.projects import checkpoint_directory
    from holdfast.checkpoints.legacy import legacy_archives

    _, surroundings, console = start(as_json)
    archives = legacy_archives(checkpoint_directory(surroundings))
    for archive in archives:
        names = count_text(len(archive.repositories), "repository", "repositories")
        console.fact("Archive", f"{path_text(archive.path)}: {names}, {size_text(archive.bytes)}")
    if dry_run or not archives:
        console.document({"dry_run": dry_run, "archives": [archive.as_dict() for archive in archives]})
        console.line("Nothing was changed" if archives else "Nothing is archived")
        return 0
    count = sum(len(archive.repositories) for archive in archives)
    what = f"{count_text(count, 'archived repository', 'archived repositories')} would be removed for good"
    consent(console, force, what, console.command("checkpoints", "clear-legacy"))
    removed, size = remove_legacy(surroundings)
    console.document({"archives": removed, "bytes": size})
    console.heading(f"Removed {count_text(removed, 'archive')}, {size_text(size)}")
    return 0
