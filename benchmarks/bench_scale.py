"""How does each job grow with what it works on: homes, histories, projects, agents at once?

See README.md for the method. One run of each, with its peak memory. What does not depend on the amount of
data must not grow with history, and memory has one bound for all. `--json` prints every measurement.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, place) for place in ("benchmarks", "src", "tests")]

from made.datasets import kept_home  # noqa: E402
from made.histories import context_of_user, make_checkpoints, make_snapshots  # noqa: E402
from made.projects import make_project  # noqa: E402
from report.ending import finish  # noqa: E402
from report.measure import measured, resident_of_tree  # noqa: E402
from report.promises import Verdict, held  # noqa: E402
from report.results import HERMES_PYTHON, SAFEKEPT  # noqa: E402
from report.scratch import Scratch  # noqa: E402
from support.home.homes import make_hermes_home  # noqa: E402

HOMES, SNAPSHOTS, FILES = "0.1,1,10", "100,1000,10000", "1000,10000,100000,500000"
#: Projects with two hundred checkpoints each, and hooks that are called at the same time.
PROJECTS, AGENTS, EACH = "5,50,500", "1,8,64", 200
PROJECT, HOOKS = "files of a project", "agents' hooks at once"


@dataclass(frozen=True)
class Point:
    """One job on one size."""

    curve: str
    size: float
    job: str
    seconds: float
    processor_seconds: float  # of a command; a hook's work is the helper's, and not counted
    peak_bytes: int


class User:
    """Somebody with usual places below a throwaway directory, and commands that are timed."""

    def __init__(self, place: str, name: str, home: str = "") -> None:
        self.directory = os.path.join(place, name)
        os.makedirs(self.directory)
        self.home = home or os.path.join(self.directory, ".hermes")
        self.environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": self.directory,
            "HERMES_HOME": self.home,
        }

    def timed(self, curve: str, size: float, job: str, *words: str, allowed: tuple[int, ...] = (0,)) -> Point:
        run = measured([SAFEKEPT, *words], self.environment, allowed)
        return Point(curve, size, job, run.seconds, run.processor_seconds, run.peak_bytes)


def homes(place: str, sizes: Sequence[float], kept: str) -> list[Point]:
    """A home as a whole: this grows with its bytes, and its memory must not."""
    found, curve = [], "gigabytes of a home"
    for size in sizes:
        user = User(place, f"home-{size:g}", kept_home(kept, size, HERMES_PYTHON).path)
        target = os.path.join(user.directory, "restored")
        found += [
            user.timed(curve, size, "first snapshot", "snapshot", "--json"),
            user.timed(curve, size, "settling", "snapshot", "--json"),
            user.timed(curve, size, "unchanged snapshot", "snapshot", "--json"),
            user.timed(
                curve, size, "restore", "snapshot", "restore", "latest", "--into", target, "--yes", "--json"
            ),
            user.timed(curve, size, "status", "status", allowed=(0, 3, 4)),
        ]
    return [point for point in found if point.job != "settling"]


def snapshots(place: str, counts: Sequence[float]) -> list[Point]:
    """A small home with many snapshots: nothing but a list of all of them may grow."""
    found, curve = [], "snapshots in a vault"
    for count in counts:
        user = User(place, f"snapshots-{count:g}")
        make_hermes_home(user.home, profiles=(), awkward=False)
        make_snapshots(context_of_user(user.directory), user.home, int(count))
        jobs = {
            "list of all": ("snapshot", "list", "--json"),
            "status": ("status",),
            "unchanged snapshot": ("snapshot", "--json"),
            "plan of one file": ("restore", "SOUL.md", "--dry-run"),
            "show the newest": ("snapshot", "show", "latest"),
        }
        user.timed(curve, count, "settling", "snapshot", "--json")
        found += [user.timed(curve, count, job, *words, allowed=(0, 3, 4)) for job, words in jobs.items()]
    return found


def projects(place: str, counts: Sequence[float]) -> list[Point]:
    """One project of many files: a look at each of them."""
    found = []
    for count in counts:
        user = User(place, f"files-{count:g}")
        code = os.path.join(user.directory, "code")
        make_project(code, int(count))
        for job in ("first checkpoint", "unchanged checkpoint", "unchanged checkpoint, again"):
            found.append(user.timed(PROJECT, count, job, "checkpoint", code, "--json", allowed=(0, 3)))
        found.append(user.timed(PROJECT, count, "rollback, the list", "rollback", "--dir", code, "--json"))
    return found


def checkpoints(place: str, counts: Sequence[float]) -> list[Point]:
    """Many projects with many checkpoints each: none of them may make another one slower."""
    found, curve = [], f"projects with {EACH} checkpoints"
    for count in counts:
        user = User(place, f"projects-{count:g}")
        code = os.path.join(user.directory, "code")
        one = make_checkpoints(context_of_user(user.directory), code, int(count), EACH)[0]
        with open(os.path.join(one, "new.py"), "w", encoding="utf-8") as file:
            file.write("changed = True\n")
        jobs = {
            "checkpoint": ("checkpoint", one, "--json"),
            "rollback, the list": ("rollback", "--dir", one, "--json"),
            "rollback, the plan": ("rollback", "1", "--dir", one, "--dry-run"),
            "status": ("status",),
        }
        user.timed(curve, count, "settling", "checkpoint", one, "--json")
        found += [user.timed(curve, count, job, *words, allowed=(0, 3, 4)) for job, words in jobs.items()]
    return found


def agents(place: str, counts: Sequence[float]) -> list[Point]:
    """Hooks of so many agents at the same time, each in a project of its own, through one helper."""
    user, found = User(place, "agents"), []
    codes = [os.path.join(user.directory, "code", str(number)) for number in range(int(max(counts)))]
    for number, code in enumerate(codes):
        make_project(code, 200, seed=number)
        _hook(user, code, "first")
    try:
        for count in counts:
            chosen = codes[: int(count)]
            with concurrent.futures.ThreadPoolExecutor(len(chosen)) as pool:
                calls = [pool.submit(_hook, user, code, f"turn-{count:g}") for code in chosen]
                seconds = [call.result() for call in calls]
            peak = resident_of_tree(_helper(user))
            found += [
                Point(HOOKS, count, "the slowest", max(seconds), 0, peak),
                Point(HOOKS, count, "median", statistics.median(seconds), 0, peak),
            ]
    finally:
        subprocess.run([SAFEKEPT, "helper", "stop"], env=user.environment, capture_output=True)
    return found


def _hook(user: User, code: str, turn: str) -> float:
    document = {
        "session_id": code,
        "prompt_id": turn,
        "cwd": code,
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "make"},
        "tool_use_id": turn,
    }
    began = time.perf_counter()
    done = subprocess.run(
        [SAFEKEPT, "hook", "claude-code"],
        env=user.environment,
        cwd=code,
        input=json.dumps(document).encode(),
        capture_output=True,
    )
    if done.returncode or done.stderr:
        raise SystemExit(f"a hook failed: {done.returncode} {done.stderr!r}")
    return time.perf_counter() - began


def _helper(user: User) -> int:
    """The process of the helper that this user's hooks talk to."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{name}/environ", "rb") as file:
                settings = file.read().split(b"\0")
        except OSError:
            continue
        if b"helper" in words and f"HOME={user.directory}".encode() in settings:
            return int(name)
    raise SystemExit("no helper is running, so nothing was measured of one")


