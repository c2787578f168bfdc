"""A process of the checkpoint storm: `taker` edits and takes, `keeper` runs maintenance, over and over.

    python checkpoint_worker.py taker|keeper STORE PROJECT SEED SECONDS LOG

A taker writes a line to its log after each checkpoint that was reported to it: the id, and what the
project's file held. It dies at random by its own hand, in the middle of its work, if its seed says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import threading
import time

from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import TakeSettings, take
from safekept.checkpoints.upkeep.maintenance import MaintenanceSettings, run_maintenance
from safekept.checkpoints.upkeep.retention import Limits
from safekept.core.errors import SafekeptError

KEPT = 30
#: What a taker that lives takes in any case, however slow the machine is.
FEWEST = 5


def taker(store: str, project: str, seed: int, seconds: float, log: str) -> None:
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    mine = os.path.join(project, f"worker-{seed}.txt")
    number = 0
    with open(log, "ab", buffering=0) as lines:  # a line is written at one stroke, or not at all
        if seed % 3 == 0:
            threading.Timer(seconds * chance.random(), os.kill, (os.getpid(), signal.SIGKILL)).start()
        while time.monotonic() < until or number < FEWEST:
            number += 1
            text = f"{seed} {number} {chance.random()}\n" * chance.randint(1, 400)
            with open(mine, "w", encoding="utf-8") as file:
                file.write(text)
            with Store.open(store) as opened:
                named = [mine] if number % 3 else None
                settings = TakeSettings(lock_wait=600.0, durable=False)
                point = take(
                    opened, project, kind="manual", reason=text[:40], named=named, settings=settings
                ).checkpoint
            if point is not None:
                told = {"id": point.id, "file": os.path.basename(mine), "text": text}
                lines.write(json.dumps(told).encode() + b"\n")


def keeper(store: str, project: str, seed: int, seconds: float, log: str) -> None:
    until = time.monotonic() + seconds
    settings = MaintenanceSettings(Limits(max_snapshots=KEPT), grace_seconds=0, min_interval_seconds=0)
    with open(log, "ab", buffering=0) as lines:
        while time.monotonic() < until:
            with contextlib.suppress(SafekeptError):
                upkeep = run_maintenance(store, settings, thorough=seed % 2 == 0)
                lines.write(json.dumps(upkeep.as_dict()).encode() + b"\n")
            time.sleep(0.05)


if __name__ == "__main__":
    role, store, project, seed, seconds, log = sys.argv[1:]
    {"taker": taker, "keeper": keeper}[role](store, project, int(seed), float(seconds), log)
