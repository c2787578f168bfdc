"""What does protection add to a tool call of an agent, beside Hermes's own checkpoints in the same tree, and
in the real agents of `./test --hosts`, where they are installed?

See README.md for the data and the method. Prints medians, 99th percentiles, ratios and targets; `--json`
prints every measurement. `--quick` uses small sizes, for trying.
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
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, name) for name in ("benchmarks", "tests", "workshop")]

import real_hosts as installation  # noqa: E402

# Read where the agents are asked for; `./test --hosts` sets it, too.
os.environ.setdefault("SAFEKEPT_TEST_HOSTS", installation.place())

from made.projects import make_project  # noqa: E402
from peers import real_hosts  # noqa: E402
from report.ending import finish  # noqa: E402
from report.hooks import (  # noqa: E402
    AFTER,
    ALONE,
    BARE,
    HERMES,
    HOOK,
    NOTHING,
    PLUGIN,
    ROWS,
    STATUS,
    limit,
    report,
    verdicts,
)
from report.results import HERMES_PYTHON, SAFEKEPT  # noqa: E402
from report.scratch import Scratch  # noqa: E402

CONTENDER = os.path.join(CHECKOUT, "benchmarks", "peers", "hooks.py")
PYTHON = sys.executable


@dataclass
class Series:
    """Every measurement of one contender."""

    seconds: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)  # of a tool call, where there is one

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def slow(self) -> float:
        """The 99th percentile; of fewer than a hundred, the slowest."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(len(self.seconds) * 0.99))]

    def as_dict(self) -> dict[str, object]:
        return {"median": self.median, "p99": self.slow, **asdict(self)}


class Agent:
    """One contender: a user with a home and a store of his own, at work in the common project."""

    def __init__(self, place: str, project: str) -> None:
        self.user, self.project = os.path.join(place, "user"), project
        os.makedirs(self.user)
        self.environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": self.user,
            "HERMES_HOME": os.path.join(self.user, ".hermes"),
            **{
                f"XDG_{kind}_HOME": os.path.join(self.user, kind.lower())
                for kind in ("CONFIG", "DATA", "STATE", "CACHE")
            },
        }

    def run(self, *words: str, text: str = "") -> float:
        """Seconds of a whole process; one that fails, or says something, ends the race."""
        begun = time.perf_counter()
        done = subprocess.run(
            words, env=self.environment, cwd=self.project, input=text.encode(), capture_output=True
        )
        seconds = time.perf_counter() - begun
        if done.returncode or (text and (done.stdout or done.stderr)):
            raise SystemExit(f"{words}: {done.returncode} {done.stdout!r} {done.stderr!r}")
        return seconds

    def close(self) -> None:
        subprocess.run([SAFEKEPT, "helper", "stop"], env=self.environment, capture_output=True)


