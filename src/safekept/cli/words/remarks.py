"""What was counted, and what was left out and why: the lines that backups and snapshots share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from safekept.core.entries import Outcome, Remark
from safekept.home.layout import is_file

from ..console import Console, count_text, path_text, size_text

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


def show_remarks(console: Console, remarks: list[Remark], report: str = "") -> None:
    """Everything that was left out or noticed, by what became of it; long lists are cut, and say so."""
    cut = False
    for outcome, title in _TITLES.items():
        group = [remark for remark in remarks if remark.outcome is outcome]
        if not group:
            continue
        files, count = sum(r.files for r in group), sum(r.bytes for r in group)
        console.line(f"{title}: {count_text(files, 'file')}" + (f", {size_text(count)}" if count else ""))
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


def in_full_lines(databases: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """`state.db: 1 search table in full: a trigger that …`, once for each reason; `snapshot show` has all."""
    found: dict[str, list[str]] = {}
    for path, lean in sorted(databases.items()):
        for _, reason in lean.get("kept") or ():
            found.setdefault(str(reason), []).append(path)
    lines = []
    for reason, paths in found.items():
        several = len(set(paths))
        where = count_text(several, "database") if several > 1 else path_text(paths[0])
        lines.append(f"{where}: {count_text(len(paths), 'search table')} in full: {path_text(reason)}")
    return lines


def _items(value: object) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []
