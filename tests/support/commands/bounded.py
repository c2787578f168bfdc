"""A command in a child that may take ten seconds and 300 MB, and no more: what every attack is judged by."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from support.commands.fair_time import communicate

SECONDS, MEGABYTES = 10.0, 300.0

#: A process of its own starts the command: after a fork, the largest size of this one would count.
_MEASURE = """
import json, os, resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
os.write(int(sys.argv[1]), json.dumps([code, most]).encode())
"""


@dataclass(frozen=True)
class Bounded:
    """How a command ended, and what it took."""

    code: int
    out: str
    err: str
    seconds: float
    megabytes: float


def bounded(
    words: list[str],
    environment: Mapping[str, str],
    *,
    seconds: float = SECONDS,
    megabytes: float = MEGABYTES,
    data: bytes = b"",
    cwd: str = "/",
) -> Bounded:
    """Run a program; it must end in time and stay small. Nothing that it started is left running."""
    reading, writing = os.pipe()
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _MEASURE, str(writing), *words],
        env=dict(environment),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(writing,),
        start_new_session=True,
    )
    os.close(writing)
    try:
        out, err = communicate(process, data, seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        said = (out + err).decode(errors="replace")[-2000:]
        raise AssertionError(f"{words[-4:]} did not end in {seconds:g} s\n{said}") from None
    except BaseException:  # the time of the whole test is over: what still runs would hold the pipe open
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    finally:
        with open(reading, "rb") as file:
            facts = file.read()
    code, most = json.loads(facts)
    took = time.monotonic() - began
    size = most / 1024
    assert size <= megabytes, f"{words[-4:]} took {size:.0f} MB\n{err.decode(errors='replace')[-2000:]}"
    return Bounded(code, out.decode(errors="replace"), err.decode(errors="replace"), took, size)


def bounded_safekept(*words: str, environment: Mapping[str, str], **options: object) -> Bounded:
    """`safekept …` within the bounds; what it says is never an unexpected error or a traceback."""
    done = bounded([sys.executable, "-I", "-m", "safekept", *words], environment, **options)  # type: ignore[arg-type]
    for sign in ("Traceback", "  Error      unexpected", '"code": "unexpected"'):
        assert sign not in done.err + done.out, f"{words}: {done.err}{done.out}"
    return done
