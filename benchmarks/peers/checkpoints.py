"""One contender of the checkpoint race, in a process of its own: takes orders on stdin, answers on stdout.

Run by the Python that has the contender installed: `checkpoints.py hermes|stepback|safekept`.
Every order and answer is one line of JSON. What is timed is the call an agent would wait for, inside
its process, without the start of an interpreter. Nothing but the standard library and the contender is
imported, so that the same file runs under all three.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any

Order = dict[str, Any]


class Hermes:
    """Hermes 0.19.0's CheckpointManager; its store lies in HERMES_HOME."""

    def open(self, order: Order) -> None:
        from tools.checkpoint_manager import CheckpointManager  # type: ignore[import-not-found]

        limits = {
            name: order[name]
            for name in ("max_snapshots", "max_total_size_mb", "max_file_size_mb")
            if name in order
        }
        self.manager = CheckpointManager(enabled=True, **limits)

    def take(self, order: Order) -> bool:
        self.manager.new_turn()
        return bool(self.manager.ensure_checkpoint(order["project"], "bench"))


class Stepback:
    """stepback 0.2.0; its store lies in the project."""

    def open(self, order: Order) -> None:
        pass

    def take(self, order: Order) -> bool:
        from pathlib import Path

        from stepback.engine import Engine  # type: ignore[import-not-found]

        return Engine(Path(order["project"])).checkpoint() is not None


class Safekept:
    """safekept, as an integration calls it: one object for the life of the agent."""

    def open(self, order: Order) -> None:
        from safekept.checkpoints.checkpoints import Checkpoints
        from safekept.checkpoints.upkeep.maintenance import MaintenanceSettings
        from safekept.checkpoints.upkeep.retention import Limits

        limits = Limits(
            max_snapshots=order.get("max_snapshots", 0),
            max_total_bytes=order.get("max_total_size_mb", 0) * 1_000_000,
        )
        interval = order.get("interval", 86_400.0)
        maintenance = MaintenanceSettings(limits, min_interval_seconds=interval)
        self.checkpoints = Checkpoints(order["directory"], maintenance=maintenance)
        self.turn = 0

    def take(self, order: Order) -> bool:
        project = order["project"]
        if order.get("named"):
            self.checkpoints.before([order["named"]], "bench", "session", f"turn-{self.turn}")
            return True
        self.turn += 1
        self.checkpoints.new_turn("session", f"turn-{self.turn}")
        outcome = self.checkpoints.before([project], "bench", shell=True)
        if outcome.failures:
            raise SystemExit(str(outcome.failures))
        return any(taken.checkpoint is not None for taken in outcome.taken)


def main() -> None:
    contender = {"hermes": Hermes, "stepback": Stepback, "safekept": Safekept}[sys.argv[1]]()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a contender prints goes elsewhere
    for line in sys.stdin:
        order = json.loads(line)
        started, processor = time.perf_counter(), processor_seconds()
        method = getattr(contender, order["do"], None)
        result = method(order) if method else None
        answer = {
            "seconds": time.perf_counter() - started,
            "processor_seconds": processor_seconds() - processor,
            "result": result,
        }
        with contextlib.suppress(BrokenPipeError):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def processor_seconds() -> float:
    """Of this process and of the children that it waited for."""
    facts = os.times()
    return facts.user + facts.system + facts.children_user + facts.children_system


if __name__ == "__main__":
    main()
