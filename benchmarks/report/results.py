"""What was measured of each contender, in a table, and where."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from dataclasses import dataclass, field

from report.measure import Run

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERMES = os.path.join(CHECKOUT, ".setup", "hermes", "bin", "hermes")
HERMES_PYTHON = os.path.join(CHECKOUT, ".setup", "hermes", "bin", "python")
SAFEKEPT = os.path.join(CHECKOUT, "safekept")
MEGABYTE = 1_000_000


@dataclass
class Result:
    """Everything measured of one contender in one job."""

    runs: list[Run] = field(default_factory=list)
    output_bytes: list[int] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return statistics.median(run.seconds for run in self.runs)

    @property
    def peak(self) -> int:
        return max(run.peak_bytes for run in self.runs)

    @property
    def size(self) -> float:
        return statistics.median(self.output_bytes) if self.output_bytes else 0

    def as_dict(self) -> dict[str, object]:
        return {
            "median_seconds": self.seconds,
            "peak_bytes": self.peak,
            "median_output_bytes": self.size,
            "output_bytes": self.output_bytes,
            "runs": [run.as_dict() for run in self.runs],
        }


def table(results: dict[str, Result]) -> list[str]:
    lines = [f"  {'':<30} {'median s':>9} {'min-max s':>15} {'CPU s':>7} {'peak MB':>8} {'output MB':>10}"]
    for name, result in results.items():
        seconds = [run.seconds for run in result.runs]
        cpu = statistics.median(run.processor_seconds for run in result.runs)
        span = f"{min(seconds):.2f}-{max(seconds):.2f}"
        size = f"{result.size / MEGABYTE:10.1f}" if result.size else f"{'-':>10}"
        lines.append(
            f"  {name:<30} {result.seconds:9.2f} {span:>15} {cpu:7.1f} {result.peak / MEGABYTE:8.0f} {size}"
        )
    return lines


def machine() -> dict[str, object]:
    def first_line(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0]

    with open("/proc/cpuinfo") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    hermes = first_line(
        HERMES_PYTHON, "-c", "import importlib.metadata as m; print(m.version('hermes-agent'))"
    )
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "hermes-agent": hermes,
        "tar": first_line("tar", "--version"),
        "zstd": first_line("zstd", "--version"),
        "date": time.strftime("%Y-%m-%d"),
    }
