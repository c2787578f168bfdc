"""What the checkpoint race came to: the tables, and every promise held against its measurement."""

from __future__ import annotations

from typing import Any

from report.promises import Verdict, held

MEGABYTE = 1_000_000
_JOBS = ("first", "changed", "unchanged")


def verdicts(document: dict[str, Any]) -> list[Verdict]:
    """What was promised, in order."""
    found = []
    for files, results in document["race"].items():
        ratio = {job: results["hermes"][job]["median"] / results["safekept"][job]["median"] for job in _JOBS}
        for what, job in (
            ("one changed: times faster than Hermes", "changed"),
            ("none changed: times faster than Hermes", "unchanged"),
            ("the first checkpoint: times faster than Hermes", "first"),
        ):
            found.append(held("checkpoints", what, ratio[job], of=f"{files:,} files"))
    turns, named, projects = document["turns"], document["named"], document["projects"]
    for cap in ("count", "size"):
        ours = document["caps"][f"safekept {cap}"]
        what = "turns across a cap, relative to those below"
        found.append(held("checkpoints", what, ours["across"] / ours["below"], of=cap))
    calm = turns["p99"] / turns["safekept"]["median"]
    size = turns["safekept_bytes"] / turns["hermes_bytes"]
    return [
        *found,
        held("checkpoints", "99th percentile with maintenance, relative to the median", calm),
        held("checkpoints", "late turns relative to early ones", turns["late"] / turns["early"]),
        held("checkpoints", "store after all turns, relative to Hermes's", size),
        held("checkpoints", "metadata's share of the store", 100 * turns["metadata_share"]),
        held("checkpoints", "a named file, relative to git status", named["safekept"] / named["git_status"]),
        held("checkpoints", "among many projects, relative to alone", projects["among"] / projects["alone"]),
    ]


def limit(document: dict[str, Any]) -> str:
    """What a checkpoint is made of, in a sentence, from this run."""
    files = max(document["race"])
    ours = {job: document["race"][files]["safekept"][job]["median"] for job in _JOBS}
    least = document["race"][min(document["race"])]["safekept"]["unchanged"]["median"]
    look = 1e6 * (ours["unchanged"] - least) / max(1, files - min(document["race"]))
    return (
        f"What is now the limit: of a checkpoint of {files:,} files with one changed, "
        f"{ours['unchanged'] / ours['changed']:.0%} is the same with none changed: the look at each file, "
        f"{look:.1f} µs of it for every file more."
    )


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
