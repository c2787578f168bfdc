"""Figures of the running program: what a command imports, and how long it takes from its start to its end.

The real commands run in a throwaway place. Times are given as a ratio to `python3 -c pass` of the same
minute, as a busy machine stretches both. The processor's time is given beside them: it is stretched less.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

COMMANDS = ("snapshot", "rollback 1", "status", "log", "hook")
PASS = "python3 -c pass"
_TESTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests")
_IMPORTED = re.compile(rb"^import time:\s*\d+ \|\s*\d+ \|\s*([\w.]+)\s*$", re.MULTILINE)
#: How a command may end that finds something: the small home is on one disk, and nothing runs by itself.
_FINDINGS = {"doctor": (0, 3)}
#: What the launcher says to Python for a hook and for everything else (`safekept` in the checkout).
_HOOK = (
    "-S",
    "-c",
    "import sys; sys.path.append(sys.argv.pop(1)); from safekept.__main__ import main; main()",
)
_OTHERS = ("-m", "safekept")


@dataclass
class Place:
    """A throwaway user with a home, a vault, a project and its checkpoints, served by one checkout."""

    checkout: str
    root: str
    wall: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)

    @property
    def project(self) -> str:
        return os.path.join(self.root, "project")

    @property
    def python(self) -> str:
        return os.path.join(self.checkout, ".venv", "bin", "python")

    def make(self) -> None:
        home = os.path.join(self.root, "user", ".hermes")
        os.makedirs(os.path.join(home, "memories"))
        os.makedirs(os.path.join(self.project, "src"))
        for path, text in (
            (os.path.join(home, "config.yaml"), "model:\n  default: some/model\n"),
            (os.path.join(home, "SOUL.md"), "# Soul\n\nCalm and exact.\n"),
            (os.path.join(home, "memories", "MEMORY.md"), "tea at four\n"),
            (os.path.join(self.project, "pyproject.toml"), "[project]\nname = 'thing'\n"),
            (os.path.join(self.project, "a.txt"), "old a\n"),
            (os.path.join(self.project, "src", "main.py"), "old main\n"),
        ):
            _write(path, text)
        with contextlib.closing(sqlite3.connect(os.path.join(home, "state.db"))) as database:
            database.executescript("create table sessions (id text); insert into sessions values ('one');")
        self.run("snapshot")
        self.before("rollback 1")
        self.run("rollback 1")

    def before(self, command: str) -> None:
        """Bring about what the command is to meet; the same each time, and not measured."""
        if command == "rollback 1":
            _write(os.path.join(self.project, "a.txt"), f"before, at {time.time_ns()}\n")
            self._finish([os.path.join(self.checkout, "safekept"), "checkpoint", self.project])
            _write(os.path.join(self.project, "a.txt"), "what an agent wrote\n")
        if command == "hook":
            _write(os.path.join(self.project, "a.txt"), f"edited, at {time.time_ns()}\n")

    def run(self, command: str) -> tuple[float, float]:
        """Seconds of wall and of processor time, through the launcher as a person calls it."""
        program = os.path.join(self.checkout, "safekept")
        words = [self.python, "-c", "pass"] if command == PASS else [program, *self._words(command)]
        before, began = _children(), time.monotonic()
        self._finish(words, self._told(command), command)
        return time.monotonic() - began, _children() - before

    def imports(self, command: str) -> dict[str, object]:
        """The modules that the process of this command took in: all, those of safekept, and of each room."""
        start = (*_HOOK, os.path.join(self.checkout, "src")) if command == "hook" else _OTHERS
        words = [self.python, "-X", "importtime", "-I", *start, *self._words(command)]
        every = set(_IMPORTED.findall(self._finish(words, self._told(command), command)))
        names = {name for name in every if name.split(b".")[0] == b"safekept"}
        rooms = Counter(name.decode().split(".")[1] for name in names if b"." in name)
        return {"every": len(every), "modules": len(names), "rooms": dict(sorted(rooms.items()))}

    def _words(self, command: str) -> list[str]:
        return ["hook", "claude-code"] if command == "hook" else command.split()

    def _told(self, command: str) -> bytes:
        if command != "hook":
            return b""
        with open(os.path.join(_TESTS, "recorded", "claude-code", "turn.json"), encoding="utf-8") as file:
            steps = json.load(file)["steps"]
        event = next(
            step["event"]
            for step in steps
            if step["event"]["hook_event_name"] == "PreToolUse" and step["event"]["tool_name"] == "Write"
        )
        # A turn of its own each time, as the first change of a turn is the one that costs.
        event = {**event, "prompt_id": str(time.time_ns())}
        return json.dumps(event).replace("$PROJECT", self.project).encode()

    def _finish(self, words: list[str], told: bytes = b"", command: str = "") -> bytes:
        user = os.path.join(self.root, "user")
        environment = {"PATH": os.environ["PATH"], "HOME": user, "SAFEKEPT_HELPER": "0", "NO_COLOR": "1"}
        done = subprocess.run(words, input=told, capture_output=True, cwd=self.project, env=environment)
        if done.returncode not in _FINDINGS.get(command, (0,)):
            raise SystemExit(
                f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr.decode()[-2000:]}"
            )
        return done.stderr


@contextlib.contextmanager
def places(checkouts: list[str]) -> Iterator[list[Place]]:
    """One for each checkout; gone afterwards."""
    root, made = tempfile.mkdtemp(prefix="safekept-measure-"), list[Place]()
    try:
        made = [Place(checkout, os.path.join(root, str(number))) for number, checkout in enumerate(checkouts)]
        for place in made:
            place.make()
        yield made
    finally:
        for place in made:
            with contextlib.suppress(SystemExit):  # a checkout that knows no seat belt
                place.run("vault open")
        shutil.rmtree(root, ignore_errors=True)


def start_figures(checkouts: list[str], runs: int) -> list[dict[str, object]]:
    """For each checkout, in turn and so under the same weather: imports and times of each command."""
    with places(checkouts) as made:
        for _ in range(runs):
            for command in (PASS, *COMMANDS):
                for place in made:
                    place.before(command)
                    wall, processor = place.run(command)
                    place.wall.setdefault(command, []).append(wall)
                    place.processor.setdefault(command, []).append(processor)
        return [_figures(place) for place in made]


def _figures(place: Place) -> dict[str, object]:
    def middle(times: dict[str, list[float]], command: str) -> float:
        return statistics.median(times[command])

    found: dict[str, object] = {}
    for command in COMMANDS:
        place.before(command)
        found[command] = {
            **place.imports(command),
            "start_ratio": round(middle(place.wall, command) / middle(place.wall, PASS), 2),
            "processor_ratio": round(middle(place.processor, command) / middle(place.processor, PASS), 2),
            "milliseconds": round(1000 * middle(place.wall, command), 1),
        }
    return {"pass_milliseconds": round(1000 * middle(place.wall, PASS), 1), "commands": found}


def _children() -> float:
    """The processor's seconds of every child that was waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
