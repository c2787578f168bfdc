"""Fail one system call of a command, by `strace --inject`, and say from the trace which one it was.

A first run lists every call on the places that matter. The N-th call of a thread is then failed in
another run. Threads make two runs differ, so a fault is judged by what the trace says it hit and
never by what was meant.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from support.commands.warm_commands import Hung, Said

#: What can fail between a program and a disk. Calls of one line are one kind of fault.
CALLS = (
    "write,pwrite64,writev,copy_file_range,sendfile,ftruncate",
    "fsync,fdatasync,sync_file_range",
    "rename,renameat,renameat2",
    "link,linkat,symlink,symlinkat",
    "unlink,unlinkat,rmdir",
    "mkdir,mkdirat",
    "open,openat",
    "read,pread64,readv,getdents64",
    "chmod,fchmod,fchmodat,fchown,fchownat",
    "utimensat,futimesat",
    "statx,stat,lstat,fstat,newfstatat",
)
#: Those of them that the C library of this machine knows; strace refuses a name that the kernel has not.
NAMES = ",".join(CALLS).split(",")
#: Seconds for a command that is traced; on a busy machine it takes its time.
LONGEST = 200.0
ERRORS = ("EIO", "ENOSPC", "EROFS", "EMFILE", "EPERM", "EINTR")

READING = re.compile(r"open|read|pread|getdents|stat|lstat|fstat|newfstat")
_FOR_WRITING = re.compile(r"O_(WRONLY|RDWR|CREAT|TMPFILE)")
_LINE = re.compile(r"^([\d.]+) (\w+)\((.*)\)\s+= (\S+)")
_DESCRIPTOR = re.compile(r"^(?:AT_FDCWD|\d+)<(.*?)>(?:\(deleted\))?$")
#: What differs from run to run in a name: ids, hashes, process numbers, numbers.
_CHANGING = re.compile(
    r"\b(?=[a-z]*\d)[0-9a-z]{4,}\b|[0-9a-f]{12,}|(?<=/)[0-9a-f]{2}(?=/|$)|(?<=-)[0-9a-f]{4,}(?=/|\.|$)|\d+"
)


@dataclass(frozen=True)
class Call:
    """One system call as strace wrote it down: which, on which paths, and how it ended."""

    name: str
    paths: tuple[str, ...]
    result: str
    injected: bool
    #: Whether it would have changed something: a write, a rename, an open for writing.
    changes: bool
    #: The how-many-th of its name in its thread, from 1; what `when=` counts.
    number: int
    #: When it was made.
    time: float
    #: Whether the same was tried again on the same file, and worked.
    made_again: bool = False

    def site(self, root: str) -> str:
        """Where it happened, without what changes from run to run."""
        return f"{self.name} " + " ".join(place(path, root) for path in self.paths)


def place(path: str, root: str) -> str:
    """A path below the world of the test with everything that changes in it as `#`."""
    inside = os.path.relpath(path, root) if path.startswith(root) else path
    return _CHANGING.sub("#", inside)


@dataclass(frozen=True)
class Fault:
    """Fail the `number`-th call `name` of a thread with this error."""

    name: str
    error: str
    number: int
    site: str = ""

    def __str__(self) -> str:
        return f"{self.name} #{self.number} {self.error} ({self.site})"


@dataclass(frozen=True)
class Faulted:
    """What a command answered that met a fault, and the calls that failed for it."""

    said: Said
    hit: tuple[Call, ...]


def trace(
    words: list[str], environment: dict[str, str], directory: str, traces: str, fault: Fault | None = None
) -> tuple[Said, list[Call]]:
    """Run `safekept …` under strace, with a fault or without; the answer and every call that was seen."""
    shutil.rmtree(traces, ignore_errors=True)
    os.makedirs(traces)
    names = NAMES if fault is None else [fault.name]
    command = ["strace", "-f", "--seccomp-bpf", "-qqq", "-ttt", "-y", "-s0", "-e", "signal=none", "-ff"]
    command += ["-o", os.path.join(traces, "thread"), "-e", f"trace={','.join('?' + name for name in names)}"]
    if fault is not None:
        command += ["-e", f"inject={fault.name}:error={fault.error}:when={fault.number}"]
    # The interpreter itself, as the launcher starts it.
    command += ["--", sys.executable, "-I", "-m", "safekept", *words]
    with subprocess.Popen(
        command,
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Hung(f"`safekept {' '.join(words)}` did not end in {LONGEST:.0f} s") from None
    said = Said(process.returncode, out, err)
    return said, list(_calls(traces))


def _calls(traces: str) -> Iterator[Call]:
    """Every call in the files of a trace; strace gives each thread a file of its own."""
    files = sorted(os.listdir(traces), key=lambda name: int(name.rpartition(".")[2]))
    for name in files:
        counted: dict[str, int] = {}
        with open(os.path.join(traces, name), errors="replace") as file:
            for line in file:
                found = _LINE.match(line)
                if found is None:
                    continue
                time, call, arguments, result = found.groups()
                counted[call] = counted.get(call, 0) + 1
                injected = line.rstrip().endswith("(INJECTED)")
                changes = not READING.match(call) or bool(_FOR_WRITING.search(arguments))
                paths = tuple(_paths(arguments))
                yield Call(call, paths, result, injected, changes, counted[call], float(time))


def _paths(arguments: str) -> Iterator[str]:
    """The files a call is about: descriptors with the path that -y shows, and names below them."""
    base = ""
    for argument in arguments.split(", "):
        described = _DESCRIPTOR.match(argument)
        if described:
            if base:
                yield base
            base = described[1]
        elif argument.startswith('"') and argument.endswith('"'):
            yield os.path.normpath(os.path.join(base, argument[1:-1]))
            base = ""
    if base:
        yield base


def faults(calls: Iterable[Call], root: str, seed: int) -> list[Fault]:
    """Every fault worth trying on a command with these calls, in a seeded order.

    The order goes round the places, so that the first few already are in different ones: a store is
    written at a handful of places and read at hundreds.
    """
    rng = random.Random(seed)
    rounds: dict[str, list[Fault]] = {}
    for call in calls:
        if any(path.startswith(root) for path in call.paths):
            site = call.site(root)
            rounds.setdefault(site, []).extend(Fault(call.name, error, call.number, site) for error in ERRORS)
    sites = sorted(rounds)
    for site in sites:
        rng.shuffle(rounds[site])
    found: list[Fault] = []
    turn = 0
    while any(len(rounds[site]) > turn for site in sites):
        # Calls of the same kind take turns: without this the looks at files would be most of a sample.
        kinds = {kind: [site for site in sites if site.split()[0] in kind.split(",")] for kind in CALLS}
        for those in kinds.values():
            rng.shuffle(those)
        while any(kinds.values()):
            for those in kinds.values():
                if those:
                    site = those.pop()
                    if len(rounds[site]) > turn:
                        found.append(rounds[site][turn])
        turn += 1
    return list(dict.fromkeys(found))


def inject(
    words: list[str], environment: dict[str, str], directory: str, traces: str, fault: Fault
) -> Faulted:
    said, calls = trace(words, environment, directory, traces, fault)
    return Faulted(
        said,
        tuple(
            replace(failed, made_again=any(_worked(failed, other) for other in calls))
            for failed in calls
            if failed.injected
        ),
    )


def _worked(failed: Call, other: Call) -> bool:
    """Whether it is the same step tried again. Two writes to a file are two steps."""
    same = (other.name, other.paths) == (failed.name, failed.paths) and other.time > failed.time
    return same and "write" not in failed.name and not other.result.startswith("-")
