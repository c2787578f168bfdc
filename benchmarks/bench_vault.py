"""What does a point in time cost, in seconds and in bytes, beside restic, borg and Hermes in one run?

See README.md for the data and the method. Prints the table, ratios held against their targets, and
curves over database size, file count and number of snapshots; `--json` prints every measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from made.datasets import Home, Language, kept_home  # noqa: E402
from made.days import live_one_day  # noqa: E402
from peers.stores import Peer, peers  # noqa: E402
from report.ending import finish, limit_of  # noqa: E402
from report.measure import Run, measured  # noqa: E402
from report.promises import Verdict, held  # noqa: E402
from report.results import HERMES, HERMES_PYTHON, SAFEKEPT, Result, table  # noqa: E402
from report.scratch import Scratch  # noqa: E402
from support.home.homes import LiveWriter  # noqa: E402

MEGABYTE = 1_000_000
DAYS = 14
#: The quickest sound copy of a live database: SQLite's backup in one step. (The `.backup` of the sqlite3
#: shell starts anew whenever the agent commits, and takes minutes.)
COPIER = os.path.join(CHECKOUT, "benchmarks", "made", "copy_database.py")


class Arena:
    """One copy of a home, one user, one vault, one repository of each peer."""

    def __init__(self, home: Home, place: str) -> None:
        self.place = place
        # The made homes are kept for other benchmarks: days are lived in a copy.
        self.home = os.path.join(place, "agent", ".hermes")
        shutil.copytree(home.path, self.home, symlinks=True)
        self.files = home.files
        self.user = os.path.join(place, "user")
        self.copies = os.path.join(place, "copies")
        os.makedirs(self.user)
        os.makedirs(self.copies)
        self.language = Language(77)
        self.day = 0
        self.results: dict[str, Result] = {}
        self.peers = peers(place)
        for peer in self.peers:
            measured(peer.make(), self.environment(peer))

    def environment(self, peer: Peer | None = None) -> dict[str, str]:
        places = {
            f"XDG_{kind}_HOME": os.path.join(self.user, kind.lower())
            for kind in ("CONFIG", "DATA", "STATE", "CACHE")
        }
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": self.user,
            "HERMES_HOME": self.home,
            **(peer.environment() if peer else {}),
            **places,
        }

    @contextlib.contextmanager
    def agent(self) -> Iterator[None]:
        """The home's agent at work: two turns of conversation a second."""
        with LiveWriter(os.path.join(self.home, "state.db"), pause=0.5, words=60, autocheckpoint=1000):
            yield

    def record(self, name: str, run: Run, size: int = 0) -> None:
        result = self.results.setdefault(name, Result())
        result.runs.append(run)
        if size:
            result.output_bytes.append(size)

    # ── the jobs ──

    def safekept_snapshot(self, name: str) -> None:
        before = tree_bytes(self.vault)
        run = measured([SAFEKEPT, "snapshot", "create", "--json"], self.environment())
        self.record(f"safekept {name}", run, tree_bytes(self.vault) - before)

    def peer_snapshot(self, peer: Peer, name: str, *, live: bool) -> None:
        """No peer can capture a live database: it is given a copy, and the copying is counted."""
        before = tree_bytes(peer.repository)
        if live:
            script = 'set -e; "$1" "$2" "$3" "$4"; shift 4; exec "$@"'
            database = os.path.join(self.home, "state.db")
            copying = [sys.executable, COPIER, database, os.path.join(self.copies, "state.db")]
            command = ["sh", "-c", script, "sh", *copying]
            command += peer.store([self.home, self.copies], without=database)
        else:
            command = peer.store([self.home])
        run = measured(command, self.environment(peer))
        self.record(f"{peer.name} {name}", run, tree_bytes(peer.repository) - before)

    def all_snapshots(self, number: int, name: str, *, live: bool) -> None:
        """Ours and every peer's, in turn."""
        theirs = [functools.partial(self.peer_snapshot, peer, name, live=live) for peer in self.peers]
        in_turn(number, functools.partial(self.safekept_snapshot, name), *theirs)

    def hermes_zip(self) -> int:
        output = os.path.join(self.place, f"hermes-{self.day}.zip")
        with self.agent():
            run = measured([HERMES, "backup", "-o", output], self.environment())
        if "Backup complete" not in run.output:
            raise SystemExit(f"Hermes did not make a complete backup:\n{run.output}")
        size = os.path.getsize(output)
        self.record("hermes zip", run, size)
        return size

    def restore(self, peer: Peer | None) -> None:
        name = peer.name if peer else "safekept"
        target = os.path.join(self.place, f"restored-{name.replace(' ', '-')}-{len(os.listdir(self.place))}")
        if peer:
            os.makedirs(target)
            command = peer.restore(target)
        else:
            command = [SAFEKEPT, "snapshot", "restore", "latest", "--into", target, "--yes", "--json"]
        run = measured(command, self.environment(peer))
        files = sum(len(names) for _, _, names in os.walk(target))
        if files < self.files:
            raise SystemExit(f"{name} did not bring everything back: {files} of {self.files} files")
        self.record(f"{name} full restore", run)

    def live_a_day(self) -> None:
        self.day += 1
        live_one_day(self.home, self.day, self.language)

    @property
    def vault(self) -> str:
        return os.path.join(self.user, "data", "safekept", "vault")


