"""What does keeping what git hides cost an agent, and how much does it take?

See README.md for the method. One project (10,000 visible and 5,000 hidden files, 1 GB, a live database of
300 MB) belongs to two users: one has `hidden_budget = 0`. Their calls before a shell command take turns.
`--json` prints every measurement.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Hashable

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from report.ending import finish  # noqa: E402
from report.measure import measured  # noqa: E402
from report.promises import held  # noqa: E402
from report.results import SAFEKEPT  # noqa: E402
from report.scratch import Scratch  # noqa: E402
from safekept.integrations.calls import Call  # noqa: E402
from safekept.integrations.places import Place  # noqa: E402
from safekept.integrations.protect import protect  # noqa: E402

ROUNDS, TURNS = 60, 100
VISIBLE, HIDDEN, MEGABYTES, DATABASE = 10_000, 5_000, 1000, 300


class Project:
    """Files of which one changes at a time."""

    def __init__(self, path: str, scale: float) -> None:
        self.path = path
        for number in range(int(VISIBLE * scale)):
            self.put(f"src/{number % 200}/{number}.py", f"print({number})\n" * 40)
        each = max(1, int((MEGABYTES - DATABASE) * 1_000_000 / HIDDEN))
        for number in range(int(HIDDEN * scale)):
            self.put(f"data/{number % 100}/{number}.bin", os.urandom(each))
        self.put(".gitignore", "data/\n")
        self.put(".env", "KEY=1\n")
        self.rows = sqlite3.connect(os.path.join(path, "data", "app.db"))
        self.rows.execute("pragma journal_mode=wal")
        with self.rows:
            self.rows.execute("create table t (x)")
            many = ((os.urandom(4000),) for _ in range(int(DATABASE * 250 * scale)))
            self.rows.executemany("insert into t values (?)", many)
        subprocess.run(["git", "init", "-q", path], check=True)

    def turn(self, number: int) -> None:
        """An agent's turn that changes a secret and a row of the database."""
        self.put(".env", f"KEY={number}\n")
        with self.rows:
            self.rows.execute("update t set x = ? where rowid = ?", (os.urandom(4000), 1 + number * 7))

    def put(self, name: str, content: bytes | str) -> None:
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)


class User:
    """One who has the hidden half, or has not; calls are made in this process, as a helper makes them."""

    def __init__(self, place: str, name: str, budget: str) -> None:
        self.home = os.path.join(place, name)
        os.makedirs(self.home)
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.home}
        self.environment["SAFEKEPT_CHECKPOINTS_HIDDEN_BUDGET"] = budget
        self._later: dict[Hashable, Callable[[], None]] = {}
        self.place = Place.load(self.environment, later=self._later.__setitem__)
        self.seconds: dict[str, list[float]] = {}
        self.processor: dict[str, list[float]] = {}
        self.late: dict[str, int] = {}

    def call(self, project: str, kind: str, turn: int) -> None:
        call = Call("before", "claude-code", "Bash", (), True, project, "s", str(turn))
        began, worked = time.perf_counter(), time.process_time()
        outcome = protect(call, self.place)
        self.seconds.setdefault(kind, []).append(time.perf_counter() - began)
        self.processor.setdefault(kind, []).append(time.process_time() - worked)
        assert not outcome.failures and outcome.checkpoints, outcome
        self.late[kind] = self.late.get(kind, 0) + bool(outcome.not_kept)
        while self._later:
            self._later.pop(next(iter(self._later)))()

    def stored(self) -> int:
        """Bytes of the hidden half."""
        place = os.path.join(self.home, ".local/share/safekept/checkpoints/hidden")
        found = (os.path.join(above, name) for above, _, names in os.walk(place) for name in names)
        return sum(os.lstat(path).st_size for path in found)


def race(project: Project, users: list[User], rounds: int) -> None:
    """Calls in turn: nothing hidden changed, then a secret changed."""
    turn = 0
    for kind in ("nothing", "secret"):
        for number in range(-3, rounds):
            project.put("src/0/0.py", f"print({kind!r}, {number})\n")
            if kind == "secret":
                project.put(".env", f"KEY={number}\n")
            time.sleep(0.05)  # an agent thinks for longer
            for user in users if number % 2 else users[::-1]:
                turn += 1
                user.call(project.path, kind if number >= 0 else "warming", turn)


