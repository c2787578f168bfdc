"""What came of each scenario in each host, as one table: a test's name and its parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from .hosts import HOSTS
from .installed import version_of

_CELL = re.compile(r"tests/hosts/\S+::test_(\w+)\[([\w-]+)\]")


def lines(reports: Sequence[pytest.TestReport]) -> Iterator[str]:
    """The table, then the reason of each cell that is not exact."""
    cells: dict[str, dict[str, str]] = {}
    reasons = []
    for report in reports:
        if (found := _CELL.match(report.nodeid)) is None:
            continue
        scenario, host = found[1].replace("_", " "), found[2]
        word = _word(report)
        if word and cells.setdefault(scenario, {}).get(host) != "FAILED":
            cells[scenario][host] = word
        if word not in ("", "exact"):
            reasons.append(f"{host}, {scenario}: {word}: {_reason(report)}")
    names = [name for name in HOSTS if any(name in row for row in cells.values())]
    width = max((len(scenario) for scenario in cells), default=0)
    yield " ".join([" " * width, *(f"{name:>18}" for name in names)])
    versions = (version_of(HOSTS[name].package) or "not installed" for name in names)
    yield " ".join([" " * width, *(f"{version:>18}" for version in versions)])
    for scenario, row in sorted(cells.items()):
        yield " ".join([f"{scenario:{width}}", *(f"{row.get(name, '-'):>18}" for name in names)])
    yield from reasons


def _word(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "expected failure" if report.skipped else "FAILED"
    if report.skipped:
        return "left out"
    if report.failed:
        return "FAILED"
    return "exact" if report.when == "call" else ""


def _reason(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return report.wasxfail
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    return next((line[2:] for line in report.longreprtext.splitlines() if line.startswith("E ")), "")[:200]
