"""What was counted, and what was left out and why: the lines that backups and snapshots share."""

from __future__ import annotations

from collections.abc import Mapping

from safekept.core.entries import Outcome, Remark

from ..console import Console, count_text, path_text, size_text

#: Counts that a machine compares and a person need not read.
_DETAILS = frozenset({"settings_sections"})


def census_lines(census: Mapping[str, object]) -> list[str]:
    """One line per profile: `12 sessions, 840 messages, …`; what is unknown says so."""
    lines = []
    for profile, counts in census.items():
        if not isinstance(counts, dict) or not counts:
            continue
        shown = {name: count for name, count in counts.items() if count != 0 and name not in _DETAILS}
        parts = [_counted(name.replace("_", " "), count) for name, count in shown.items()]
        lines.append(("" if profile == "default" else f"{profile}: ") + ", ".join(parts))
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
    Outcome.NOTED: "Noted",
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
    if cut and report:
        console.line(f"The full list is in {report}")
