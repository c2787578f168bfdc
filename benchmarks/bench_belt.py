"""What does the seat belt add to a warm snapshot and to a checkpoint?

See README.md for the method. Two users with the same home and project take turns, one with
`seat_belt = false`; `--json` prints every measurement.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from report.ending import finish  # noqa: E402
from report.measure import measured  # noqa: E402
from report.promises import held  # noqa: E402
from report.results import SAFEKEPT  # noqa: E402
from report.scratch import Scratch  # noqa: E402
from safekept.checkpoints.store import Store  # noqa: E402
from safekept.checkpoints.take import TakeSettings, take  # noqa: E402
from support.home.homes import make_hermes_home  # noqa: E402

ROUNDS, TURNS = 25, 8
WITH, WITHOUT = "true", "false"


class User:
    """A home, a project of 400 files, and whether there is a seat belt."""

    def __init__(self, place: str, belt: str) -> None:
        self.place, self.belt = os.path.join(place, belt), belt
        self.home, self.project = os.path.join(self.place, ".hermes"), os.path.join(self.place, "project")
        make_hermes_home(self.home, profiles=(), awkward=False)
        for number in range(400):
            write(os.path.join(self.project, str(number % 20), f"{number}.txt"), f"{number}\n" * 50)
        self.store = os.path.join(self.place, "checkpoints")
        self.settings = TakeSettings(seat_belt=belt == WITH)
        self.snapshots: list[float] = []
        self.checkpoints: list[float] = []

    def snapshot(self) -> float:
        """Processor seconds of one, after one small file changed."""
        write(os.path.join(self.home, "memories", "MEMORY.md"), f"at {time.time_ns()}\n")
        settings = {"PATH": os.environ["PATH"], "HOME": self.place, "SAFEKEPT_SEAT_BELT": self.belt}
        return measured([SAFEKEPT, "snapshot"], settings, (0, 3)).processor_seconds

    def checkpoint(self) -> float:
        """Processor seconds of one, in this process, after one file changed."""
        write(os.path.join(self.project, "0", "0.txt"), f"at {time.time_ns()}\n")
        began = time.process_time()
        with Store.open(self.store) as store:
            take(store, self.project, settings=self.settings)
        return time.process_time() - began


def write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def race(place: str, rounds: int) -> list[User]:
    users = [User(place, belt) for belt in (WITH, WITHOUT)]
    for number in range(-2, rounds):  # the first two are not counted: they make the stores and their caches
        for user in users if number % 2 else reversed(users):
            seconds = user.snapshot()
            points = [user.checkpoint() for _ in range(TURNS)]
            if number >= 0:
                user.snapshots.append(seconds)
                user.checkpoints += points
    return users


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench belt", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is run")
    parser.add_argument("--directory", default=None, help="where the stores are made")
    options = parser.parse_args()
    with Scratch(dir=options.directory, prefix="belt-") as place:
        users = race(place, max(2, options.rounds))
    snapshot = [statistics.median(user.snapshots) for user in users]
    checkpoint = [1000 * statistics.median(user.checkpoints) for user in users]
    judged = [
        held("belt", "a warm snapshot with it, relative to one without", snapshot[0] / snapshot[1]),
        held("belt", "a checkpoint with it: milliseconds more", checkpoint[0] - checkpoint[1]),
    ]
    lines = [
        f"  snapshot    {1000 * snapshot[0]:8.1f} ms with it, {1000 * snapshot[1]:8.1f} ms without",
        f"  checkpoint  {checkpoint[0]:8.2f} ms with it, {checkpoint[1]:8.2f} ms without",
    ]
    document = {user.belt: {"snapshots": user.snapshots, "checkpoints": user.checkpoints} for user in users}
    limit = "What is now the limit: a mode and, as root, an attribute is set on each directory that is used."
    return finish(judged, document, lines, limit=limit, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
