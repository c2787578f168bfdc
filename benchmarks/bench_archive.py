"""How fast, how small and how lean are archives and imports, beside the real peers in one run?

See README.md for the data and the method. Prints a table of medians, ratios and targets, then how
time and memory grow with the size of the home; `--json` prints every single measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from made.datasets import Home, kept_home  # noqa: E402
from report.ending import finish, limit_of  # noqa: E402
from report.measure import Run, measured  # noqa: E402
from report.promises import Verdict, held  # noqa: E402
from report.results import HERMES, HERMES_PYTHON, SAFEKEPT, Result, table  # noqa: E402
from report.scratch import Scratch  # noqa: E402
from support.home.homes import LiveWriter  # noqa: E402

MEGABYTE = 1_000_000


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


def verdicts(results: dict[str, Result]) -> list[Verdict]:
    hermes, ours = results["hermes backup"], results["safekept backup zip"]
    peer, tar = results["tar | zstd, zstd -t"], results["safekept backup tar.zst"]
    back, imported = results["hermes import"], results["safekept import zip"]
    most = max(result.peak for name, result in results.items() if name.startswith("safekept")) / MEGABYTE
    return [
        held("archive", "zip: times faster than Hermes's backup", hermes.seconds / ours.seconds),
        held("archive", "zip: size relative to Hermes's", ours.size / hermes.size),
        held("archive", "tar.zst: times faster than tar | zstd -T0 -3, zstd -t", peer.seconds / tar.seconds),
        held("archive", "tar.zst: size relative to theirs", tar.size / peer.size),
        held("archive", "import: times faster than Hermes's import", back.seconds / imported.seconds),
        held("archive", "peak memory of every safekept command", most),
    ]


def read_through(path: str) -> None:
    """Warm the page cache, so that the first contender does not pay for the disk."""
    for directory, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(directory, name), "rb") as file:
                while file.read(1 << 20):
                    pass


def race(home: Home, rounds: int, scratch: str, say: Callable[[str], None]) -> dict[str, Result]:
    with Scratch(dir=scratch, prefix="race-") as place:
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
    document = {
        "homes": {f"{size:g}": asdict(home) for size, home in homes.items()},
        "race": {name: result.as_dict() for name, result in results.items()},
        "growth": {f"{size:g}": {n: r.as_dict() for n, r in found.items()} for size, found in growth.items()},
    }
    home = homes[options.size]
    database = home.database_bytes / MEGABYTE
    lines = [
        f"Home: {home.bytes / MEGABYTE:,.0f} MB, {home.files:,} files, state.db {database:,.0f} MB; "
        f"medians of {options.rounds} rounds",
        "",
        *table(results),
        *(growth_lines(growth, homes) if growth else ()),
    ]
    ours = ("safekept backup zip", "safekept backup tar.zst", "safekept import zip")
    return finish(judged, document, lines, limit=limit_of(results, ours), as_json=options.json)


def growth_lines(growth: dict[float, dict[str, Result]], homes: dict[float, Home]) -> Iterator[str]:
    yield "\nGrowth: seconds and peak MB by the size of the home"
    yield f"  {'':<30}" + "".join(f"{homes[size].bytes / 1e9:>14.2f} GB" for size in growth)
    for name in next(iter(growth.values())):
        cells = (
            f"{found[name].seconds:9.2f} {found[name].peak / MEGABYTE:6.0f} " for found in growth.values()
        )
        yield f"  {name:<30}" + "".join(cells)


if __name__ == "__main__":
    assert shutil.which("zstd"), "zstd is missing; ./bench installs it"
    sys.exit(main())
