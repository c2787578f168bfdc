"""How long do the commands take that a person asks every day, beside a Python that does nothing?

See README.md for the data and the method. Prints the ratios to `python3 -c pass` of the same run with their
spread, what each command imports, and its target; `--json` prints every measurement.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from dataclasses import asdict, dataclass, field

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "workshop")]

from figures_start import PASS, Place, places  # noqa: E402

from report.ending import finish  # noqa: E402
from report.promises import PROMISES, Verdict, held  # noqa: E402

#: The front door alone: Python, what reads a command line, and nothing of what a command does.
DOOR = "--version"
#: What is run; each has its promise.
WANTED = tuple(PROMISES["start"])
ROUNDS = 15


@dataclass
class Series:
    """Every run of one command, in seconds of the clock and of the processor."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return statistics.median(self.wall)

    @property
    def work(self) -> float:
        return statistics.median(self.processor)

    def spread(self, base: float) -> tuple[float, float]:
        """The ratios between which the middle half of all runs lies."""
        low, _, high = statistics.quantiles(self.wall, n=4)
        return low / base, high / base


def race(place: Place, rounds: int) -> dict[str, Series]:
    commands = [PASS, DOOR, *WANTED]
    series = {command: Series() for command in commands}
    place.before("rollback 1")
    # The first round is not counted: what it leaves in caches is there for every later one.
    for number in range(-1, rounds):
        for command in commands if number % 2 else reversed(commands):
            wall, processor = place.run(command)
            if number >= 0:
                series[command].wall.append(wall)
                series[command].processor.append(processor)
    return series


def verdicts(series: dict[str, Series]) -> list[Verdict]:
    """Processor time in times of a Python that does nothing."""
    base = series[PASS].work
    return [held("start", command, series[command].work / base) for command in WANTED]


def report(series: dict[str, Series], modules: dict[str, tuple[int, int]]) -> list[str]:
    base, work = series[PASS].seconds, series[PASS].work
    lines = [
        f"  {'':<22} {'ms':>7} {'ratio':>7}  {'middle half':>13} {'processor':>10}  modules, of safekept"
    ]
    for command, one in series.items():
        low, high = one.spread(base)
        every, ours = modules.get(command, (0, 0))
        lines.append(
            f"  {command:<22} {1000 * one.seconds:7.1f} {one.seconds / base:6.1f}×"
            f"  {f'{low:.1f} to {high:.1f}':>13} {one.work / work:9.1f}×"
            + (f"  {every:>7}, {ours}" if every else "")
        )
    return lines


def limit(series: dict[str, Series], modules: dict[str, tuple[int, int]]) -> str:
    """What the rest of the time is, in a sentence, from this run."""
    door = series[DOOR].work
    shares = {command: door / series[command].work for command in WANTED}
    least, most = min(shares, key=lambda one: shares[one]), max(shares, key=lambda one: shares[one])
    longest = max(WANTED, key=lambda one: series[one].work)
    each = 1000 * (series[longest].work - door) / max(1, modules[longest][0] - modules[DOOR][0])
    return (
        f"What is now the limit: the start of Python and of the command line ({DOOR}) is {shares[most]:.0%} "
        f"of `{most}` and {shares[least]:.0%} of `{least}`; the rest is mostly imports: `{longest}` takes in "
        f"{modules[longest][0]} modules, with its own work {each:.2f} ms of processor time for each."
    )


def counts(imports: dict[str, object]) -> tuple[int, int]:
    every, ours = imports["every"], imports["modules"]
    assert isinstance(every, int) and isinstance(ours, int)
    return every, ours


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench start", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is run")
    options = parser.parse_args()
    with places([CHECKOUT]) as (place,):
        series = race(place, max(2, options.rounds))
        found = {command: place.imports(command) for command in (DOOR, *WANTED)}
    modules = {command: counts(one) for command, one in found.items()}
    judged = verdicts(series)
    document = {"race": {command: asdict(one) for command, one in series.items()}, "imports": found}
    lines = report(series, modules)
    return finish(judged, document, lines, limit=limit(series, modules), as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
