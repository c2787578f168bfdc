"""How every benchmark ends: one document, or the table with its promises and what is now the limit."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from report.promises import Verdict
from report.results import Result, machine


def finish(
    judged: Sequence[Verdict],
    document: Mapping[str, object],
    lines: Sequence[str],
    *,
    limit: str,
    as_json: bool,
) -> int:
    """Print it; 1 where a promise was missed."""
    here, load = machine(), os.getloadavg()
    if as_json:
        verdicts = [{**asdict(verdict), "passed": verdict.passed} for verdict in judged]
        whole = {"machine": here, "load": load, **document, "verdicts": verdicts, "limit": limit}
        print(json.dumps(whole, indent=2))
    else:
        loads = ", ".join(f"{one:.1f}" for one in load)
        print(f"\nMachine: {here['processor']}, {os.cpu_count()} cores, load {loads}\n")
        print("\n".join([*lines, "", "Promises", *(verdict.line() for verdict in judged), "", limit]))
    return 0 if all(verdict.passed for verdict in judged) else 1


def limit_of(results: Mapping[str, Result], ours: Sequence[str]) -> str:
    """What our jobs wait for, in a sentence, from this run: how busy they kept the processor."""
    shares = [(name, _busy(results[name])) for name in ours if name in results]
    told = "; ".join(f"{name} keeps the processor {share:.0%} busy" for name, share in shares)
    return (
        f"What is now the limit: {told}. Near 100 % it is the processor; far below, one core, the disk "
        "or the other end is waited for."
    )


def _busy(result: Result) -> float:
    """The share of all cores that a job used while it ran."""
    cores = os.cpu_count() or 1
    return statistics.median(run.processor_seconds / (run.seconds * cores) for run in result.runs)
