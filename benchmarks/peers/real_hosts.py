"""What a tool call takes in the real agents of `./test --hosts`, connected and not, against a scripted model.

The model answers with one shell command after the other. From its answer to the agent's next question is what
one call takes: the agent's own work, the command, and the hooks before and after it.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from made.projects import make_project

WITH, WITHOUT = "with safekept", "without"


@dataclass
class Host:
    """Every call of one agent, of both kinds."""

    version: str
    seconds: dict[str, list[float]] = field(default_factory=lambda: {WITH: [], WITHOUT: []})

    def median(self, kind: str) -> float:
        return statistics.median(self.seconds[kind])

    @property
    def ratio(self) -> float:
        return self.median(WITH) / self.median(WITHOUT)

    def as_dict(self) -> dict[str, object]:
        return {"version": self.version, "ratio": self.ratio, "seconds": self.seconds}


def measured(place: str, files: int, rounds: int, calls: int) -> dict[str, Host]:
    """By name; empty where the agents are not installed. The first call of each turn does not count."""
    from support.real_hosts.hosts import HOSTS
    from support.real_hosts.installed import version_of

    found = {}
    for name, host in HOSTS.items():
        if version := version_of(host.package):
            print(f"{name} {version} ...", file=sys.stderr, flush=True)
            found[name] = Host(version)
            where = os.path.join(place, name)
            for kind, seconds in _turns(host, where, files, rounds, calls):
                found[name].seconds[kind] += seconds
            shutil.rmtree(where, ignore_errors=True)
    return found


def _turns(host: Any, place: str, files: int, rounds: int, calls: int) -> Iterator[tuple[str, list[float]]]:
    """Turns of both kinds, alternating; the first of each is not counted: it makes the first point."""
    from support.real_hosts.deeds import Shell
    from support.real_hosts.ground import Ground
    from support.real_hosts.model import Model, serving

    class Timed(Model):
        """Notes when a question comes, and when its answer is ready."""

        times: list[tuple[float, float]] = []

        def answer(self, request: dict[str, Any]) -> Any:
            asked = time.perf_counter()
            answer = super().answer(request)
            if request.get("tools"):  # without any it asks for a title
                self.times.append((asked, time.perf_counter()))
            return answer

    grounds, models = {}, {}
    for kind in (WITH, WITHOUT):
        ground = Ground(os.path.join(place, kind.split()[0]), {"a.txt": "a\n"})
        _fill(ground.project, files)
        models[kind] = ground.models[host.name] = Timed(host.wire, host.spell, dict)
        models[kind].times = []
        grounds[kind] = ground
    try:
        with serving(list(models.values())):
            for kind, ground in grounds.items():
                ground.add(host, connect=kind == WITH)
            for number in range(-1, rounds):
                for kind in (WITH, WITHOUT) if number % 2 else (WITHOUT, WITH):
                    model = models[kind]
                    steps = [[Shell(f"echo {number} {step} >> a.txt")] for step in range(calls + 1)]
                    model.times.clear()
                    grounds[kind].turn(host, model.plays(f"bench{number + 1}", *steps))
                    if number >= 0:
                        yield kind, _between(model.times)[1:]
            _check(grounds, rounds)
    finally:
        for ground in grounds.values():
            ground.end()


def _between(times: list[tuple[float, float]]) -> list[float]:
    """From each answer to the question that came next: every one but the last answered with a call."""
    return [asked - ready for (_, ready), (asked, _) in pairwise(sorted(times))]


def _check(grounds: dict[str, Any], rounds: int) -> None:
    """The race is void where one that is connected kept nothing, or the other something."""
    for kind, ground in grounds.items():
        said = ground.safekept("rollback", "--json")
        points = len(json.loads(said.stdout)["checkpoints"]) if said.returncode == 0 else 0
        if (points >= rounds) != (kind == WITH):
            raise SystemExit(f"{points} points {kind}: {said.stdout[-400:]}{said.stderr[-400:]}")


def _fill(project: str, files: int) -> None:
    """So many files more, committed."""
    make_project(os.path.join(project, "more"), files)
    os.unlink(os.path.join(project, "more", "pyproject.toml"))  # no project of its own
    git = ["git", "-C", project, "-c", "user.name=b", "-c", "user.email=b@b", "-c", "gc.auto=0"]
    for words in (["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)


def report(hosts: dict[str, Host]) -> list[str]:
    lines = [f"  {'one tool call, milliseconds':<36} {WITHOUT:>9} {'with':>9} {'more':>7} {'ratio':>7}"]
    for name, host in hosts.items():
        before, after = 1000 * host.median(WITHOUT), 1000 * host.median(WITH)
        title = f"{name} {host.version}"
        lines.append(f"  {title:<36} {before:>9.0f} {after:>9.0f} {after - before:>7.0f} {host.ratio:>6.2f}×")
    return lines
