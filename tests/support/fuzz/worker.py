# ruff: noqa: E501
"""One target of the fuzz run in a process of its own: inputs for so many seconds, and what became of them.

    worker.py TARGET SEED SECONDS DIRECTORY

Prints one JSON document. Whatever is not an error of ours, takes longer than ten seconds, grows beyond 300 MB or
writes outside the directory is a failure: the input is kept in DIRECTORY/input.
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

LONGEST, MEGABYTES = 10.0, 300
#: Inputs that are tried in any case, however slow the machine is.
FEWEST = 3

WRITES = {
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate",
    "os.utime", "shutil.rmtree",
}  # fmt: skip


class Hang(BaseException):
    """Ten seconds for one input, without those in which others had the processor."""


class Outside(BaseException):
    """A change of something that is not below the directory."""


def largest() -> int:
    """Kilobytes that this program took at most. `ru_maxrss` would count whoever started it, too."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))


def watch_writes(directory: str) -> None:
    inside = (os.path.realpath(directory) + "/", "/dev/null", "/proc/self/")

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            writing = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not writing or not isinstance(path, str | bytes):
                return
        elif event in WRITES:
            path = arguments[1] if event in ("os.link", "os.symlink") else arguments[0]
            if not isinstance(path, str | bytes) or arguments[-1] not in (-1, None, False):
                return  # by a descriptor: relative to a directory that was opened before
        else:
            return
        where = os.path.abspath(os.fsdecode(path))
        if not (where + "/").startswith(inside):
            raise Outside(f"{event} {where}")

    sys.addaudithook(hook)


def main(name: str, seed: int, seconds: float, directory: str) -> dict[str, object]:
    from support.fuzz.targets import TARGETS

    os.chdir(directory)
    watch_writes(directory)
    target = TARGETS[name](directory)
    current = os.path.join(directory, "input")

    def late(*_: object) -> None:
        left = LONGEST - (time.monotonic() - began - (kept_waiting(os.getpid()) - waited))
        if left < 0.05:
            raise Hang
        signal.setitimer(signal.ITIMER_REAL, left)

    began, waited = time.monotonic(), 0.0
    signal.signal(signal.SIGALRM, late)
    end = time.monotonic() + seconds
    counts = {"inputs": 0, "refused": 0, "accepted": 0}
    number = 0
    while time.monotonic() < end or number < FEWEST:
        data = target.make(random.Random(f"{name} {seed} {number}"))
        number += 1
        with open(current, "wb") as file:
            file.write(data)
        began, waited = time.monotonic(), kept_waiting(os.getpid())
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
        try:
            target.take(data)
            counts["accepted"] += 1
        except target.refusals:
            counts["refused"] += 1
        except (Exception, Hang, Outside) as error:
            kind = type(error).__name__
            return {**counts, "failure": kind, "number": number - 1, "detail": traceback.format_exc()[-3000:]}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        counts["inputs"] += 1
        size = largest() // 1024
        if size > MEGABYTES:
            return {**counts, "failure": "Memory", "number": number - 1, "detail": f"{size} MB"}
    return {**counts, "megabytes": size}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])), flush=True)
