"""This boot, other processes, and clocks that are never set.

Linux: `/proc`. macOS: `sysctl` and `ps`. Elsewhere: the machine's name for the boot, and nothing about
others. What is lost: without an id of the boot, a process number from before a restart may be taken for one
that runs, and what belongs to it waits for a day; without a name of a process it is `unknown`; without its
start, an operation that was killed is shown as running for as long as another process has its number.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Collection

from .system import function, has, output_of

_PROC = "/proc"
_MOST_WORDS = 4096


def boot_id() -> str:
    """What differs between two boots, and between two machines."""
    if has("proc"):
        with (
            contextlib.suppress(OSError, ValueError),
            open(f"{_PROC}/sys/kernel/random/boot_id", encoding="ascii") as file,
        ):
            return file.read(100).strip()
    if sys.platform == "darwin" and (found := _system_value(b"kern.bootsessionuuid")):
        return found
    import uuid

    return f"{os.uname().nodename} {uuid.getnode()}"


def number_space() -> str:
    """The PID namespace in which this process has its number; "" where there is but one."""
    if has("proc"):
        with contextlib.suppress(OSError):
            return os.readlink(f"{_PROC}/self/ns/pid")
    return ""


def command_line(pid: int) -> str:
    """The command line of a process in one line; its bare name where it shows none, "" if unknown."""
    if has("proc"):
        try:
            with open(f"{_PROC}/{pid}/cmdline", "rb") as file:
                words = os.fsdecode(file.read(_MOST_WORDS).replace(b"\0", b" ")).strip()
            if not words:
                words = name_of_process(str(pid))
        except OSError:
            words = ""
    else:
        words = _asked(pid, "command")
    return " ".join(words.split())


def mentioning(pids: Collection[int], text: str) -> list[int]:
    """Those processes whose command line has these words in it."""
    if has("proc"):
        return [pid for pid in pids if _mentions(pid, os.fsencode(text))]
    if not pids:
        return []
    rows = (output_of(["ps", "-ax", "-ww", "-o", "pid=", "-o", "command="]) or "").splitlines()
    words = (line.strip().partition(" ") for line in rows)
    named = {int(pid) for pid, _, command in words if pid.isdigit() and text in command}
    return [pid for pid in pids if pid in named]


def _mentions(pid: int, words: bytes) -> bool:
    try:
        with open(f"{_PROC}/{pid}/cmdline", "rb") as file:
            return words in file.read()
    except OSError:
        return False


def numbers(root: str = "/") -> list[str]:
    """Of all processes; none where the system does not list them. `root`: another one, for tests."""
    with contextlib.suppress(OSError):
        if has("proc"):
            return [name for name in os.listdir(_at(root)) if name.isdigit()]
    return []


def name_of_process(number: str, root: str = "/") -> str:
    """What a process is called; "" where there is none, or that is not shown."""
    if has("proc"):
        path = os.path.join(_at(root), number, "comm")
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    return ""


def program_and_user(number: str, root: str = "/") -> tuple[str, int]:
    """The first word of a process, and whose it is. OSError where that is not shown."""
    process = os.path.join(_at(root), number)
    with open(os.path.join(process, "cmdline"), "rb") as file:
        word = file.read(_MOST_WORDS).partition(b"\0")[0]
    return word.decode("utf-8", "replace"), os.stat(process).st_uid


def started(pid: int) -> float | None:
    """When a process began, by the clock on the wall; None where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        if has("proc") and sys.platform == "linux":
            with open(f"{_PROC}/{pid}/stat", "rb") as file:
                ticks = int(file.read().rpartition(b")")[2].split()[19])
            return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
        if text := _asked(pid, "etime"):
            return time.time() - _seconds(text)
    return None


def read_by_thread(thread: int) -> int:
    """What a thread of ours has read since it began; 0 where the system does not say it."""
    with contextlib.suppress(OSError, ValueError):
        if has("proc"):
            with open(f"{_PROC}/self/task/{thread}/io", "rb") as file:
                name, number = file.readline().split()
            return int(number) if name == b"rchar:" else 0
    return 0


def uptime() -> float:
    """Seconds by a clock that is never set, and that goes on while the machine sleeps; of this boot only."""
    if sys.platform == "linux" and has("boottime"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.clock_gettime(time.CLOCK_MONOTONIC)  # goes on in a sleep on macOS, too


def awake() -> float | None:
    """The same without the time that the machine slept; None where only one of the two can be had."""
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_UPTIME_RAW)
    return time.clock_gettime(time.CLOCK_MONOTONIC) if sys.platform == "linux" and has("boottime") else None


def _at(root: str) -> str:
    return os.path.join(root, _PROC.lstrip("/"))


def _seconds(text: str) -> float:
    """`2-03:04:05` in seconds, as `ps` writes for how long something runs."""
    days, _, rest = text.rpartition("-")
    total = 0
    for part in rest.split(":"):
        total = total * 60 + int(part)
    return total + 86_400.0 * int(days or 0)


def _asked(pid: int, column: str) -> str:
    return (output_of(["ps", "-ww", "-o", f"{column}=", "-p", str(pid)]) or "").strip()


def _system_value(name: bytes) -> str:
    """A text that `sysctl` knows; "" where it does not."""
    import ctypes

    call, room = function("sysctlbyname"), ctypes.create_string_buffer(200)
    size = ctypes.c_size_t(len(room))
    if call is None or call(name, room, ctypes.byref(size), None, 0) != 0:
        return ""
    return room.value.decode("ascii", "replace")