def grow(project: Project, user: User, turns: int) -> int:
    """Bytes that so many turns add, in each of which a secret and a row of the database change."""
    before = user.stored()
    for number in range(turns):
        project.turn(number)
        measured([SAFEKEPT, "checkpoint", project.path], user.environment, (0, 3))
    return user.stored() - before


def by_git(project: str, place: str) -> tuple[float, int]:
    """As `git stash -u -a` would: everything into git's own objects, here of another repository."""
    words = ["git", "--git-dir", place, "--work-tree", project]
    subprocess.run(["git", "init", "-q", "--bare", place], check=True)  # nothing happens where there is one
    began = time.perf_counter()
    subprocess.run([*words, "add", "-A", "-f", "."], check=True, capture_output=True)
    seconds = time.perf_counter() - began
    found = (os.path.join(above, name) for above, _, names in os.walk(place) for name in names)
    return seconds, sum(os.lstat(path).st_size for path in found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench hidden", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each call is made")
    parser.add_argument("--turns", type=int, default=TURNS, help="over how many turns growth is measured")
    parser.add_argument("--scale", type=float, default=1.0, help="of the project")
    parser.add_argument("--directory", default=None, help="where everything is made")
    options = parser.parse_args()
    with Scratch(dir=options.directory, prefix="hidden-") as place:
        project = Project(os.path.join(place, "project"), options.scale)
        both, visible = User(place, "both", "2"), User(place, "visible", "0")
        command = [SAFEKEPT, "checkpoint", project.path]
        first = {user: measured(command, user.environment) for user in (both, visible)}
        warm = measured(command, both.environment)
        race(project, [both, visible], max(5, options.rounds))
        added = grow(project, both, options.turns)
        aside = os.path.join(place, "by-git")
        git_seconds, git_bytes = by_git(project.path, aside)
        project.turn(options.turns)
        again_seconds, again_bytes = by_git(project.path, aside)
        began = time.perf_counter()
        shutil.copytree(project.path, os.path.join(place, "copied"), symlinks=True)
        copy_seconds = time.perf_counter() - began
        project.rows.close()
    medians = {
        kind: [1000 * statistics.median(user.seconds[kind]) for user in (both, visible)]
        for kind in ("nothing", "secret")
    }
    worked = {
        kind: [1000 * statistics.median(user.processor[kind]) for user in (both, visible)] for kind in medians
    }
    last = [1000 * sorted(both.seconds[kind])[int(0.99 * len(both.seconds[kind]))] for kind in medians]
    ratio = medians["nothing"][0] / medians["nothing"][1]
    judged = [
        held("hidden", "a warm call, relative to the visible half alone", ratio),
        held("hidden", "99th percentile of a warm call", last[0]),
        held("hidden", "peak memory of the first time", first[both].peak_bytes / 1e6),
    ]
    lines = [
        f"  first time            {first[both].seconds:8.1f} s, visible alone {first[visible].seconds:.1f} s",
        f"  warm command           {1000 * warm.seconds:8.0f} ms, {warm.peak_bytes / 1e6:.0f} MB",
        *(
            f"  call, {kind:<7} changed  {both_ms:8.1f} ms, visible alone {alone:.1f} ms; 99th {slow:.0f}; "
            f"processor {work[0]:.0f} and {work[1]:.0f}; late {both.late[kind]} of {len(both.seconds[kind])}"
            for (kind, (both_ms, alone)), slow, work in zip(
                medians.items(), last, worked.values(), strict=True
            )
        ),
        f"  growth                 {added / 1e6:8.1f} MB over {options.turns} turns",
        f"  all of it by git       {git_seconds:8.1f} s, {git_bytes / 1e6:.0f} MB; a turn later "
        f"{again_seconds:.1f} s, {(again_bytes - git_bytes) / 1e6:.1f} MB more",
        f"  all of it by a copy    {copy_seconds:8.1f} s, {MEGABYTES * options.scale:.0f} MB a time",
        f"  load                   {os.getloadavg()[0]:8.1f}",
    ]
    document = {
        "both": both.seconds,
        "visible": visible.seconds,
        "processor": {"both": both.processor, "visible": visible.processor},
        "growth": added,
        "late": both.late,
    }
    limit = "What is now the limit: an lstat of every hidden file, and ten syncs where one changed."
    return finish(judged, document, lines, limit=limit, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
