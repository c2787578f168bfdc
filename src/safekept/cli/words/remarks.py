"""What was counted, and what was left out and why: the lines that backups and snapshots share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from safekept.core.entries import NOT_ALL_COUNTED, Outcome, Remark
from safekept.home.layout import is_file

from ..console import Console, count_text, path_text, size_text

if TYPE_CHECKING:
    from safekept.actions.status.coverage import Gap
    from safekept.checkpoints.scan import LeftRecord

#: Counts that a machine compares and a person need not read.
_DETAILS = frozenset({"settings_sections"})


def show_census(console: Console, census: object) -> None:
    """What a copy holds, a line for each profile."""
    console.facts("Holds", census_lines(census) if isinstance(census, Mapping) else ())


def census_lines(census: Mapping[str, object]) -> list[str]:
    """One line per profile: `12 sessions, 840 messages, …`; what is unknown says so."""
    lines = []
    for profile, counts in census.items():
        if not isinstance(counts, dict) or not counts:
            continue
        shown = {
            name: count
            for name, count in counts.items()
            if count != 0 and name not in _DETAILS and not is_file(name)
        }
        parts = [_counted(name.replace("_", " "), count) for name, count in shown.items()]
        lines.append(
            ("" if profile == "default" else f"{profile}: ") + (", ".join(parts) or "nothing to count yet")
        )
    return lines


def _counted(name: str, count: int | None) -> str:
    if count is None:
        return f"{name} unknown"
    if count == 1:
        name = "memory" if name == "memories" else name.removesuffix("s")
    return f"{count:,} {name}"


_LISTED = 10
_TITLES = {
    Outcome.UNREADABLE: "Could not be read",
    Outcome.LOCKED: "Locked, given up",
    Outcome.CHANGED: "Kept changing while read",
    Outcome.DAMAGED: "Stored as it is, and damaged",
    Outcome.OUTSIDE: "Behind a link, not taken",
    Outcome.EXCLUDED: "Left out",
    Outcome.PASSED_OVER: "Passed over",
    Outcome.GONE: "Vanished meanwhile",
}


def amount_text(left: Sequence[Remark] | Sequence[Gap]) -> str:
    """`3 files, 1.2 MB`; `at least` where one of them was not counted to the end."""
    files, size = sum(one.files for one in left), sum(one.bytes for one in left)
    least = "at least " if any(one.reason.endswith(NOT_ALL_COUNTED) for one in left) else ""
    return f"{least}{count_text(files, 'file')}" + (f", {size_text(size)}" if size else "")


def show_remarks(console: Console, remarks: list[Remark], report: str = "") -> None:
    """Everything that was left out or noticed, by what became of it; long lists are cut, and say so."""
    cut = False
    for outcome, title in _TITLES.items():
        group = [remark for remark in remarks if remark.outcome is outcome]
        if not group:
            continue
        console.line(f"{title}: {amount_text(group)}")
        for remark in group[:_LISTED]:
            where = f"{path_text(remark.path)}: " if remark.path else ""
            console.item(f"{where}{remark.reason}")
        if len(group) > _LISTED:
            cut = True
            console.line(f"    … and {len(group) - _LISTED:,} more")
    notes = [remark for remark in remarks if remark.outcome is Outcome.NOTED]
    for remark in notes[:_LISTED]:
        console.line(f"Note: {f'{path_text(remark.path)}: ' if remark.path else ''}{remark.reason}")
    if len(notes) > _LISTED:
        cut = True
        console.line(f"Note: … and {len(notes) - _LISTED:,} more")
    if cut and report:
        console.line(f"The full list is in {report}")


# What is said of databases that are stored without their search indexes, and of those that are not.


def lean_text(lean: Mapping[str, Any] | None) -> str:
    """`stored without messages_fts (622 MB), which a restore rebuilds; note_fts in full: …`; or nothing."""
    if not isinstance(lean, Mapping):
        return ""
    parts = []
    names = [path_text(str(one.get("table", ""))) for one in _items(lean.get("tables"))]
    size = lean.get("bytes")
    if names:
        amount = f" ({size_text(size)})" if type(size) is int else ""
        parts.append(f"stored without {' and '.join(names)}{amount}, which a restore rebuilds")
    kept = lean.get("kept")
    for pair in kept if isinstance(kept, list | tuple) else ():
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            continue
        table, reason = str(pair[0]), str(pair[1])
        parts.append(f"{path_text(table) or 'everything'} in full: {path_text(reason)}")
    return "; ".join(parts)


def left_out_bytes(lean: Mapping[str, Any]) -> int:
    """What the indexes took that a database is stored without; `snapshot show` has all of it."""
    size = lean.get("bytes")
    return size if type(size) is int and _items(lean.get("tables")) else 0


def _items(value: object) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []


_FEW = 3


def not_kept_text(found: LeftRecord) -> str:
    """What is hidden in a project and not kept, in one line: `data/huge.bin (3.0 GB) and 2 more`."""
    names = [
        path_text(one.path) + (f" ({size_text(one.bytes)})" if one.bytes else "") for one in found.some[:_FEW]
    ]
    more = f" and {found.count - len(names):,} more" if found.count > len(names) else ""
    return ", ".join(names) + more


# What is missing in a snapshot or a backup that ended incomplete, and what to do about it: said first.


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

    `sound`: which snapshot has a damaged database sound; None where it was not looked.
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
