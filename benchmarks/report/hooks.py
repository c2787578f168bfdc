"""What the race of the hooks came to: the table, and every promise held against its measurement."""

from __future__ import annotations

import statistics
from typing import Any

from report.promises import Verdict, held

HERMES, PLUGIN, BARE = "Hermes's own", "plugin", "Hermes without"
HOOK, AFTER, ALONE = "hook before", "hook after", "hook, no helper"
NOTHING, STATUS = "python3 -c pass", "git status"
ROWS = (HERMES, PLUGIN, HOOK, AFTER, ALONE, NOTHING, STATUS)


def verdicts(races: dict[int, Any]) -> list[Verdict]:
    found = []
    for files, race in races.items():
        medians = {name: series["median"] for name, series in race.items()}
        of, bare = f"{files:,} files", medians[NOTHING] + medians[STATUS]
        if files >= 10_000:
            for what, name in (("plugin", PLUGIN), ("hook program", HOOK)):
                less = medians[HERMES] / medians[name]
                found.append(held("hooks", f"{what}, times less than Hermes's own", less, of=of))
        if files >= 10_000 or len(races) == 1:
            beside = medians[HOOK] / bare
            found.append(held("hooks", "hook relative to python3 + git status", beside, of=of))
    return found


def limit(races: dict[int, Any]) -> str:
    """What the hook's time is made of, in a sentence, from this run."""
    files = max(races)
    medians = {name: series["median"] for name, series in races[files].items()}
    return (
        f"What is now the limit: of the hook before a shell command in {files:,} files, a bare start of "
        f"Python is {medians[NOTHING] / medians[HOOK]:.0%}; the rest is nearly all the look at each file, "
        f"which `git status` does in {medians[STATUS] / medians[HOOK]:.0%} of the hook's time."
    )


def report(races: dict[int, Any]) -> list[str]:
    lines = [f"  {'':<28} {'median':>9} {'99th':>9}   ratio to Hermes's own"]
    for files, race in races.items():
        base = race[HERMES]["median"]
        for name in ROWS:
            series = race[name]
            ratio = f"{base / series['median']:>8.1f}×" if name != HERMES else ""
            row = (
                f"{files:>7,} {name:<20} {1000 * series['median']:>9.1f} {1000 * series['p99']:>9.1f} {ratio}"
            )
            lines.append("  " + row)
        whole = statistics.median(race[PLUGIN]["whole"]) - statistics.median(race[BARE]["whole"])
        lines.append(
            f"          whole `write_file` calls with the plugin take {1000 * whole:.1f} more than without"
        )
    return lines
