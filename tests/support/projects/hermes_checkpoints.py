"""The same checkpoint scenario on safekept and on Hermes 0.19.0's own CheckpointManager.

A scenario is written once against `System`. Hermes runs in a process of its own Python, in a throwaway
home; what it does is its own code, driven as its agent drives it: a new turn, then a checkpoint before
the tool writes.
"""

from __future__ import annotations

import json
import os
import subprocess
from abc import ABC, abstractmethod
from typing import Any

from support.projects.rollbacks import Project

_DRIVER = """
import json, os, sys
from tools.checkpoint_manager import CheckpointManager
settings = json.loads(sys.argv[1])
manager = CheckpointManager(enabled=True, **settings)
for line in sys.stdin:
    verb, *arguments = json.loads(line)
    if verb == "take":
        manager.new_turn()
        answer = manager.ensure_checkpoint(*arguments)
    elif verb == "same-turn":
        answer = manager.ensure_checkpoint(*arguments)
    elif verb == "list":
        answer = manager.list_checkpoints(*arguments)
    elif verb == "restore":
        answer = manager.restore(*arguments)
    elif verb == "diff":
        answer = manager.diff(*arguments)
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
"""


class System(ABC):
    """What a scenario may ask for. Ids are whatever the system shows to its users."""

    name: str

    @abstractmethod
    def take(self, project: str, *named: str) -> str:
        """A new turn, and a checkpoint before its first write; returns its id. Fails where none was taken."""

    @abstractmethod
    def before_call(self, project: str, *named: str) -> None:
        """A later call of the same turn is about to write these files."""

    @abstractmethod
    def turn_over(self, project: str) -> None: ...

    @abstractmethod
    def list(self, project: str) -> list[tuple[str, str, str]]:
        """(id, time, reason), newest first, of the points that a user may choose."""

    @abstractmethod
    def back(self, project: str, id: str, file: str = "") -> None:
        """Go back; fails where the system says that it failed."""

    @abstractmethod
    def undo(self, project: str) -> None:
        """Undo the last going back, the way the system offers it."""

    @abstractmethod
    def close(self) -> None: ...


class Hermes(System):
    name = "hermes"

    def __init__(self, python: str, home: str, **settings: int) -> None:
        os.makedirs(os.path.join(home, ".hermes"), exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "HERMES_HOME": os.path.join(home, ".hermes"),
            "PYTHONUTF8": "1",
        }
        self._process = subprocess.Popen(
            [python, "-c", _DRIVER, json.dumps(settings)],
            env=environment,
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def call(self, *words: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("Hermes's checkpoint manager ended")  # a broken harness is no expected failure
        return json.loads(line)

    def take(self, project: str, *named: str) -> str:
        taken = self.call("take", project, "before write_file")
        assert taken, "Hermes took no checkpoint"
        return str(self.call("list", project)[0]["hash"])

    def before_call(self, project: str, *named: str) -> None:
        self.call("same-turn", project, "before write_file")

    def turn_over(self, project: str) -> None: ...

    def list(self, project: str) -> list[tuple[str, str, str]]:
        return [(one["hash"], one["timestamp"], one["reason"]) for one in self.call("list", project)]

    def back(self, project: str, id: str, file: str = "") -> None:
        answer = self.call("restore", project, id, *([file] if file else []))
        assert answer["success"], answer

    def undo(self, project: str) -> None:
        points = self.list(project)
        assert points and points[0][2].startswith("pre-rollback"), "there is no pre-rollback snapshot"
        self.back(project, points[0][0])

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


class Safekept(System):
    name = "safekept"

    def __init__(self, base: str) -> None:
        self._base = base
        self._projects: dict[str, Project] = {}

    def project(self, path: str) -> Project:
        if path not in self._projects:
            store = next((one.store for one in self._projects.values()), None)
            self._projects[path] = Project(os.path.dirname(path), os.path.basename(path), store=store)
        return self._projects[path]

    def take(self, project: str, *named: str) -> str:
        return self.project(project).before().id

    def before_call(self, project: str, *named: str) -> None:
        self.project(project).before(*named)

    def turn_over(self, project: str) -> None:
        self.project(project).after()

    def list(self, project: str) -> list[tuple[str, str, str]]:
        points = self.project(project).store.checkpoints(project)
        return [(point.id, str(point.time_ns), point.reason) for point in points if point.numbered]

    def back(self, project: str, id: str, file: str = "") -> None:
        result = self.project(project).back(id, *([file] if file else []))
        assert result.complete, [str(left) for left in result.left]

    def undo(self, project: str) -> None:
        self.project(project).undo()

    def close(self) -> None:
        for store in {id(project.store): project.store for project in self._projects.values()}.values():
            store.close()
