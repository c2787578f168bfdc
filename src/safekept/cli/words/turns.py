"""A turn that went back, in words: place by place, and one command that takes all of it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..console import Console, count_text, path_text, time_text
from .lists import ago, fitting, listing
from .rollback import show_paths

if TYPE_CHECKING:
    from safekept.actions.projects.points import PointRollback


def show_turn_rollback(console: Console, outcome: PointRollback) -> int:
    """What was done in every place, and where nothing could be; the exit code."""
    from safekept.actions.projects.home_points.point import HomePoint
    from safekept.actions.projects.turns.outcome import TurnRollback

    assert isinstance(outcome, TurnRollback)
    planned, turn = outcome.planned, outcome.turn
    undo = console.command("undo", outcome.operation) if outcome.operation else None
    console.document({"dry_run": planned, **outcome.as_dict(), "undo": undo})
    console.heading(_heading(outcome), planned or outcome.complete)
    if turn.time_ns and not outcome.undoes:
        words = f", {path_text(turn.reason)}" if turn.reason else ""
        console.fact("Began", fitting(console, ago(turn.time_ns) + words, 13))
    at_home, again = False, () if outcome.undoes else ("rollback", "--turn", turn.id)
    for part in outcome.parts:
        if not part.worth_showing:
            continue
        console.line(f"{path_text(part.place) or 'In the home of an agent'}:")
        if part.outcome is not None:
            show_paths(console, part.outcome, again)
            at_home = at_home or (part.changed and isinstance(part.outcome.point, HomePoint))
        listing(console, "Left", [f"{path}: {why}" for path, why in part.left])
        if part.error is not None:
            console.fact("Not done", part.error.what)
            for step in part.error.advice():
                console.fact("", path_text(step))
        for note in part.notes:
            console.fact("Note", path_text(note))
    if not outcome.changed:
        stays = len(outcome.stays)
        console.line(
            f"No file was changed: {count_text(stays, 'path')} " + ("stays" if stays == 1 else "stay")
            if stays
            else "Nothing differs: no file had to be changed"
        )
    if planned:
        console.line("Nothing was changed")
        return 0
    if outcome.operation:
        console.fact("Time", time_text(outcome.seconds))
        if at_home:
            console.line("Restart the agent to use what came back")
        console.line(f"Changed your mind? `{undo}`")
    return 0 if outcome.complete else 3


def _heading(outcome: PointRollback) -> str:
    planned, title = outcome.planned, outcome.point.title
    if outcome.undoes:
        return f"{'Would take' if planned else 'Took'} the rollback of {title} back"
    if not outcome.changed:
        return f"{'Would change' if planned else 'Changed'} nothing for {title}"
    return f"{'Would take' if planned else 'Took'} {title} back"
