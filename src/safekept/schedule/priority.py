"""Stepping back: whatever else the machine does comes first, for the processor and for the disk."""

from __future__ import annotations

import contextlib
import os
import sys

NICE = 10
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "armv7l": 314, "i686": 289}
_PROCESS, _IDLE_CLASS, _CLASS_SHIFT = 1, 3, 13


def step_back() -> None:
    """Lower this process's priority, and that of whatever it starts. It cannot be raised again."""
    with contextlib.suppress(OSError):
        wanted = NICE - os.nice(0)
        if wanted > 0:
            os.nice(wanted)
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is not None and sys.platform == "linux":
        import ctypes

        # The C library has no name for it; a kernel that does not know it says so, and that is all.
        ctypes.CDLL(None).syscall(number, _PROCESS, 0, _IDLE_CLASS << _CLASS_SHIFT)
