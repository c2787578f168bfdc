"""How fast, how small and how lean are archives and imports, beside the real peers in one run?

See README.md for the data and the method. Prints a table of medians, ratios and targets, then how
time and memory grow with the size of the home; `--json` prints every single measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from datasets import Home, kept_home  # noqa: E402
from measure import Run, measured  # noqa: E402
from support.home.homes import LiveWriter  # noqa: E402

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


class Arena:
    """One home, and the contenders that carry it away and bring it back.

    Every import goes into a directory of its own that nobody used before, and nothing is deleted
    until the end: creating files soon after a mass delete is many times slower on ext4.
    """

    def __init__(self, home: Home, place: str) -> None:
        self.home, self.place = home, place
        self.results: dict[str, Result] = {}
        self._serial = 0

    def fresh(self, name: str) -> str:
        self._serial += 1
        path = os.path.join(self.place, f"{self._serial:03}-{name}")
        os.makedirs(path)
        return path

    def environment(self, home: str) -> dict[str, str]:
        """A user who owns nothing but this home."""
        user = self.fresh("user")
        places = {
            f"XDG_{kind}_HOME": os.path.join(user, kind.lower())
            for kind in ("CONFIG", "DATA", "STATE", "CACHE")
        }
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": user, "HERMES_HOME": home, **places}

    @contextlib.contextmanager
    def agent(self) -> Iterator[None]:
        """The home's agent at work: a turn of conversation some thirty times a second."""
        with LiveWriter(os.path.join(self.home.path, "state.db"), pause=0.03, words=60, autocheckpoint=1000):
            yield

    def record(self, name: str, run: Run, output: str = "") -> None:
        result = self.results.setdefault(name, Result())
        result.runs.append(run)
        if output:
            result.output_bytes.append(os.path.getsize(output))

    # ── the jobs; each returns the archive it wrote ──

    def hermes_zip(self) -> str:
        output = os.path.join(self.fresh("hermes-zip"), "home.zip")
        with self.agent():
            run = measured([HERMES, "backup", "-o", output], self.environment(self.home.path))
        if "Backup complete" not in run.output:
            raise SystemExit(f"Hermes did not make a complete backup:\n{run.output}")
        self.record("hermes backup", run, output)
        return output

    def safekept_archive(self, form: str) -> str:
        output = os.path.join(self.fresh("safekept"), f"home.{form}")
        command = [SAFEKEPT, "backup", "--format", form, "-o", output]
        with self.agent():
            run = measured(command, self.environment(self.home.path))
        self.record(f"safekept backup {form}", run, output)
        return output

    def tar_zstd(self) -> str:
        output = os.path.join(self.fresh("tar"), "home.tar.zst")
        parent, name = os.path.split(self.home.path)
        script = 'set -o pipefail; tar -cf - -C "$1" "$2" | zstd -q -T0 -3 > "$3" && zstd -q -t "$3"'
        command = ["bash", "-c", script, "bash", parent, name, output]
        self.record("tar | zstd, zstd -t", measured(command, self.environment(self.home.path)), output)
        return output

    def hermes_import(self, archive: str) -> None:
        target = self.fresh("hermes-target")
        run = measured([HERMES, "import", archive, "-f"], self.environment(target))
        self.check_import(target)
        self.record("hermes import", run)

    def safekept_import(self, archive: str, name: str) -> None:
        target = self.fresh("safekept-target")
        run = measured([SAFEKEPT, "import", archive, "-f"], self.environment(target))
        self.check_import(target)
        self.record(name, run)

    def check_import(self, target: str) -> None:
        """A contender that did not bring the home back has not run the race."""
        files = sum(len(names) for _, _, names in os.walk(target))
        if (
            files < self.home.files
            or os.path.getsize(os.path.join(target, "state.db")) < self.home.database_bytes
        ):
            raise SystemExit(f"the import into {target} is not whole: {files} of {self.home.files} files")

    def round(self, number: int) -> None:
        """Every contender once; the order turns around from round to round."""
        archives: dict[str, str] = {}

        def keep(name: str, job: Callable[[], str]) -> Callable[[], None]:
            return lambda: archives.__setitem__(name, job())

        making = [
            keep("hermes", self.hermes_zip),
            keep("zip", lambda: self.safekept_archive("zip")),
            keep("tar", self.tar_zstd),
            keep("tar.zst", lambda: self.safekept_archive("tar.zst")),
        ]
        taking = [
            lambda: self.hermes_import(archives["hermes"]),
            lambda: self.safekept_import(archives["zip"], "safekept import zip"),
            lambda: self.safekept_import(archives["tar.zst"], "safekept import tar.zst"),
            lambda: self.safekept_import(archives["hermes"], "safekept import Hermes's zip"),
        ]
        for jobs in (making, taking):
            for job in jobs if number % 2 == 0 else reversed(jobs):
                job()


