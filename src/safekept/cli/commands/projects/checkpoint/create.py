"""`safekept checkpoint [create] [DIR]`: keep a project as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from safekept.settings.policies import policy_from

from ....as_owner import begin_as_owner
from ....console import Console, count_text, path_text, time_text
from ....options import common_options, start
from ....words.coverage import amount_text, left_text, show_kept
from ....words.lists import SHOWN, directory_of, standing_in

if TYPE_CHECKING:
    from safekept.actions.projects.checkpoint import CheckpointTaken


@click.command("create")
@click.argument("directory", metavar="[DIR]", required=False, default="")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--reason", metavar="TEXT", default="", help="What it is kept for; shown in the list.")
@click.option("--session", metavar="ID", default="", help="The agent's session it belongs to.")
@click.option("--turn", metavar="ID", default="", help="The turn of that session.")
@click.option(
    "--show", is_flag=True, help="Take none: show what of the project is kept, where, and what is left out."
)
@common_options
def command(
    directory: str,
    files: tuple[str, ...],
    reason: str,
    session: str,
    turn: str,
    show: bool,
    home: str,
    layout: str,
    as_json: bool,
) -> int:
    """Keep the project in DIR (default: where you are) as it is now; `safekept rollback` goes back to it.

    It has two halves. What git would show is kept as it is. What `.gitignore` hides, secrets (`.env`, keys)
    and large files are kept encrypted, with the vault's key. Left out are only directories that can be made
    again and what exceeds the budget; all of it is listed, and `--show` lists it before anything happens.

    With FILE only those files are taken, ignored ones too. A home, a shared directory and a system directory
    are refused. Exit code 3: something is not in it that should be.
    """
    from safekept.actions.projects.checkpoint import take_checkpoint
    from safekept.checkpoints.checkpoint import REASONS

    place = directory_of(directory)
    begin_as_owner(place)
    settings, context, console = start(as_json)
    if show:
        from safekept.actions.projects.hidden.coverage import coverage
        from safekept.settings.policies import take_settings_from

        found = coverage(
            context, place, take_settings_from(settings, context, home, layout), console.listener()
        )
        console.finish()
        console.document(found.as_dict())
        show_kept(console, found)
        return 3 if found.exposed else 0
    result = take_checkpoint(
        context,
        place,
        policy_from(settings, context, home, layout),
        reason=reason,
        files=files,
        session=session,
        turn=turn,
        listener=console.listener(),
    )
    console.finish()
    taken, point = result.taken, result.taken.checkpoint
    moved, latest = place != standing_in(), point or taken.latest
    back = console.command("rollback", *([latest.id] if latest else []), *(("--dir", place) if moved else ()))
    console.document(
        {
            "operation": result.operation,
            **result.facts.document("project", "seconds"),
            "checkpoint": point.as_dict() if point else None,
            "not_stored": dict(taken.counts),
            "left_out": {reason: list(paths) for reason, paths in taken.left_out.items()},
            "skipped": [
                {"path": one.path, "reason": one.reason, "detail": one.detail} for one in taken.skipped
            ],
            "repositories": list(taken.repositories),
            "hidden": hidden_document(result),
            "remarks": list(taken.remarks),
            "rollback": back,
        }
    )
    if point is None:
        console.line(f"Nothing changed in {path_text(result.project)} since the last checkpoint")
        return 0
    console.heading(f"Checkpoint {point.id} of {path_text(result.project)}")
    console.fact("Files", f"{point.files:,}")
    console.fact("Time", time_text(taken.seconds))
    for one in taken.skipped[:SHOWN]:
        console.fact(
            "Not taken", f"{path_text(one.path)}: {one.detail or REASONS.get(one.reason, one.reason)}"
        )
    show_hidden(console, result)
    covered = ("git", *(HIDDEN_REASONS if taken.hidden is not None else ()))
    left = {reason: count for reason, count in taken.counts.items() if count and reason not in covered}
    for name in sorted(left, key=lambda reason: -left[reason]):
        named = [path_text(path) for path in taken.left_out.get(name, ())]
        some = " and ".join(filter(None, (", ".join(named[:-1]), *named[-1:])))
        if left[name] > len(named):
            some = count_text(left[name], "path") + (f", such as {some}" if some else "")
        console.fact("Left out", f"{some}: {REASONS.get(name, name)}")
    for name in taken.repositories[:SHOWN]:
        console.fact("Left out", f"{path_text(name)}: its files are kept, its own history is not")
    if len(taken.repositories) > SHOWN:
        console.fact("", f"… and {len(taken.repositories) - SHOWN:,} more repositories")
    for remark in taken.remarks:
        console.fact("Note", remark)
    console.line(f"Go back to it with: `{back}`")
    return 3 if taken.skipped or result.hidden_error is not None else 0


# The hidden half of a checkpoint, in words.


#: What the visible half leaves to the hidden half.
HIDDEN_REASONS = ("ignored", "secret", "excluded", "oversize")
_FEW = 5


def hidden_document(result: CheckpointTaken) -> dict[str, object] | None:
    """The hidden half of a checkpoint, for programs; None where nothing hidden was looked at."""
    look = result.taken.hidden
    if look is None:
        return None
    from safekept.actions.projects.hidden.coverage import left_out

    kept, error = result.hidden, result.hidden_error
    return {
        "look": look.id,
        "snapshot": kept.snapshot if kept else None,
        "files": kept.files if kept else 0,
        "bytes": kept.bytes if kept else 0,
        "moved": list(kept.moved) if kept else [],
        "error": error.as_dict() if error else None,
        "left_out": [one.as_dict() for one in left_out(result.project, look, measure=False)],
    }


def show_hidden(console: Console, result: CheckpointTaken) -> None:
    look = result.taken.hidden
    if look is None:
        return
    from safekept.actions.projects.hidden.coverage import left_out

    if result.hidden_error is not None:
        console.fact("Hidden", f"NOT KEPT: {result.hidden_error.what}")
        for step in result.hidden_error.next_steps:
            console.fact("", step)
    elif result.hidden is not None and result.hidden.files:
        amount = amount_text(result.hidden.files, result.hidden.bytes)
        console.fact("Hidden", f"{amount}: ignored files, secrets and large files, encrypted")
    left = left_out(result.project, look, measure=False)
    for one in [one for one in left if not one.remakeable][:_FEW]:
        console.fact("Not kept", left_text(one))
    some = [one for one in left if one.remakeable]
    if some:
        names = ", ".join(path_text(one.path) for one in some[:_FEW]) + (" …" if len(some) > _FEW else "")
        console.fact("Left out", f"{names}: can be made again (`--show` says why)")
