"""Kill a command at its Nth step on the filesystem, for real: SIGKILL from inside.

The child counts every change it makes (opens for writing, renames, links, unlinks, mkdirs, modes,
times, syncs, raw writes) and kills itself at the chosen one, so a storm can visit each of them.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile

#: Waits for requests with every module of safekept loaded, and forks for each: what a start costs is paid
#: once. Nothing of it runs in the parent but the loading, so a fork is as good as a new process.
_PARENT = """
import atexit, gc, importlib, json, os, pkgutil, random, signal, sys, threading

NAMES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.utime", "os.symlink",
         "os.truncate", "os.chown"}

def load():
    import safekept
    for module in pkgutil.walk_packages(safekept.__path__, "safekept."):
        if not module.name.endswith("__main__") and ".hermes.plugin" not in module.name:
            try:
                importlib.import_module(module.name)
            except ImportError:
                pass  # wants what is not installed here
    gc.freeze()

def work(asked):
    nothing = os.open(os.devnull, os.O_RDONLY)
    streams = [os.open(path, os.O_WRONLY | os.O_APPEND) for path in asked["streams"]]
    for number, descriptor in enumerate([nothing, *streams]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["directory"])
    random.seed()
    sys.stdin = open(0, encoding="utf-8")
    sys.argv = ["-c", *asked["arguments"]]
    limit, done = asked["at"], 0

    def step():
        nonlocal done
        done += 1
        if done == limit:
            os.kill(os.getpid(), asked["number"])

    def hook(event, given):
        if event in NAMES:
            step()
        elif event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR):
            step()

    def counting(real):
        def counted(*given, **options):
            step()
            return real(*given, **options)
        return counted

    for name in ("write", "pwrite", "writev", "fsync", "fdatasync", "copy_file_range"):
        setattr(os, name, counting(getattr(os, name)))
    sys.addaudithook(hook)
    from safekept.cli.main import handle_signals, run
    handle_signals()
    code = run(sys.argv[1:])
    if asked["counter"]:
        with open(asked["counter"], "w") as file:
            file.write(str(done))
    return code

load()
assert threading.active_count() == 1, threading.enumerate()
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            answers.close()
            code = work(json.loads(line))
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
"""


class _Parent:
    """The process that forks; one for each process of the tests, started when it is first needed."""

    def __init__(self) -> None:
        self.maker = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-X", "utf8", "-c", _PARENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.end)

    def ask(self, asked: dict[str, object]) -> int:
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())
        except BaseException:
            _parent.cache_clear()  # it may be at work on what nobody waits for any more
            self.end()
            raise

    def end(self) -> None:
        if os.getpid() == self.maker and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()


@functools.cache
def _parent() -> _Parent:
    return _Parent()


def run_killed(
    arguments: list[str], environment: dict[str, str], at: int, number: int = signal.SIGKILL
) -> subprocess.CompletedProcess[str]:
    """Run `safekept …` and end it at its step number `at` (0: never) by that signal."""
    return _run(arguments, environment, at, "", number)


def count_steps(arguments: list[str], environment: dict[str, str], counter: str) -> int:
    """How many steps an undisturbed run takes."""
    done = _run(arguments, environment, 0, counter)
    assert done.returncode == 0, done.stderr
    with open(counter, encoding="utf-8") as file:
        return int(file.read())


def _run(
    arguments: list[str], environment: dict[str, str], at: int, counter: str, number: int = signal.SIGKILL
) -> subprocess.CompletedProcess[str]:
    with tempfile.NamedTemporaryFile("rb") as out, tempfile.NamedTemporaryFile("rb") as err:
        code = _parent().ask(
            {
                "arguments": arguments,
                "environment": environment,
                "directory": os.getcwd(),
                "streams": [out.name, err.name],
                "at": at,
                "counter": counter,
                "number": int(number),
            }
        )
        said = [stream.read().decode("utf-8", "surrogateescape") for stream in (out, err)]
    return subprocess.CompletedProcess(arguments, code, *said)