def curve_of(found: Sequence[Point], curve: str, job: str) -> list[Point]:
    return sorted(
        (point for point in found if (point.curve, point.job) == (curve, job)), key=lambda p: p.size
    )


def verdicts(found: Sequence[Point]) -> list[Verdict]:
    """What must not grow with history, from the smallest size to the largest; and memory.

    Judged by processor time, which says more than a clock does where others are at work.
    """
    judged = []
    for curve, job in dict.fromkeys((point.curve, point.job) for point in found):
        points = curve_of(found, curve, job)
        steady = curve.startswith(("snapshots", "projects")) and job != "list of all"
        if steady and len(points) > 1:
            growth = points[-1].processor_seconds / points[0].processor_seconds
            judged.append(
                held("scale", "processor time relative to the shortest history", growth, of=f"{curve}: {job}")
            )
    peak = max(point.peak_bytes for point in found) / 1e6
    return [*judged, held("scale", "peak memory of every safekept command", peak)]


def report(found: Sequence[Point]) -> list[str]:
    lines: list[str] = []
    for curve in dict.fromkeys(point.curve for point in found):
        sizes = sorted({point.size for point in found if point.curve == curve})
        lines += ["", f"  {curve:<28}" + "".join(f"{size:>26,g}" for size in sizes)]
        for job in dict.fromkeys(point.job for point in found if point.curve == curve):
            cells = "".join(f"{_cell(point):>26}" for point in curve_of(found, curve, job))
            lines.append(f"    {job:<26}{cells}")
    return lines


def _cell(point: Point) -> str:
    return f"{point.seconds:.2f} s ({point.processor_seconds:.2f}) {point.peak_bytes / 1e6:.0f} MB"


def limit(found: Sequence[Point]) -> str:
    largest = max(found, key=lambda point: point.peak_bytes)
    slope = ""
    for job in ("unchanged checkpoint, again", "first snapshot"):
        points = [point for point in found if point.job == job]
        if len(points) > 1:
            low, high = min(points, key=lambda p: p.size), max(points, key=lambda p: p.size)
            each = (high.processor_seconds - low.processor_seconds) / (high.size - low.size)
            unit = f"{1e6 * each:.1f} µs a file" if high.curve == PROJECT else f"{each:.1f} s a gigabyte"
            slope += f" `{job}` costs {unit} of processor time."
    return (
        f"What is now the limit:{slope} Most memory: {largest.job} at {largest.size:g} {largest.curve}, "
        f"{largest.peak_bytes / 1e6:.0f} MB."
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench scale", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--homes", default=HOMES, help="gigabytes; empty: none")
    parser.add_argument("--snapshots", default=SNAPSHOTS, help="how many in a vault; empty: none")
    parser.add_argument("--files", default=FILES, help="of one project; empty: none")
    parser.add_argument("--projects", default=PROJECTS, help=f"with {EACH} checkpoints each; empty: none")
    parser.add_argument("--agents", default=AGENTS, help="hooks at once; empty: none")
    parser.add_argument(
        "--directory", default="/tmp/safekept-bench", help="where homes are kept and work is done"
    )
    options = parser.parse_args()
    os.makedirs(options.directory, exist_ok=True)
    curves: list[tuple[str, Callable[[str, Sequence[float]], list[Point]]]] = [
        (options.agents, agents),
        (options.snapshots, snapshots),
        (options.projects, checkpoints),
        (options.files, projects),
        (options.homes, lambda place, sizes: homes(place, sizes, options.directory)),
    ]
    found: list[Point] = []
    for sizes, curve in curves:
        wanted = [float(size) for size in sizes.split(",") if size]
        if not wanted:
            continue
        print(f"{sizes} ...", file=sys.stderr, flush=True)
        with Scratch(dir=options.directory, prefix="scale-") as place:
            points = curve(place, wanted)
        print("\n".join(report(points)), file=sys.stderr, flush=True)
        found += points
    document = {"points": [asdict(point) for point in found]}
    return finish(verdicts(found), document, report(found), limit=limit(found), as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