@dataclass(frozen=True)
class Verdict:
    """One promise held against its measurement."""

    what: str
    measured: float
    target: float
    at_least: bool
    unit: str = "×"

    @property
    def passed(self) -> bool:
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def line(self) -> str:
        bound = "at least" if self.at_least else "at most"
        verdict = "PASS" if self.passed else "MISS"
        measured_text = f"{self.measured:8.2f}{self.unit}"
        return f"  {verdict}  {self.what:<58} {measured_text}  {bound} {self.target:g}{self.unit}"


def verdicts(results: dict[str, Result]) -> list[Verdict]:
    hermes, ours = results["hermes backup"], results["safekept backup zip"]
    peer, tar = results["tar | zstd, zstd -t"], results["safekept backup tar.zst"]
    back, imported = results["hermes import"], results["safekept import zip"]
    most = max(result.peak for name, result in results.items() if name.startswith("safekept")) / MEGABYTE
    return [
        Verdict("zip: times faster than Hermes's backup", hermes.seconds / ours.seconds, 8, True),
        Verdict("zip: size relative to Hermes's", ours.size / hermes.size, 1.06, False),
        Verdict("tar.zst: time relative to tar | zstd -T0 -3, zstd -t", tar.seconds / peer.seconds, 1, False),
        Verdict("tar.zst: size relative to theirs", tar.size / peer.size, 1.06, False),
        Verdict("import: times faster than Hermes's import", back.seconds / imported.seconds, 2, True),
        Verdict("peak memory of every safekept command", most, 200, False, " MB"),
    ]


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


def read_through(path: str) -> None:
    """Warm the page cache, so that the first contender does not pay for the disk."""
    for directory, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(directory, name), "rb") as file:
                while file.read(1 << 20):
                    pass


def race(home: Home, rounds: int, scratch: str, say: Callable[[str], None]) -> dict[str, Result]:
    with tempfile.TemporaryDirectory(dir=scratch, prefix="race-") as place:
        arena = Arena(home, place)
        read_through(home.path)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds} on {home.gigabytes:g} GB ...")
            arena.round(number)
        say("cleaning up ...")
        return arena.results


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench archive", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--size", type=float, default=1.0, help="gigabytes of the home in the race")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--growth", default="0.1,0.5,1,2", help="sizes for the growth curve; empty for none")
    parser.add_argument(
        "--directory", default="/tmp/safekept-bench", help="where homes are kept and work is done"
    )
    options = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    os.makedirs(options.directory, exist_ok=True)
    sizes = [float(size) for size in options.growth.split(",") if size]
    homes = {}
    for size in dict.fromkeys([options.size, *sizes]):
        say(f"making or finding the home of {size:g} GB ...")
        homes[size] = kept_home(options.directory, size, HERMES_PYTHON)
    results = race(homes[options.size], options.rounds, options.directory, say)
    growth = {
        size: results if size == options.size else race(homes[size], 1, options.directory, say)
        for size in sizes
    }
    judged = verdicts(results)
    if options.json:
        document = {
            "machine": machine(),
            "homes": {f"{size:g}": asdict(home) for size, home in homes.items()},
            "race": {name: result.as_dict() for name, result in results.items()},
            "growth": {
                f"{size:g}": {n: r.as_dict() for n, r in found.items()} for size, found in growth.items()
            },
            "verdicts": [{**asdict(verdict), "passed": verdict.passed} for verdict in judged],
        }
        print(json.dumps(document, indent=2))
        return 0 if all(verdict.passed for verdict in judged) else 1
    home = homes[options.size]
    database = home.database_bytes / MEGABYTE
    print(f"\nHome: {home.bytes / MEGABYTE:,.0f} MB, {home.files:,} files, state.db {database:,.0f} MB")
    print(f"Machine: {machine()['processor']}, {os.cpu_count()} cores; medians of {options.rounds} rounds\n")
    print("\n".join(table(results)))
    print("\nPromises")
    print("\n".join(verdict.line() for verdict in judged))
    if growth:
        print_growth(growth, homes)
    return 0 if all(verdict.passed for verdict in judged) else 1


def print_growth(growth: dict[float, dict[str, Result]], homes: dict[float, Home]) -> None:
    print("\nGrowth: seconds and peak MB by the size of the home")
    print(f"  {'':<30}" + "".join(f"{homes[size].bytes / 1e9:>14.2f} GB" for size in growth))
    for name in next(iter(growth.values())):
        cells = (
            f"{found[name].seconds:9.2f} {found[name].peak / MEGABYTE:6.0f} " for found in growth.values()
        )
        print(f"  {name:<30}" + "".join(cells))


if __name__ == "__main__":
    assert shutil.which("zstd"), "zstd is missing; ./bench installs it"
    sys.exit(main())
