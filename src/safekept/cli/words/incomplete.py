"""What is missing in a snapshot or a backup that ended incomplete, and what to do about it: said first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from safekept.core.entries import Outcome, Remark

from ..console import Console, path_text

_NAMED = 3
#: By what became of it: what to do. Damage has its own sentence, for there a snapshot may help.
_ADVICE = {
    Outcome.UNREADABLE: "could not be read: see that you may read it, and that the disk is sound",
    Outcome.LOCKED: (
        "was locked all the time: stop the program that holds it, or wait longer (`database.deadline`)"
    ),
    Outcome.CHANGED: "changed while it was read: stop the program that writes it",
    Outcome.OUTSIDE: (
        "leads out of the home: move what lies there into the home, or keep a copy of it yourself"
    ),
}


def show_missing(
    console: Console,
    remarks: Sequence[Remark],
    sound: Mapping[str, str] | None,
    named: Sequence[str],
    again: Sequence[str] = ("snapshot",),
) -> None:
    """`named`: words that mean the home; `again`: the command that takes another one.

    `sound`: which snapshot has a damaged database sound; None where nobody looked.
    """
    missing = [one for one in remarks if one.incomplete]
    paths = list(dict.fromkeys(one.path for one in missing))
    console.line(f"Not whole in it: {_some(paths, _NAMED)}")
    for path in [one.path for one in missing if one.outcome is Outcome.DAMAGED][:_NAMED]:
        console.item(_damaged(console, path, sound, named))
    for outcome, advice in _ADVICE.items():
        if group := [one.path for one in missing if one.outcome is outcome]:
            console.item(f"{_some(group, 1)} {advice}")
    console.item(f"Then take another: `{console.command(*again, *named)}`")


def _damaged(console: Console, path: str, sound: Mapping[str, str] | None, named: Sequence[str]) -> str:
    what = f"{path_text(path)} is damaged"
    see = console.command("doctor", *named)
    if sound is None:
        return f"{what}. What can be done: `{see}`"
    if snapshot := sound.get(path):
        command = console.command("snapshot", "restore", snapshot[:8], path, *named)
        return f"{what}. Bring the last sound one back: `{command}`"
    return f"{what}, and no snapshot is known to have it sound: look for an older backup, and see `{see}`"


def _some(paths: Sequence[str], shown: int) -> str:
    more = len(paths) - shown
    names = ", ".join(path_text(path) or "the home itself" for path in paths[:shown])
    return f"{names} and {more:,} more" if more > 0 else names
