"""`safekept snapshot --all`: of every agent's home on this machine, one after the other.

One that fails stops no other; each is told by itself, and the worst of them is the exit code.
"""

from __future__ import annotations

from safekept.actions.schedule.steps import homes_of
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.core.errors import SafekeptError
from safekept.home.scan import Selection
from safekept.schedule.tasks import Plan

from ....console import path_text
from ....options import start
from .create import result_document, show_taken


def take_every(
    kind: str,
    label: str,
    quick: bool,
    full: bool,
    no_secrets: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    as_json: bool,
) -> int:
    settings, context, console = start(as_json)
    selection = Selection(
        include=include or settings.texts("backup.include"),
        exclude=exclude or settings.texts("backup.exclude"),
        secrets=not no_secrets,
        quick=quick,
    )
    deadline, codes = settings.number("database.deadline"), []
    narrowed = bool(set(selection.exclude) - set(settings.texts("backup.exclude")))
    taken: list[dict[str, object]] = []
    failed: list[dict[str, object]] = []
    for home in homes_of(context, context.choices.schedule or Plan()):
        named = ["--home", home]
        try:
            place = context.locate(home)
            request = SnapshotRequest(
                place, kind, label, selection, deadline=deadline, full=full, narrowed=narrowed
            )
            result = create_snapshot(context, request, console.listener())
        except SafekeptError as error:
            console.finish()
            failed.append({"home": home, **error.as_dict()})
            console.line(f"No snapshot of {path_text(home)}: {error.what}")
            codes.append(error.exit_code)
            continue
        console.finish()
        taken.append(result_document(console, result, named))
        codes.append(show_taken(console, result, named))
        console.line("")
    console.document({"snapshots": taken, "failed": failed})
    return 1 if 1 in codes else max(codes, default=1)
