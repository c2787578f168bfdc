"""What do lean databases save, and what do they cost, beside restic and our own full mode?

A home in Hermes's real schema, bulk-loaded, then days that are lived through Hermes's own API with the
merges of its search indexes as they fall: every other day is long enough for one. Each contender has a
store of its own. See README.md; `--json` prints every measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, name) for name in ("benchmarks", "tests", "src")]

from bench_vault import tree_bytes  # noqa: E402
from made.datasets import DATABASE_SHARE, SMALL_SHARE, Home, Language, kept_home, message  # noqa: E402
from report.ending import finish, limit_of  # noqa: E402
from report.measure import Run, measured  # noqa: E402
from report.promises import Verdict, held  # noqa: E402
from report.results import HERMES_PYTHON, SAFEKEPT, Result, table  # noqa: E402
from report.scratch import Scratch  # noqa: E402
from safekept.home.landing import unfilled  # noqa: E402

MEGABYTE = 1_000_000
DAYS = 14
#: What a made home is without its transcripts.
WITHOUT_TRANSCRIPTS = DATABASE_SHARE + SMALL_SHARE
#: Messages of a quiet day, and of one on which Hermes merges its indexes by itself (every 1,000 writes).
QUIET, BUSY = 400, 1100
LEAN, FULL, RESTIC = "lean", "full", "restic"
CAPTURES = 5
IN_PLACE = "lean restore, in place"

#: One day through Hermes's API; prints how often it merged.
DAY = """
import json, pathlib, sys, hermes_state
merges = []
real = hermes_state.SessionDB.optimize_fts
hermes_state.SessionDB.optimize_fts = lambda self: (merges.append(1), real(self))[1]
db = hermes_state.SessionDB(pathlib.Path(sys.argv[1]))
db.create_session(sys.argv[2], "cli", model="some/model")
for role, content, calls in json.load(sys.stdin):
    db.append_message(sys.argv[2], role, content, tool_calls=calls and json.loads(calls))
