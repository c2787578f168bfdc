"""What a process may do: its user, its memory, its place in the queue, its network.

Linux: `setresuid`, no_new_privs, `prlimit`, `waitid`, `ioprio_set`, network namespaces. macOS: `setuid` for
root sets all three, `sandbox-exec` takes the network away. Elsewhere: `setuid`; the rest is not bounded.
What is lost: a git that reads a project is bounded by time alone, a program that is stopped with Ctrl-Z
does not stop safekept with it, a drill's check says that its network was only refused inside its process.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys

from .system import function, has

_OVERFLOW = "/proc/sys/kernel/overflowuid"
_USUAL_OVERFLOW = 65534
_NO_NEW_PRIVS = 38
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "armv7l": 314, "i686": 289}
_PROCESS, _IDLE_CLASS, _CLASS_SHIFT = 1, 3, 13
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of <malloc.h>
_DENY_NETWORK = "(version 1)(allow default)(deny network*)"


def become(uid: int, gid: int, groups: list[int]) -> None:
    """Root gives every right away, for good. PermissionError where anything of root's would be left."""
    os.setgroups(groups)
    if sys.platform == "linux" and has("setresuid"):
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        left = os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid)
    else:
        os.setgid(gid)  # for root these set the saved ones as well
        os.setuid(uid)
        left = (os.getuid(), os.geteuid(), os.getgid(), os.getegid()) != (uid, uid, gid, gid)
        with contextlib.suppress(PermissionError):
            os.setuid(0)
            left = uid != 0
    if left:
        raise PermissionError("the rights of root were not given away")


def forbid_more_rights() -> None:
    """No program that is started from here gets rights by a set-user-id bit, where the system can do that."""
    if sys.platform == "linux":
        call = function("prctl")
        if call is not None:
            call(_NO_NEW_PRIVS, 1, 0, 0, 0)


def overflow_user() -> int:
    """The number that stands for every user of a container that this machine has no number for."""
    if has("proc"):
        with contextlib.suppress(OSError, ValueError), open(_OVERFLOW, encoding="ascii") as file:
            return int(file.read())
    return _USUAL_OVERFLOW


def bound_memory(pid: int, most: int) -> None:
    """Bound the memory of another process, where the system can do that."""
    if sys.platform == "linux" and has("prlimit"):
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_AS, (most, most))


def follows_stops() -> bool:
    """Whether it can be seen that a child was stopped, without taking note of its end."""
    return sys.platform == "linux" and has("waitid")


def stopped(pid: int, *, wait: bool) -> bool:
    """Whether a child is stopped; False where it ended or, without waiting, runs. Its end is still told."""
    if sys.platform != "linux":
        return False
    options = os.WEXITED | os.WSTOPPED | os.WNOWAIT | (0 if wait else os.WNOHANG)
    found = os.waitid(os.P_PID, pid, options)
    return found is not None and found.si_code == os.CLD_STOPPED


def note_stop(pid: int) -> None:
    """Take note of a stop, or it would be told again at once."""
    if sys.platform == "linux":
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)


def leave_disk_to_others() -> None:
    """Whatever else the machine reads and writes comes first. It cannot be raised again."""
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is not None and sys.platform == "linux" and has("ioprio"):
        # The C library has no name for it; a kernel that does not know it says so, and that is all.
        function("syscall")(number, _PROCESS, 0, _IDLE_CLASS << _CLASS_SHIFT)


def keep_freed_memory() -> None:
    """Keep freed memory for the next use, instead of giving it back; without glibc nothing happens.

    Compressing and unpacking a gigabyte allocates and frees a megabyte some thousand times. By default the C
    library maps each again and gives it back, and the system clears every page of it each time (measured
    on one gigabyte: an eighth of a backup and a tenth of an import). What is larger, a pack of 16 MB above
    all, is still mapped: it grows without being copied, and leaves no hole behind when it goes (measured on
    the same gigabyte: 60 MB of holes). To be called once, before the first thread.
    """
    mallopt = function("mallopt") if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 4 << 20)
        mallopt(_TRIM_THRESHOLD, 256 << 20)
        # What one thread frees, another takes: with an arena for each they would all keep their own.
        mallopt(_ARENA_MAX, 2)


def words_without_network(path: str) -> tuple[str, ...]:
    """What stands before a command to take its network away; to be tried, and none where there is no way."""
    import shutil

    if not has("namespaces"):
        return ()
    if sys.platform == "darwin":
        sandbox = shutil.which("sandbox-exec", path=path)
        return (sandbox, "-p", _DENY_NETWORK) if sandbox else ()
    unshare = shutil.which("unshare", path=path)
    if unshare is None:
        return ()
    return (unshare, "--net") if os.geteuid() == 0 else (unshare, "--map-root-user", "--net")
