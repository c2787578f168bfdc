# ruff: noqa: E501
"""One target of the fuzz run in a process of its own: inputs for so many seconds, and what became of them.

    worker.py TARGET SEED SECONDS DIRECTORY

Prints one JSON document. First come the honest inputs, which must be taken: a target that refuses them reaches
nothing. Then changed ones, for SECONDS, or with 0 as many as the target calls a sample. Whatever is not an error of
ours, takes longer than ten seconds, grows beyond 300 MB or changes anything outside the directory is a failure: the
input is kept in DIRECTORY/input.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback

from support.commands.fair_time import kept_waiting
from support.fuzz.outside import Outside, TreeOutside, watch

LONGEST, MEGABYTES = 10.0, 300


class Hang(BaseException):
    """Ten seconds for one input, without those in which others had the processor."""


def largest() -> int:
    """Kilobytes that this program took at most. `ru_maxrss` would count whoever started it, too."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))


def main(name: str, seed: int, seconds: float, directory: str) -> dict[str, object]:
    from support.fuzz.targets import TARGETS

    os.chdir(directory)
    outside = TreeOutside(os.path.join(os.path.dirname(os.path.realpath(directory)), "outside"))
    target = TARGETS[name](directory)
    watch(directory)
    current = os.path.join(directory, "input")

    def late(*_: object) -> None:
        left = LONGEST - (time.monotonic() - began - (kept_waiting(os.getpid()) - waited))
        if left < 0.05:
            raise Hang
        signal.setitimer(signal.ITIMER_REAL, left)

    began, waited = time.monotonic(), 0.0
    signal.signal(signal.SIGALRM, late)
    counts = {"honest": len(target.honest), "inputs": 0, "refused": 0, "accepted": 0}
    end = time.monotonic() + seconds
    number = -len(target.honest)
    while number < target.sample if seconds <= 0 else time.monotonic() < end:
        honest = number < 0
        data = target.honest[number] if honest else target.make(random.Random(f"{name} {seed} {number}"))
        number += 1
        with open(current, "wb") as file:
            file.write(data)
        began, waited = time.monotonic(), kept_waiting(os.getpid())
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
        try:
            target.take(data)
            counts["accepted"] += not honest
        except target.refusals as error:
            if honest:
                return {**counts, "failure": "Refused", "number": number - 1, "detail": str(error)}
            counts["refused"] += 1
        except (Exception, Hang, Outside) as error:
            kind = type(error).__name__
            return {**counts, "failure": kind, "number": number - 1, "detail": traceback.format_exc()[-3000:]}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if changed := outside.changed():
            return {**counts, "failure": "Outside", "number": number - 1, "detail": changed}
        counts["inputs"] += not honest
        size = largest() // 1024
        if size > MEGABYTES:
            return {**counts, "failure": "Memory", "number": number - 1, "detail": f"{size} MB"}
    return {**counts, "megabytes": size}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])), flush=True)
