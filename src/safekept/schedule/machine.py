"""Whether the machine runs on its battery, and whether its network is paid for by the byte.

Where nothing says so, neither is assumed: a server has no battery to look at, and must not wait for one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess

from safekept.core.platform.processes import awake, uptime
from safekept.core.platform.rights import leave_disk_to_others
from safekept.core.records import dataclass

SUPPLIES = "/sys/class/power_supply"
_SECONDS = 3.0
#: NetworkManager's answers: yes, and "I guess so" (a phone that shares its network).
_METERED = ("u 1", "u 3")
_ASK = (
    "busctl",
    "--system",
    "get-property",
    "org.freedesktop.NetworkManager",
    "/org/freedesktop/NetworkManager",
    "org.freedesktop.NetworkManager",
    "Metered",
)


@dataclass(frozen=True, slots=True)
class Power:
    """What a run has to go by."""

    battery: bool = False
    metered: bool = False


def look(supplies: str = SUPPLIES, path: str | None = None) -> Power:
    """How it is now; `path` is where programs are looked for."""
    return Power(on_battery(supplies) or _mac_on_battery(path), on_metered_network(path))


def on_battery(supplies: str = SUPPLIES) -> bool:
    """Linux: a battery of the machine itself that is being used up, and no mains that is on."""
    discharging = False
    try:
        names = os.listdir(supplies)
    except OSError:
        return False
    for name in names:
        kind = _read(supplies, name, "type")
        if kind in ("Mains", "USB") and _read(supplies, name, "online") == "1":
            return False
        # The battery of a mouse says nothing about the machine.
        if kind == "Battery" and _read(supplies, name, "scope") != "Device":
            discharging |= _read(supplies, name, "status") == "Discharging"
    return discharging


def on_metered_network(path: str | None = None) -> bool:
    """What NetworkManager says; False where it does not answer."""
    return _answer(_ASK, path) in _METERED


def _mac_on_battery(path: str | None) -> bool:
    return "'Battery Power'" in _answer(("pmset", "-g", "ps"), path)


def _answer(words: tuple[str, ...], path: str | None) -> str:
    program = shutil.which(words[0], path=path)
    if program is None:
        return ""
    try:
        found = subprocess.run(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.decode("utf-8", "replace").strip()


def _read(supplies: str, name: str, fact: str) -> str:
    try:
        with open(os.path.join(supplies, name, fact), encoding="utf-8", errors="replace") as file:
            return file.read(100).strip()
    except OSError:
        return ""


def clocks() -> tuple[float, float]:
    """Seconds since this machine was started, and how many of them it slept; (0, 0) where nothing says."""
    up, waking = uptime(), awake()
    return (up, max(0.0, up - waking)) if waking is not None else (0.0, 0.0)


def awake_since(since: float, now: float, slept_then: float) -> float:
    """Seconds since then for which this machine was on and not asleep: nothing is missed in its sleep.

    `slept_then` is what `clocks` said at that moment. Where the machine was started later, it has been on
    since its start only.
    """
    passed, (up, slept) = max(0.0, now - since), clocks()
    if not up:
        return passed
    if up < passed:
        return max(0.0, up - slept)
    return max(0.0, passed - max(0.0, slept - slept_then))


# Stepping back: whatever else the machine does comes first, for the processor and for the disk.

NICE = 10


def lower_priority() -> None:
    """Lower this process's priority, and that of whatever it starts. It cannot be raised again."""
    with contextlib.suppress(OSError):
        wanted = NICE - os.nice(0)
        if wanted > 0:
            os.nice(wanted)
    leave_disk_to_others()
