"""`safekept checkpoint adopt`: take Hermes's own checkpoints over."""

from __future__ import annotations

import time

import click

from ....console import count_text, path_text, size_text
from ....options import common_options, start
from ....words.lists import SHOWN


@click.command("adopt")
@common_options
def command(home: str, layout: str, as_json: bool) -> int:
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
