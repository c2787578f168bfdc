"""What comes back after forty ways to lose work: safekept beside Hermes 0.19's own checkpoints.

See README.md. Each way happens to a copy of one project, with one checkpoint before it and one rollback after
it. What a person would miss is compared: bytes, modes, rows of databases, and of the repository its refs,
HEAD, index and stashes; times are not held against anybody. `--json` prints every result.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from report.scratch import Scratch  # noqa: E402
from safekept.actions.base.own_places import own_places  # noqa: E402
from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint  # noqa: E402
from safekept.actions.projects.rollback import RollbackRequest, rollback  # noqa: E402
from safekept.checkpoints.scan import HiddenLimits  # noqa: E402
from safekept.checkpoints.take import TakeSettings  # noqa: E402
from support.projects.lost_work import REPOSITORY_WAYS, WAYS, make_victim, state  # noqa: E402
from support.users.contexts import throwaway  # noqa: E402

HERMES = os.path.join(CHECKOUT, ".setup", "hermes", "bin", "python")
ALL, PART, NOTHING = "all", "part", "nothing"


class Safekept:
    name = "safekept"

    def __init__(self, place: str) -> None:
        self.context = throwaway(place)
        limits = HiddenLimits(avoid=tuple(own_places(self.context)))
        self.policy = CheckpointPolicy(take=TakeSettings(hidden=limits))

    def before(self, project: str, command: str) -> None:
        take_checkpoint(self.context, project, self.policy)

    def back(self, project: str, repository: bool) -> None:
        rollback(self.context, RollbackRequest(project, "1", git=repository, settings=self.policy.take))


class Hermes:
    name = "Hermes 0.19"

    def __init__(self, place: str) -> None:
        home = os.path.join(place, ".hermes")
        os.makedirs(home)
        self.process = subprocess.Popen(
            [HERMES, os.path.join(CHECKOUT, "benchmarks", "peers", "lost_work.py")],
            env={"PATH": os.environ["PATH"], "HOME": place, "HERMES_HOME": home},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _ask(self, **order: object) -> object:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def before(self, project: str, command: str) -> None:
        self._ask(do="before", project=project, command=command)

    def back(self, project: str, repository: bool) -> None:
        self._ask(do="back", project=project)


def lose(tool: Safekept | Hermes, place: str, way: str, command: str) -> str:
    project, aside = os.path.join(place, "project"), os.path.join(place, "aside")
    make_victim(project, aside)
    repository = way in REPOSITORY_WAYS
    then = _seen(project, aside, repository)
    tool.before(project, command)
    names = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": place, **names}
    subprocess.run(["bash", "-c", command], env=environment, cwd=project, check=True, capture_output=True)
    lost = _seen(project, aside, repository)
    assert lost != then, way
    tool.back(project, repository)
    now = _seen(project, aside, repository)
    shutil.rmtree(place)
    return ALL if now == then else NOTHING if now == lost else PART


def _seen(project: str, aside: str, repository: bool) -> dict[str, object]:
    """Without times; git's own list of what differs follows from the rest."""
    found = state(project, aside, repository)
    return {
        name: facts[:2] + facts[3:] if isinstance(facts, tuple) and not name.startswith("git: ") else facts
        for name, facts in found.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench lost", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every result as JSON")
    words = parser.parse_args()
    ways = {**WAYS, **REPOSITORY_WAYS}
    results: dict[str, dict[str, str]] = {way: {} for way in ways}
    with Scratch() as scratch:
        for kind in (Safekept, Hermes):
            own = os.path.join(str(scratch), kind.__name__)
            os.makedirs(own)
            tool = kind(own)
            for number, (way, command) in enumerate(ways.items()):
                place = os.path.join(own, f"way-{number}")
                results[way][tool.name] = lose(tool, place, way, command)
    if words.json:
        print(json.dumps(results, indent=1))
        return 0
    print("| what happens | safekept | Hermes 0.19 |\n|---|---|---|")
    for way, row in results.items():
        print(f"| {way} | {row['safekept']} | {row['Hermes 0.19']} |")
    for name in ("safekept", "Hermes 0.19"):
        counts = [sum(row[name] == one for row in results.values()) for one in (ALL, PART, NOTHING)]
        print(f"{name}: all of it {counts[0]}, part {counts[1]}, nothing {counts[2]} of {len(ways)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
