"""Kill a command at its Nth step on the filesystem, for real: SIGKILL from inside.

The child counts every change it makes (opens for writing, renames, links, unlinks, mkdirs, modes,
times, syncs, raw writes) and kills itself at the chosen one, so a storm can visit each of them.
"""

from __future__ import annotations

import signal
import subprocess
import sys

_CHILD = """
import os, signal, sys
limit, counter, number = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
sys.argv[1:4] = []
done = 0
NAMES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.utime", "os.symlink",
         "os.truncate", "os.chown"}

def step():
    global done
    done += 1
    if done == limit:
        os.kill(os.getpid(), number)

def hook(event, arguments):
    if event in NAMES:
        step()
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        step()

for name in ("write", "pwrite", "writev", "fsync", "fdatasync", "copy_file_range"):
    def counted(*arguments, _real=getattr(os, name), **options):
        step()
        return _real(*arguments, **options)
    setattr(os, name, counted)
sys.addaudithook(hook)
from safekept.cli.main import handle_signals, run
handle_signals()
code = run(sys.argv[1:])
if counter != "-":
    with open(counter, "w") as file:
        file.write(str(done))
sys.exit(code)
"""


def run_killed(
    arguments: list[str], environment: dict[str, str], at: int, number: int = signal.SIGKILL
) -> subprocess.CompletedProcess[str]:
    """Run `safekept …` and end it at its step number `at` (0: never) by that signal."""
    return _run(arguments, environment, at, "-", number)


def count_steps(arguments: list[str], environment: dict[str, str], counter: str) -> int:
    """How many steps an undisturbed run takes."""
    done = _run(arguments, environment, 0, counter)
    assert done.returncode == 0, done.stderr
    with open(counter, encoding="utf-8") as file:
        return int(file.read())


def _run(
    arguments: list[str], environment: dict[str, str], at: int, counter: str, number: int = signal.SIGKILL
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _CHILD, str(at), counter, str(int(number)), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
