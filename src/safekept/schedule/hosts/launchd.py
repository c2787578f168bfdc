"""A launchd agent for a user, or a daemon for the system: a property list."""

from __future__ import annotations

import os

from .call import Call

LABEL = "dev.safekept.schedule"


def label(call: Call) -> str:
    own = call.user or call.id
    return f"{LABEL}.{own}" if own else LABEL


def unit_files(call: Call, directory: str) -> dict[str, str]:
    """The file, by its path."""
    return {os.path.join(directory, f"{label(call)}.plist"): plist(call)}


def plist(call: Call) -> str:
    moments = [{"Hour": hour, "Minute": minute} for hour, minute in call.times]
    document: dict[str, object] = {
        "Label": label(call),
        "ProgramArguments": list(call.command),
        "EnvironmentVariables": dict(sorted(call.environment.items())),
        # What was slept through is run once when the machine wakes up.
        "StartCalendarInterval": [*moments, {"Minute": call.minute_of_run}],
        "ProcessType": "Background",
        "LowPriorityIO": True,
        "Nice": 10,
        "Umask": 0o077,
    }
    if call.logs:
        log = os.path.join(call.logs, "schedule.log")
        document |= {"StandardOutPath": log, "StandardErrorPath": log}
    import plistlib

    return plistlib.dumps(document).decode()


def start_commands(call: Call, path: str, uid: int) -> list[tuple[str, ...]]:
    return [("launchctl", "bootstrap", _domain(call, uid), path)]


def stop_commands(call: Call, uid: int) -> list[tuple[str, ...]]:
    return [("launchctl", "bootout", f"{_domain(call, uid)}/{label(call)}")]


def _domain(call: Call, uid: int) -> str:
    return "system" if call.user else f"gui/{uid}"
