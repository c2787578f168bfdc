"""`safekept checkpoint adopt`: take Hermes's own checkpoints over."""

from __future__ import annotations

import time

import click

from ....console import count_text, path_text, size_text
from ....options import common_options, start
from ....words.grace import gone_text
from ....words.lists import SHOWN, consent


@click.command("adopt")
@common_options
def adopt_command(home: str, layout: str, as_json: bool) -> int:
    """Copy the checkpoints that Hermes took into safekept's store, with their times, reasons and files.

    Older repositories, one per directory, are archived as they are, with their history listed. Nothing
    of Hermes's is changed or removed. Running it again takes only what is new. Exit code 3: some
    could not be read.
    """
    from safekept.actions.projects.adopting import adopt_checkpoints

    _, context, console = start(as_json)
    place = context.locate(home, layout)
    found = adopt_checkpoints(context, place.home, console.listener())
    console.finish()
    console.document(found.as_dict())
    taken = sum(project.taken for project in found.projects)
    console.heading(
        f"Adopted {count_text(taken, 'checkpoint')} from {path_text(found.source)}", found.complete
    )
    for project in found.projects:
        known = f", {project.known:,} were here already" if project.known else ""
        name = path_text(project.project or project.name)
        console.fact("Project", f"{name}: {count_text(project.taken, 'checkpoint')}{known}")
        for text in project.lost[:SHOWN]:
            console.fact("Lost", path_text(text))
    if found.legacy is not None:
        console.fact("Archived", f"{path_text(found.legacy.path)}, {size_text(found.legacy.bytes)}")
        for repository in found.legacy.repositories[:SHOWN]:
            name = path_text(repository.workdir or repository.name)
            count = count_text(len(repository.history), "checkpoint")
            console.fact("", f"{name}: {count}{_span(repository.history)}")
    if not found.projects and found.legacy is None:
        console.line("There is nothing to adopt")
    console.line("Nothing of Hermes's was changed")
    return 0 if found.complete else 3


def _span(history: list[dict[str, object]]) -> str:
    times = [float(str(entry["time"])) for entry in history if entry.get("time")]
    if not times:
        return ""
    first, last = (time.strftime("%Y-%m-%d", time.localtime(moment)) for moment in (min(times), max(times)))
    return f", {first}" if first == last else f", {first} to {last}"


# `safekept checkpoint clear-legacy`: remove the older repositories that `adopt` archived.


@click.command("clear-legacy")
@click.option("-f", "--force", "--yes", "force", is_flag=True, help="Do not ask.")
@click.option("--now", is_flag=True, help="For good: without the three days in which it can be brought back.")
@click.option("--dry-run", is_flag=True, help="Show what would go; change nothing.")
@common_options
def clear_legacy_command(force: bool, now: bool, dry_run: bool, home: str, layout: str, as_json: bool) -> int:
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
    document = done.facts.document("archives", "bytes")
    console.document(
        {
            "operation": done.operation,
            **document,
            "kept_until": done.kept_until or None,
            "undo": undo or None,
        }
    )
    console.heading(f"Removed {count_text(document['archives'], 'archive')}, {size_text(document['bytes'])}")
    console.fact("Kept", gone_text(done.kept_until))
    if undo:
        console.fact("", f"bring it back: `{undo}`")
    return 0