def tree_bytes(path: str) -> int:
    return sum(
        os.lstat(os.path.join(directory, name)).st_size
        for directory, _, names in os.walk(path)
        for name in names
    )


def in_turn(number: int, *jobs: Callable[[], None]) -> None:
    """The order turns around, so that nobody always goes first."""
    for job in jobs if number % 2 == 0 else reversed(jobs):
        job()


def race(home: Home, place: str, days: int, say: Callable[[str], None]) -> dict[str, Result]:
    arena = Arena(home, place)
    say("first snapshots ...")
    arena.all_snapshots(1, "first", live=False)
    say("unchanged ...")
    arena.safekept_snapshot("settling")  # files as young as the first snapshot are looked at once more
    for number in range(5):
        arena.all_snapshots(number, "unchanged", live=False)
    for peer in arena.peers:
        # Their copy's first time is not a day's price.
        arena.peer_snapshot(peer, "with a copied database", live=True)
    if days:
        say("Hermes's zip of the first day ...")
        arena.hermes_zip()
    for number in range(days):
        say(f"day {number + 1} of {days} ...")
        arena.live_a_day()
        with arena.agent():
            arena.all_snapshots(number, "day", live=True)
    if days:
        say("Hermes's zip of the last day ...")
        arena.hermes_zip()
    say("restores ...")
    for number in range(2):
        in_turn(number, *[functools.partial(arena.restore, peer) for peer in (None, *arena.peers)])
    return arena.results


def verdicts(results: dict[str, Result], peak: int) -> list[Verdict]:
    def ratio(theirs: str, ours: str) -> float:
        return results[theirs].seconds / results[f"safekept {ours}"].seconds

    ours, theirs = sum(results["safekept day"].output_bytes), sum(results["restic day"].output_bytes)
    total = ours + sum(results["safekept first"].output_bytes)
    zips = statistics.mean(results["hermes zip"].output_bytes) * len(results["safekept day"].runs)
    restore = 1 / ratio("restic full restore", "full restore")
    newer = []
    if "newer restic first" in results:
        quicker = ratio("newer restic first", "first")
        newer = [held("vault", "first: times faster than the newer restic", quicker)]
    return [
        held("vault", "first: times faster than restic", ratio("restic first", "first")),
        *newer,
        held("vault", "a day: times faster than copy + restic", ratio("restic day", "day")),
        held("vault", "a day: times faster than Hermes's zip", ratio("hermes zip", "day")),
        held("vault", "unchanged: times faster than restic", ratio("restic unchanged", "unchanged")),
        held("vault", "the days' growth relative to restic's", ours / theirs),
        held("vault", "vault after the days relative to as many zips", total / zips),
        held("vault", "full restore: time relative to restic's", restore),
        held("vault", "peak memory of every safekept command", peak / MEGABYTE),
    ]


