"""How long does an agent wait for a checkpoint, and how much does it keep, beside the real peers in one run?

See README.md for the data and the method. Prints medians, ratios and targets; `--json` prints every
single measurement. `--quick` uses small sizes, for trying.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks")]

from made.projects import make_project  # noqa: E402
from report.checkpoints import limit, report, verdicts  # noqa: E402
from report.ending import finish  # noqa: E402
from report.scratch import Scratch  # noqa: E402

CONTENDER = os.path.join(CHECKOUT, "benchmarks", "peers", "checkpoints.py")
STEPBACK = os.path.join(CHECKOUT, ".setup", "stepback")
STEPBACK_VERSION = "0.2.0"
PYTHONS = {
    "hermes": os.path.join(CHECKOUT, ".setup", "hermes", "bin", "python"),
    "stepback": os.path.join(STEPBACK, "bin", "python"),
    "safekept": os.path.join(CHECKOUT, ".venv", "bin", "python"),
}
MEGABYTE = 1_000_000


@dataclass
class Series:
    """Every measurement of one contender at one job."""

    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)

    def add(self, answer: dict[str, float]) -> None:
        self.seconds.append(answer["seconds"])
        self.processor_seconds.append(answer["processor_seconds"])

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def percentile(self, share: float) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(len(self.seconds) * share))]

    def as_dict(self) -> dict[str, object]:
        return {"median": self.median, **asdict(self)}


class Contender:
    """One process that takes checkpoints on order."""

    def __init__(self, name: str, place: str, **options: object) -> None:
        self.name, self.place = name, place
        user = os.path.join(place, "user")
        os.makedirs(user, exist_ok=True)
        self.store = os.path.join(place, "store")
        environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": user,
            "HERMES_HOME": self.store,
            **{
                f"XDG_{kind}_HOME": os.path.join(user, kind.lower())
                for kind in ("CONFIG", "DATA", "STATE", "CACHE")
            },
        }
        self._process = subprocess.Popen(
            [PYTHONS[name], CONTENDER, name],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.order("open", directory=self.store, **options)

    def order(self, verb: str, **words: object) -> dict[str, float]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": verb, **words}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended in the middle of the race")
        answer: dict[str, float] = json.loads(line)
        return answer

    def take(self, project: str, *, stores: bool = True, **words: object) -> dict[str, float]:
        """One checkpoint. A contender that stored nothing although something changed has not run the race."""
        answer = self.order("take", project=project, **words)
        if stores and not answer["result"]:
            raise SystemExit(f"{self.name} took no checkpoint of {project}")
        return answer

    def close(self) -> None:
        self.order("close")
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class Arena:
    """Where projects are copied to and contenders are started; nothing is deleted until the end."""

    def __init__(self, place: str, say: Callable[[str], None]) -> None:
        self.place, self.say = place, say
        self._random = random.Random(4)
        self._serial = 0

    def fresh(self, name: str) -> str:
        self._serial += 1
        path = os.path.join(self.place, f"{self._serial:03}-{name}")
        os.makedirs(path)
        return path

    def project(self, files: int) -> str:
        path = os.path.join(self.fresh("project"), "project")
        make_project(path, files)
        return path

    @contextlib.contextmanager
    def contender(self, name: str, **options: object) -> Iterator[Contender]:
        found = Contender(name, self.fresh(name), **options)
        try:
            yield found
        finally:
            found.close()

    def change(self, project: str, files: int) -> str:
        """An agent's edit: some lines of one file are new."""
        number = self._random.randrange(files)
        path = os.path.join(project, f"d{number // 40:04}", f"f{number:06}.py")
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"changed = {self._random.random()}\n")
        return path

    # ── the jobs ──

    def race(self, files: int, rounds: int, names: list[str]) -> dict[str, dict[str, Series]]:
        """First, then one changed file and none in turn; every contender once in each round."""
        results = {name: {"first": Series(), "changed": Series(), "unchanged": Series()} for name in names}
        with contextlib.ExitStack() as stack:
            runners = []
            for name in names:
                project = self.project(files)
                runner = stack.enter_context(self.contender(name, max_snapshots=1000, max_total_size_mb=0))
                os.sync()
                results[name]["first"].add(runner.take(project))
                runners.append((runner, project))
            # The second call of each is still a cold one: caches are written, git has loose objects.
            for number in range(-1, rounds):
                for runner, project in runners if number % 2 == 0 else reversed(runners):
                    time.sleep(0.02)  # so that no timestamp is too young to be trusted
                    self.change(project, files)
                    answer = runner.take(project)
                    idle = runner.take(project, stores=False)
                    if number >= 0:
                        results[runner.name]["changed"].add(answer)
                        results[runner.name]["unchanged"].add(idle)
        return results

    def crossing(self, name: str, files: int, cap: int, turns: int, **options: object) -> dict[str, float]:
        """Turns below a cap on the number of checkpoints, and turns that cross it."""
        project = self.project(files)
        seconds = []
        with self.contender(name, **options) as runner:
            runner.take(project)
            for _ in range(cap + turns):
                self.change(project, files)
                seconds.append(runner.take(project)["seconds"])
        # The first turn after the first checkpoint still finds cold caches.
        return _compared(seconds[1 : cap - 1], seconds[cap - 1 :])

    def crossing_size(self, name: str, turns: int) -> dict[str, float]:
        """The same for a cap of 6 MB on the size: each turn adds half a megabyte that does not pack."""
        project = self.project(1000)
        seconds = []
        options = {"max_snapshots": 1000, "max_total_size_mb": 6, "interval": 1.0}
        with self.contender(name, **options) as runner:
            runner.take(project)
            for number in range(turns):
                with open(os.path.join(project, f"noise-{number % 3}.bin"), "wb") as file:
                    file.write(self._random.randbytes(MEGABYTE // 2))
                seconds.append(runner.take(project)["seconds"])
        return _compared(seconds[1:7], seconds[turns // 2 :])

    def long_run(self, name: str, files: int, turns: int, **options: object) -> tuple[Series, int, str]:
        """So many turns with one changed file each; returns the times and the bytes that the store takes."""
        project = self.project(files)
        series = Series()
        with self.contender(name, **options) as runner:
            runner.take(project)
            for _ in range(turns):
                self.change(project, files)
                series.add(runner.take(project))
            store = runner.store
        return series, disk_usage(store), store

    def many_projects(self, projects: int) -> tuple[float, float]:
        """Medians of one-file turns: with one project in the store, and with many."""
        with self.contender("safekept") as runner:
            project = self.project(1000)
            runner.take(project)
            alone, among = Series(), Series()
            for _ in range(9):
                self.change(project, 1000)
                alone.add(runner.take(project))
            for _ in range(projects):
                runner.take(self.project(40))
            for _ in range(9):
                self.change(project, 1000)
                among.add(runner.take(project))
        return alone.median, among.median

    def named(self, files: int, rounds: int) -> tuple[float, float, float]:
        """(median of one named file, slowest of them, git status) in a project that is a git repository."""
        project = self.project(files)
        git = ["git", "-C", project, "-c", "user.name=b", "-c", "user.email=b@b"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "all"], check=True)
        ours, theirs = Series(), []
        with self.contender("safekept") as runner:
            runner.take(project)
            for _ in range(rounds):
                path = self.change(project, files)
                ours.add(runner.take(project, named=path))
                started = time.perf_counter()
                subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True)
                theirs.append(time.perf_counter() - started)
        return ours.median, max(ours.seconds), statistics.median(theirs)


def _compared(below: list[float], across: list[float]) -> dict[str, float]:
    return {
        "below": statistics.median(below),
        "across": statistics.median(across),
        "slowest_below": max(below),
        "slowest_across": max(across),
    }


def disk_usage(path: str) -> int:
    """Bytes on disk, blocks and not lengths: a loose object of 300 bytes takes a block."""
    total = 0
    for directory, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return total


def metadata_share(store: str) -> float:
    """The share of our store that is not the files themselves: trees, metadata blobs, commits, caches, refs.

    Counted from what git says each object takes in the packs.
    """
    repository = os.path.join(store, "store")

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", repository, *words], capture_output=True, text=True).stdout

    listed = git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objectsize:disk)")
    sizes = {name: int(size) for name, size in (line.split() for line in listed.splitlines())}
    files: set[str] = set()
    for commit in git("for-each-ref", "--format=%(objectname)").split():
        found = git("ls-tree", "-r", f"{commit}:files")
        files |= {line.split("\t")[0].split()[2] for line in found.splitlines()}
    content = sum(sizes[name] for name in files if name in sizes)
    return 1 - content / disk_usage(store)


def install_stepback(say: Callable[[str], None]) -> None:
    if os.access(PYTHONS["stepback"], os.X_OK):
        return
    say(f"installing stepback {STEPBACK_VERSION} ...")
    subprocess.run([sys.executable, "-m", "venv", STEPBACK], check=True)
    command = [PYTHONS["stepback"], "-m", "pip", "install", "-q", f"stepback=={STEPBACK_VERSION}"]
    subprocess.run(command, check=True)


@dataclass
class Sizes:
    """How large everything is."""

    race: list[int]
    rounds: int
    turns: int
    largest: int
    named: int
    projects: int
    cap_files: int


FULL = Sizes([1000, 10_000, 40_000], 7, 500, 100_000, 40_000, 200, 10_000)
QUICK = Sizes([1000, 4000], 3, 60, 10_000, 5000, 20, 1000)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench checkpoints", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--quick", action="store_true", help="small sizes, for trying")
    parser.add_argument("--directory", default="/tmp/safekept-bench", help="where work is done")
    options = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    os.makedirs(options.directory, exist_ok=True)
    install_stepback(say)
    with Scratch(dir=options.directory, prefix="checkpoints-") as place:
        document = measure_all(Arena(place, say), QUICK if options.quick else FULL, say)
        say("cleaning up ...")
    judged = verdicts(document)
    return finish(
        judged,
        document,
        ["Milliseconds, medians.", "", *report(document)],
        limit=limit(document),
        as_json=options.json,
    )


