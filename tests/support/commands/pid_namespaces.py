"""A command in a PID namespace of its own, as a container has: its numbers are not ours."""

from __future__ import annotations

import subprocess

CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def container_with_an_unused_number() -> list[str]:
    """How to begin a command there that gets a number which no process out here has.

    The first process of a namespace is number 1, and that number is always somebody's out here, too.
    """
    gone = subprocess.Popen(["true"])
    gone.wait()
    numbered = f'exec 3<&0; echo {gone.pid - 1} > /proc/sys/kernel/ns_last_pid; "$@" <&3 & wait'
    return [*CONTAINER, "sh", "-c", numbered, "sh"]