db.close()
print(len(merges))
"""


class Arena:
    """One copy of a home, and three stores of it."""

    def __init__(self, home: Home, place: str) -> None:
        self.place = place
        self.home = os.path.join(place, "agent", ".hermes")
        # Hermes keeps conversations in its database; the transcripts of the made homes are another tool's.
        shutil.copytree(home.path, self.home, symlinks=True, ignore=shutil.ignore_patterns("session-*.jsonl"))
        self.database = os.path.join(self.home, "state.db")
        self.language = Language(78)
        self.day = 0
        self.results: dict[str, Result] = {}
        self.merges: list[int] = []
        self.filled = 0.0  # seconds until searches found everything after a restore in place
        measured(["restic", "init"], self.environment(RESTIC))

    def environment(self, name: str) -> dict[str, str]:
        user = os.path.join(self.place, name)
        os.makedirs(user, exist_ok=True)
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": user,
            "HERMES_HOME": self.home,
            "SAFEKEPT_DATABASES": FULL if name == FULL else LEAN,
            "RESTIC_REPOSITORY": os.path.join(user, "repository"),
            "RESTIC_PASSWORD": "not-a-secret",
            **{f"XDG_{kind}_HOME": os.path.join(user, kind.lower()) for kind in ("CONFIG", "DATA", "CACHE")},
        }

    def store_of(self, name: str) -> str:
        below = "repository" if name == RESTIC else os.path.join("data", "safekept", "vault")
        return os.path.join(self.place, name, below)

    def record(self, name: str, run: Run, size: int = 0) -> None:
        result = self.results.setdefault(name, Result())
        result.runs.append(run)
        if size:
            result.output_bytes.append(size)

    def store(self, job: str) -> None:
        """Everybody stores the home, at rest: restic could not do otherwise."""
        names = [LEAN, FULL, RESTIC] if self.day % 2 else [RESTIC, FULL, LEAN]
        for name in names:
            before = tree_bytes(self.store_of(name)) if os.path.exists(self.store_of(name)) else 0
            command = [SAFEKEPT, "snapshot", "--json"]
            if name == RESTIC:
                command = ["restic", "backup", "-q", self.home]
            run = measured(command, self.environment(name))
            self.record(f"{name} {job}", run, tree_bytes(self.store_of(name)) - before)

    def live_a_day(self) -> str:
        """Hermes writes; what kind of day it was."""
        self.day += 1
        count = BUSY if self.day % 2 else QUIET
        session = f"day-{self.day:04}"
        said = [message(self.language, session, number)[1:4] for number in range(count)]
        nowhere = os.path.join(self.place, "nowhere")
        os.makedirs(nowhere, exist_ok=True)
        done = subprocess.run(
            [HERMES_PYTHON, "-I", "-c", DAY, self.database, session],
            env={"PATH": os.environ["PATH"], "HOME": nowhere, "HERMES_HOME": nowhere},
            input=json.dumps(said),
            capture_output=True,
            text=True,
            check=True,
        )
        merges = int(done.stdout.split()[-1])
        self.merges.append(merges)
        with contextlib.closing(sqlite3.connect(self.database)) as connection:
            connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        return "day with a merge" if merges else "day without"

    def restore(self) -> None:
        for name in (FULL, LEAN):
            target = os.path.join(self.place, f"restored-{name}")
            run = measured(
                [SAFEKEPT, "snapshot", "restore", "latest", "--into", target, "--yes", "--json"],
                self.environment(name),
            )
            self.record(f"{name} restore", run)
        target = os.path.join(self.place, f"restored-{RESTIC}")
        command = ["restic", "restore", "-q", "latest", "--target", target]
        self.record(f"{RESTIC} restore", measured(command, self.environment(RESTIC)))

    def restore_in_place(self) -> None:
        """The home is gone and comes back: until the agent can work, and until searches find everything."""
        shutil.rmtree(self.home)
        began = time.perf_counter()
        command = [SAFEKEPT, "snapshot", "restore", "latest", "--yes", "--json"]
        self.record(IN_PLACE, measured(command, self.environment(LEAN)))
        while unfilled(self.home):
            time.sleep(0.05)
        self.filled = time.perf_counter() - began

    def rebuild_seconds(self) -> float:
        """The part of the lean restore into a directory that made the indexes anew."""
        journal = os.path.join(self.place, LEAN, "data", "safekept", "journal.jsonl")
        with open(journal) as file:
            records = [json.loads(line) for line in file]
        landed = [one for one in records if one.get("verb") == "restore" and one.get("state") == "done"]
        return float(landed[0]["facts"]["timings"]["rebuild"])


def captures(database: str, scratch: str) -> dict[str, list[float]]:
    """Processor seconds of reading the database out and hashing it, in full and lean, in turn."""
    from blake3 import blake3

    from safekept.core.events import silent
    from safekept.core.sqlite.capture import CaptureOptions, capture_here
    from safekept.core.sqlite.lean.request import LeanRequest
    from safekept.home.layout.layout import load_layouts

    recipes = load_layouts()["hermes"].recipes("state.db")
    known: dict[str, str] = {}
    found: dict[str, list[float]] = {FULL: [], LEAN: [], "lean, text compared": []}

    def read(wish: LeanRequest | None) -> tuple[float, dict[str, object]]:
        options = CaptureOptions(scratch=scratch, check=False, isolated=False, lean=wish)
        began = time.process_time()
        with capture_here(database, "state.db", options, {}, silent) as content:
            for chunk in content.chunks():
                blake3(chunk)  # as a store does with every byte
        assert content.database is not None
        return time.process_time() - began, content.database.lean or {}

    seconds, facts = read(LeanRequest(recipes))
    found["lean, text compared"].append(seconds)
    known = {one["table"]: one["schema"] for one in facts["tables"]}  # type: ignore[attr-defined]
    if len(known) != len(recipes):
        raise SystemExit(f"not everything was left out: {facts}")
    for _ in range(CAPTURES):
        found[FULL].append(read(None)[0])
        found[LEAN].append(read(LeanRequest(recipes, known))[0])
    return found


def race(
    home: Home, place: str, days: int, say: Callable[[str], None]
) -> tuple[Arena, dict[str, list[float]]]:
    arena = Arena(home, place)
    say("first snapshots ...")
    arena.store("first")
    for number in range(days):
        say(f"day {number + 1} of {days} ...")
        arena.store(arena.live_a_day())
    say("captures ...")
    read = captures(arena.database, place)
    say("restores ...")
    arena.restore()
    arena.restore_in_place()
    return arena, read


def verdicts(arena: Arena, read: dict[str, list[float]]) -> list[Verdict]:
    results = arena.results

    def relative(job: str, other: str = RESTIC) -> float:
        ours, theirs = results[f"{LEAN} {job}"], results[f"{other} {job}"]
        return sum(ours.output_bytes) / sum(theirs.output_bytes)

    found = [held("lean", "first snapshot: size relative to restic's", relative("first"))]
    for job in ("day with a merge", "day without"):
        if f"{LEAN} {job}" in results:
            found.append(held("lean", f"{job}: growth relative to restic's", relative(job)))
    capture = statistics.median(read[LEAN]) / statistics.median(read[FULL])
    found.append(held("lean", "capture: processor time relative to full", capture))
    lean, full = results[f"{LEAN} restore"].seconds, results[f"{FULL} restore"].seconds
    rest = (lean - arena.rebuild_seconds()) / full
    found.append(held("lean", "restore without its rebuild, relative to full", rest))
    usable = results[IN_PLACE].seconds / results[f"{RESTIC} restore"].seconds
    found.append(held("lean", "restore in place until the agent can work, relative to restic", usable))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench lean", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--size", type=float, default=1.0, help="gigabytes of the home")
    parser.add_argument("--days", type=int, default=DAYS, help="days of change")
    parser.add_argument("--directory", default="/tmp/safekept-bench", help="where homes are kept")
    options = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    os.makedirs(options.directory, exist_ok=True)
    home = kept_home(options.directory, round(options.size / WITHOUT_TRANSCRIPTS, 2), HERMES_PYTHON)
    with Scratch(dir=options.directory, prefix="lean-") as place:
        arena, read = race(home, place, options.days, say)
        judged = verdicts(arena, read)
        rebuild = arena.rebuild_seconds()
    document = {
        "race": {name: result.as_dict() for name, result in arena.results.items()},
        "captures": read,
        "rebuild_seconds": rebuild,
        "filled_seconds": arena.filled,
        "merges": arena.merges,
    }
    lines = [
        f"Home: {options.size:g} GB, of which state.db {home.database_bytes / MEGABYTE:,.0f} MB",
        f"Days: {options.days}, with {sum(arena.merges)} merges; output is what the store grew by",
        "",
        *table(arena.results),
        "",
        "Reading the database out and hashing it, processor seconds (median)",
        *(f"  {name:<22} {statistics.median(seconds):6.2f}" for name, seconds in read.items()),
        f"  making the indexes anew in a restore took {rebuild:.1f} s",
        f"  filled behind a restore in place, they were whole after {arena.filled:.1f} s",
    ]
    limit = limit_of(arena.results, (f"{LEAN} first", IN_PLACE))
    return finish(judged, document, lines, limit=limit, as_json=options.json)


if __name__ == "__main__":
    assert shutil.which("restic"), "restic is missing; ./bench installs it"
    sys.exit(main())
