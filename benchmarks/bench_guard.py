"""What does a guarded command cost beyond itself, beside an unchanged snapshot of the same home?

See README.md for the data and the method. Prints seconds and processor seconds, the ratio held against
its target, and the curve over the size of the home; `--json` prints every measurement.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
from collections.abc import Callable

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from bench_archive import read_through  # noqa: E402
from made.datasets import Home, kept_home  # noqa: E402
from report.ending import finish, limit_of  # noqa: E402
from report.measure import Run, measured  # noqa: E402
from report.promises import Verdict, held  # noqa: E402
from report.results import HERMES_PYTHON, SAFEKEPT, Result  # noqa: E402
from report.scratch import Scratch  # noqa: E402

MEGABYTE = 1_000_000
ROUNDS = 9
UNCHANGED, GUARD, ALONE = "safekept snapshot, unchanged", "safekept guard -- true", "true"
ALWAYS, TOUCHED = "safekept snapshot --kind pre-update", "safekept guard -- one row written"
#: What an update may do to a database: one transaction.
WRITE = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
    "c.execute(\"insert or replace into state_meta values ('bench', hex(randomblob(8)))\"); c.commit()"
)


class Arena:
    """One copy of a home and one user."""

    def __init__(self, home: Home, place: str) -> None:
        # The made homes are kept for other benchmarks, and a row is written here.
        self.home = os.path.join(place, "agent", ".hermes")
        shutil.copytree(home.path, self.home, symlinks=True)
        self.user = os.path.join(place, "user")
        os.makedirs(self.user)
        self.results: dict[str, Result] = {}

    def environment(self) -> dict[str, str]:
        places = {
            f"XDG_{kind}_HOME": os.path.join(self.user, kind.lower())
            for kind in ("CONFIG", "DATA", "STATE", "CACHE")
        }
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": self.user,
            "HERMES_HOME": self.home,
            **places,
        }

    def run(self, name: str, *words: str) -> Run:
        run = measured([*words], self.environment())
        self.results.setdefault(name, Result()).runs.append(run)
        return run

    def guarded(self, name: str, *words: str) -> None:
        run = self.run(name, SAFEKEPT, "guard", "--", *words)
        if "nothing was lost" not in run.output:
            raise SystemExit(f"the guard did not check:\n{run.output}")


def race(home: Home, place: str, rounds: int, say: Callable[[str], None]) -> dict[str, Result]:
    arena = Arena(home, place)
    say("the first snapshot, and one more to settle ...")
    read_through(arena.home)
    for _ in range(2):
        measured([SAFEKEPT, "snapshot", "create", "--json"], arena.environment())
    say("unchanged ...")
    jobs: list[Callable[[], object]] = [
        lambda: arena.run(UNCHANGED, SAFEKEPT, "snapshot", "create", "--json"),
        lambda: arena.guarded(GUARD, "true"),
        lambda: arena.run(ALONE, "true"),
    ]
    for number in range(rounds):
        for job in jobs if number % 2 == 0 else reversed(jobs):
            job()
    say("beside it: with every database checked, and with one that the command wrote to ...")
    database = os.path.join(arena.home, "state.db")
    for _ in range(3):
        arena.run(ALWAYS, SAFEKEPT, "snapshot", "create", "--kind", "pre-update", "--json")
    for _ in range(2):
        arena.guarded(TOUCHED, sys.executable, "-c", WRITE, database)
    return arena.results


def processor(result: Result) -> float:
    return statistics.median(run.processor_seconds for run in result.runs)


def verdicts(results: dict[str, Result]) -> list[Verdict]:
    unchanged, guard, alone = results[UNCHANGED], results[GUARD], results[ALONE]
    wall = (guard.seconds - alone.seconds) / unchanged.seconds
    work = (processor(guard) - processor(alone)) / processor(unchanged)
    return [
        held("guard", "guard beyond its command, relative to an unchanged snapshot", wall),
        held("guard", "the same in processor seconds", work),
        held("guard", "peak memory of guard", guard.peak / MEGABYTE),
    ]


def rows(results: dict[str, Result]) -> list[str]:
    lines = [f"  {'':<38} {'seconds':>8} {'processor':>10} {'peak':>8}"]
    for name, result in results.items():
        peak = f"{result.peak / MEGABYTE:,.0f} MB"
        lines.append(f"  {name:<38} {result.seconds:8.2f} {processor(result):10.2f} {peak:>8}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench guard", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--size", type=float, default=1.0, help="gigabytes of the home in the race")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is run")
    parser.add_argument("--growth", default="0.1,0.5,2", help="sizes for the curve; empty for none")
    parser.add_argument(
        "--directory", default="/tmp/safekept-bench", help="where homes are kept and work is done"
    )
    options = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    os.makedirs(options.directory, exist_ok=True)
    sizes = [float(size) for size in options.growth.split(",") if size]
    homes = {size: kept_home(options.directory, size, HERMES_PYTHON) for size in [options.size, *sizes]}

    def run(size: float) -> dict[str, Result]:
        say(f"a home of {size:g} GB")
        with Scratch(dir=options.directory, prefix="guard-") as place:
            return race(homes[size], place, options.rounds, say)

    results = run(options.size)
    growth = {size: results if size == options.size else run(size) for size in sizes}
    judged = verdicts(results)
    document = {
        "race": {name: result.as_dict() for name, result in results.items()},
        "growth": {f"{s:g}": {n: r.as_dict() for n, r in found.items()} for s, found in growth.items()},
    }
    home = homes[options.size]
    lines = [f"Home: {home.bytes / MEGABYTE:,.0f} MB, {home.files:,} files", "", *rows(results)]
    for size, found in growth.items():
        lines += ["", f"A home of {size:g} GB", *rows(found)]
        lines += [verdict.line() for verdict in verdicts(found)]
    limit = limit_of(results, (GUARD, UNCHANGED))
    return finish(judged, document, lines, limit=limit, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
