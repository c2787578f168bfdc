"""What the checkpoint race came to: the tables, and every promise held against its measurement."""

from __future__ import annotations

from typing import Any

from bench_archive import Verdict

MEGABYTE = 1_000_000
_JOBS = ("first", "changed", "unchanged")


def verdicts(document: dict[str, Any]) -> list[Verdict]:
    """The promises of the issue, in its order."""
    found = []
    for files, results in document["race"].items():
        ratio = {job: results["hermes"][job]["median"] / results["safekept"][job]["median"] for job in _JOBS}
        wanted = 5 if files <= 1000 else 8
        found += [
            Verdict(
                f"{files:,} files, one changed: times faster than Hermes", ratio["changed"], wanted, True
            ),
            Verdict(f"{files:,} files, none changed", ratio["unchanged"], 10, True),
            Verdict(f"{files:,} files, the first checkpoint", ratio["first"], 2, True),
        ]
    turns, named, projects = document["turns"], document["named"], document["projects"]
    for cap in ("count", "size"):
        ours = document["caps"][f"safekept {cap}"]
        what = f"turns across the {cap} cap, relative to those below"
        found.append(Verdict(what, ours["across"] / ours["below"], 1.25, False))
    calm = turns["p99"] / turns["safekept"]["median"]
    size = turns["safekept_bytes"] / turns["hermes_bytes"]
    return [
        *found,
        Verdict("99th percentile with maintenance, relative to the median", calm, 3, False),
        Verdict("late turns relative to early ones", turns["late"] / turns["early"], 1.5, False),
        Verdict("store after all turns, relative to Hermes's", size, 1, False),
        Verdict("metadata's share of the store", 100 * turns["metadata_share"], 50, False, " %"),
        Verdict("a named file, relative to git status", named["safekept"] / named["git_status"], 0.5, False),
        Verdict("among many projects, relative to alone", projects["among"] / projects["alone"], 1.5, False),
    ]


def report(document: dict[str, Any]) -> list[str]:
    """Tables for a person; times in milliseconds."""
    lines = [f"  {'':<22} {'first':>10} {'one changed':>12} {'unchanged':>10}"]
    for files, results in document["race"].items():
        lines += [_row(files, name, jobs) for name, jobs in results.items()]
    large = document["largest"]
    lines.append(_row(large["files"], "safekept", large) + "   (Hermes stores nothing)")
    lines += ["", "  Crossing a cap: median of the turns below; median and slowest of those across"]
    for name, cap in document["caps"].items():
        cells = [f"{1000 * cap[key]:>9.1f}" for key in ("below", "across", "slowest_across")]
        lines.append(f"    {name:<18} {' '.join(cells)}")
    turns, named = document["turns"], document["named"]
    ours, theirs = turns["safekept_bytes"] / MEGABYTE, turns["hermes_bytes"] / MEGABYTE
    share = 100 * turns["metadata_share"]
    median, tail = 1000 * turns["safekept"]["median"], 1000 * turns["p99"]
    return [
        *lines,
        "",
        f"  After {turns['number']} turns: {ours:.1f} MB (metadata {share:.0f} %), Hermes {theirs:.1f} MB",
        f"  Those turns: median {median:.1f}, 99th percentile {tail:.1f}"
        f"; Hermes's median {1000 * turns['hermes']['median']:.1f}",
        f"  One named file of {named['files']:,}: {1000 * named['safekept']:.1f}"
        f"; git status {1000 * named['git_status']:.1f}",
    ]


def _row(files: int, name: str, jobs: dict[str, Any]) -> str:
    cells = [f"{1000 * jobs[job]['median']:.1f}" for job in _JOBS]
    return f"  {files:>7,} {name:<14} {cells[0]:>10} {cells[1]:>12} {cells[2]:>10}"