class HermesAgent(Agent):
    """The real Hermes 0.19.0, in one process for the whole race."""

    def __init__(self, place: str, project: str, kind: str, *, plugin: bool = False) -> None:
        super().__init__(place, project)
        os.makedirs(self.environment["HERMES_HOME"])
        with open(os.path.join(self.environment["HERMES_HOME"], "config.yaml"), "w") as file:
            file.write("checkpoints:\n  enabled: false\n")
        if plugin:
            self.run(SAFEKEPT, "connect", "hermes", "--yes")
        self._process = subprocess.Popen(
            [HERMES_PYTHON, CONTENDER, kind],
            env={**self.environment, "TERMINAL_CWD": project},
            cwd=project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def order(self, verb: str, **words: object) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": verb, **words}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("Hermes ended in the middle of the race")
        return json.loads(line) or {}

    def turn(self, turn: str, path: str, content: str) -> dict[str, Any]:
        self.order("turn", turn=turn)
        answer = self.order("call", turn=turn, path=path, content=content)
        if not answer["stored"]:
            raise SystemExit(f"Hermes did nothing about {path}: {answer}")
        self.order("end")
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        super().close()


class HookAgent(Agent):
    """Claude Code as far as its hooks can tell: the command that `connect` writes, for every event."""

    def __init__(self, place: str, project: str, *, helper: bool) -> None:
        super().__init__(place, project)
        if not helper:
            self.environment["SAFEKEPT_HELPER"] = "0"

    def said(self, event: str, turn: str, **more: object) -> float:
        document = {"session_id": "bench", "prompt_id": turn, "cwd": self.project, "hook_event_name": event}
        return self.run(SAFEKEPT, "hook", "claude-code", text=json.dumps({**document, **more}))

    def turn(self, turn: str, path: str) -> tuple[float, float]:
        """Seconds of the hook before and after a shell command."""
        tool = {"tool_name": "Bash", "tool_input": {"command": f"sed -i s/a/b/ {path}"}, "tool_use_id": turn}
        self.said("UserPromptSubmit", turn, prompt="do it")
        before = self.said("PreToolUse", turn, **tool)
        after = self.said("PostToolUse", turn, **tool, tool_response={"stdout": ""})
        self.said("Stop", turn)
        return before, after

    def points(self) -> int:
        done = subprocess.run(
            [SAFEKEPT, "rollback", "--all", "--json", "--dir", self.project],
            env=self.environment,
            capture_output=True,
        )
        return len(json.loads(done.stdout)["checkpoints"])


class Race:
    """All contenders in one project, each round in another order, each after a change of one file."""

    def __init__(self, place: str, files: int) -> None:
        self.files, self.project = files, os.path.join(place, "project")
        self._place, self._random = place, random.Random(files)
        make_project(self.project, files)
        git = ["git", "-C", self.project, "-c", "user.name=b", "-c", "user.email=b@b", "-c", "gc.auto=0"]
        # Packed: Hermes counts the objects of a repository too, and takes nothing beyond 50,000 files.
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"], ["gc", "-q"]):
            subprocess.run([*git, *words], check=True)
        self.series = {name: Series() for name in (*ROWS, BARE)}

    def change(self) -> str:
        """Somebody's edit: one line more in one file."""
        number = self._random.randrange(self.files)
        path = os.path.join(self.project, f"d{number // 40:04}", f"f{number:06}.py")
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"changed = {self._random.random()}\n")
        return path

    def run(self, rounds: int) -> dict[str, object]:
        with contextlib.ExitStack() as stack:

            def opened(name: str, kind: Callable[..., Any], *words: object, **options: bool) -> Any:
                place = os.path.join(self._place, name)
                os.makedirs(place)
                agent = kind(place, self.project, *words, **options)
                stack.callback(agent.close)
                return agent

            manager = opened("manager", HermesAgent, "manager")
            plugin = opened("plugin", HermesAgent, "tools", plugin=True)
            bare = opened("bare", HermesAgent, "tools")
            hook = opened("hook", HookAgent, helper=True)
            alone = opened("alone", HookAgent, helper=False)
            plain = opened("plain", Agent)

            def hermes(name: str, agent: HermesAgent, turn: str) -> None:
                path = self.change()
                answer = agent.turn(turn, path, f"written = {self._random.random()}\n")
                self.series[name].seconds.append(answer["hooks"])
                self.series[name].whole.append(answer.get("whole", answer["hooks"]))

            def hooks(turn: str) -> None:
                before, after = hook.turn(turn, self.change())
                self.series[HOOK].seconds.append(before)
                self.series[AFTER].seconds.append(after)

            jobs: list[Callable[[str], object]] = [
                lambda turn: hermes(HERMES, manager, turn),
                lambda turn: hermes(PLUGIN, plugin, turn),
                lambda turn: hermes(BARE, bare, turn),
                hooks,
                lambda turn: self.series[ALONE].seconds.append(alone.turn(turn, self.change())[0]),
                lambda turn: self.series[NOTHING].seconds.append(plain.run(PYTHON, "-c", "pass")),
                lambda turn: self.series[STATUS].seconds.append(plain.run("git", "status", "--porcelain")),
            ]
            # The first two rounds are not counted: first passes, imports, helpers that start.
            for number in range(-2, rounds):
                for job in jobs if number % 2 == 0 else reversed(jobs):
                    job(f"turn-{number}")
                    # What is done off the call path is done before the next one begins.
                    time.sleep(0.1 + self.files / 200_000)
                if number < 0:
                    self.series = {name: Series() for name in self.series}
            if hook.points() < rounds:
                raise SystemExit("the hooks kept less than a point for every turn")
        return {name: series.as_dict() for name, series in self.series.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench hooks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--quick", action="store_true", help="small sizes, for trying")
    parser.add_argument("--files", default="", help="sizes, such as 1000,10000")
    parser.add_argument(
        "--hosts", type=int, default=3, metavar="TURNS", help="turns of each real agent; 0: none"
    )
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--directory", default="/tmp/safekept-bench", help="where work is done")
    options = parser.parse_args()
    sizes = {1000: 8, 4000: 8} if options.quick else {1000: 100, 10_000: 60, 40_000: 30}
    if options.files:
        sizes = {int(size): sizes.get(int(size), 30) for size in options.files.split(",")}
    os.makedirs(options.directory, exist_ok=True)
    races: dict[int, Any] = {}
    for files, rounds in sizes.items():
        print(f"{files:,} files ...", file=sys.stderr, flush=True)
        with Scratch(dir=options.directory, prefix="hooks-") as place:
            races[files] = Race(place, files).run(options.rounds or rounds)
        print("\n".join(report({files: races[files]})), file=sys.stderr, flush=True)
    hosts: dict[str, real_hosts.Host] = {}
    if options.hosts:
        with Scratch(dir=options.directory, prefix="hosts-") as place:
            hosts = real_hosts.measured(place, 1000 if options.quick else 10_000, options.hosts, calls=8)
    lines = ["", *real_hosts.report(hosts)] if hosts else ["", "  No real agent is installed"]
    judged = verdicts(races)
    return finish(
        judged,
        {"race": races, "hosts": {name: host.as_dict() for name, host in hosts.items()}},
        ["Milliseconds.", "", *report(races), "", *(lines if options.hosts else [])],
        limit=limit(races),
        as_json=options.json,
    )


if __name__ == "__main__":
    assert shutil.which("git"), "git is missing"
    sys.exit(main())