def measure_all(arena: Arena, sizes: Sizes, say: Callable[[str], None]) -> dict[str, object]:
    race = {}
    for files in sizes.race:
        say(f"{files:,} files: the race ...")
        found = arena.race(files, sizes.rounds, ["hermes", "stepback", "safekept"])
        race[files] = {
            name: {job: series.as_dict() for job, series in jobs.items()} for name, jobs in found.items()
        }
    say("crossing the caps ...")
    caps = {
        "hermes count": arena.crossing("hermes", sizes.cap_files, 5, 2, max_snapshots=5),
        "safekept count": arena.crossing("safekept", sizes.cap_files, 5, 8, max_snapshots=5, interval=1.0),
        "hermes size": arena.crossing_size("hermes", 20),
        "safekept size": arena.crossing_size("safekept", 40),
    }
    say(f"{sizes.turns} turns ...")
    ours, our_bytes, store = arena.long_run(
        "safekept", 1000, sizes.turns, max_snapshots=0, max_total_size_mb=0, interval=1.0
    )
    share = metadata_share(store)
    theirs, their_bytes, _ = arena.long_run(
        "hermes", 1000, sizes.turns, max_snapshots=sizes.turns + 10, max_total_size_mb=0
    )
    part = max(5, sizes.turns // 10)
    say(f"{sizes.largest:,} files ...")
    large = arena.race(sizes.largest, 3, ["safekept"])["safekept"]
    say("named files and many projects ...")
    named, slowest_named, status = arena.named(sizes.named, max(sizes.rounds, 9))
    alone, among = arena.many_projects(sizes.projects)
    return {
        "race": race,
        "caps": caps,
        "turns": {
            "number": sizes.turns,
            "safekept": ours.as_dict(),
            "hermes": theirs.as_dict(),
            "p99": ours.percentile(0.99),
            "early": statistics.median(ours.seconds[:part]),
            "late": statistics.median(ours.seconds[-part:]),
            "safekept_bytes": our_bytes,
            "hermes_bytes": their_bytes,
            "metadata_share": share,
        },
        "largest": {"files": sizes.largest, **{job: series.as_dict() for job, series in large.items()}},
        "named": {"files": sizes.named, "safekept": named, "slowest": slowest_named, "git_status": status},
        "projects": {"number": sizes.projects, "alone": alone, "among": among},
    }


if __name__ == "__main__":
    assert shutil.which("git"), "git is missing"
    sys.exit(main())
