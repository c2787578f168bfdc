"""What the race of the hooks came to: the table, and every promise held against its measurement."""

from __future__ import annotations

import statistics
from typing import Any

from bench_archive import Verdict

HERMES, PLUGIN, BARE = "Hermes's own", "plugin", "Hermes without"
HOOK, AFTER, ALONE = "hook before", "hook after", "hook, no helper"
NOTHING, STATUS = "python3 -c pass", "git status"
ROWS = (HERMES, PLUGIN, HOOK, AFTER, ALONE, NOTHING, STATUS)


def verdicts(races: dict[int, Any]) -> list[Verdict]:
    found = []
    for files, race in races.items():
        medians = {name: series["median"] for name, series in race.items()}
        if files >= 10_000:
            hook = 4 if files < 40_000 else 8
            found += [
                Verdict(
                    f"{files:,} files: plugin, times less than Hermes's own",
                    medians[HERMES] / medians[PLUGIN],
                    8,
                    True,
                ),
                Verdict(
                    f"{files:,} files: hook program, times less", medians[HERMES] / medians[HOOK], hook, True
                ),
            ]
        if files == 10_000 or len(races) == 1:
            bare = medians[NOTHING] + medians[STATUS]
            found.append(
                Verdict(
                    f"{files:,} files: hook relative to python3 + git status", medians[HOOK] / bare, 3, False
                )
            )
    return found


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