def many_snapshots(place: str, counts: list[int], say: Callable[[str], None]) -> dict[int, dict[str, float]]:
    """Whole-process seconds of `list` and of an unchanged snapshot as history grows."""
    from support.home.homes import make_hermes_home

    user = os.path.join(place, "user")
    home = make_hermes_home(os.path.join(place, "agent", ".hermes"), awkward=False)
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": user, "HERMES_HOME": home}
    os.makedirs(user)
    curve: dict[int, dict[str, float]] = {}
    for number in range(1, max(counts) + 1):
        with open(os.path.join(home, "SOUL.md"), "a") as file:
            file.write(f"turn {number}\n")
        run = measured([SAFEKEPT, "snapshot", "create", "--json"], environment)
        if number in counts:
            say(f"{number} snapshots ...")
            lists = [measured([SAFEKEPT, "snapshot", "list", "--json"], environment) for _ in range(5)]
            curve[number] = {
                "list": statistics.median(one.seconds for one in lists),
                "create": run.seconds,
            }
    return curve


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench vault", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--size", type=float, default=1.0, help="gigabytes of the home in the race")
    parser.add_argument("--days", type=int, default=DAYS, help="days of change")
    parser.add_argument("--growth", default="0.1,0.5,2", help="sizes for the curves; empty for none")
    parser.add_argument("--snapshots", default="1,30,120", help="history lengths for the curve; empty: none")
    parser.add_argument(
        "--directory", default="/tmp/safekept-bench", help="where homes are kept and work is done"
    )
    options = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    os.makedirs(options.directory, exist_ok=True)
    sizes = [float(size) for size in options.growth.split(",") if size]
    homes = {size: kept_home(options.directory, size, HERMES_PYTHON) for size in [options.size, *sizes]}

    def run(size: float, days: int) -> dict[str, Result]:
        say(f"a home of {size:g} GB")
        with Scratch(dir=options.directory, prefix="vault-") as place:
            return race(homes[size], place, days, say)

    results = run(options.size, options.days)
    growth = {size: results if size == options.size else run(size, 1) for size in sizes}
    counts = [int(count) for count in options.snapshots.split(",") if count]
    history: dict[int, dict[str, float]] = {}
    if counts:
        with Scratch(dir=options.directory, prefix="history-") as place:
            history = many_snapshots(place, counts, say)
    peak = max(
        result.peak
        for found in [results, *growth.values()]
        for name, result in found.items()
        if name.startswith("safekept")
    )
    judged = verdicts(results, peak)
    document = {
        "race": {name: result.as_dict() for name, result in results.items()},
        "growth": {f"{s:g}": {n: r.as_dict() for n, r in found.items()} for s, found in growth.items()},
        "history": history,
    }
    home = homes[options.size]
    lines = [
        f"Home: {home.bytes / MEGABYTE:,.0f} MB, {home.files:,} files, {options.days} days of change; "
        "output is what the store grew by",
        "",
        *table(results),
    ]
    for size, found in growth.items():
        lines += ["", f"A home of {size:g} GB", *table(found)]
    if history:
        lines += ["", "History: whole-process seconds by number of snapshots"]
    for count, cells in history.items():
        lines.append(f"  {count:>6}  list {cells['list']:6.2f}  create {cells['create']:6.2f}")
    ours = [f"safekept {job}" for job in ("first", "unchanged", "day", "full restore")]
    return finish(judged, document, lines, limit=limit_of(results, ours), as_json=options.json)


if __name__ == "__main__":
    assert shutil.which("restic"), "restic is missing; ./bench installs it"
    sys.exit(main())
