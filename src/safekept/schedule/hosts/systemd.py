"""A systemd timer and the service that it starts, for a user or for the system.

The service may read the home and write the vault wherever they are; it may not change the system. Most of
what a user's own service could be denied needs rights that a user does not have, or breaks `sendmail`,
which changes its group; so it is denied less.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from .call import HOURLY, Call

#: How far the starts of many machines are spread.
SPREAD = "15min"
_AFTER_LIMIT = 20  # minutes: for a run that ends by itself when its time is over


def unit_files(call: Call, directory: str) -> dict[str, str]:
    """The files, by their paths."""
    return {
        os.path.join(directory, f"{call.name}.service"): service(call),
        os.path.join(directory, f"{call.name}.timer"): timer(call),
    }


def service(call: Call) -> str:
    limit = f"{int(call.time_limit / 60) + _AFTER_LIMIT}min" if call.time_limit else "infinity"
    lines = [
        f"# {call.mark}",
        "[Unit]",
        f"Description=safekept: look after {_specifier(call.home)}",
        *(
            ["Wants=network-online.target", "After=network-online.target time-sync.target"]
            if call.user
            else []
        ),
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart={_command(call.command)}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in sorted(call.environment.items())),
        f"TimeoutStartSec={limit}",
        "# Whatever else the machine does comes first.",
        "Nice=10",
        "IOSchedulingClass=idle",
        "CPUSchedulingPolicy=batch",
        "UMask=0077",
        *(_as_user(call) if call.as_user else _for_system() if call.user else _for_user(call)),
    ]
    return "\n".join(lines) + "\n"


def timer(call: Call) -> str:
    lines = [
        f"# {call.mark}",
        "[Unit]",
        f"Description=safekept: wake up to look after {_specifier(call.home)}",
        "",
        "[Timer]",
        *(f"OnCalendar={moment}" for moment in calendar(call)[:-1]),
        f"# {HOURLY}.",
        f"OnCalendar={calendar(call)[-1]}",
        "# A start that was slept through is made up for.",
        "Persistent=true",
        f"RandomizedDelaySec={SPREAD}",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    return "\n".join(lines) + "\n"


def calendar(call: Call) -> list[str]:
    """The moments as systemd writes them: those that were set, and a look in every hour."""
    return [f"*-*-* {hour:02}:{minute:02}:00" for hour, minute in call.times] + ["*-*-* *:00:00"]


def start_commands(call: Call, paths: Iterable[str] = ()) -> list[tuple[str, ...]]:
    """`paths`: of the files. Those of another HOME lie where the systemd of this user does not look."""
    return [
        *([(*_systemctl(call), "link", *paths)] if call.id else []),
        (*_systemctl(call), "daemon-reload"),
        (*_systemctl(call), "enable", "--now", f"{call.name}.timer"),
    ]


def stop_commands(call: Call) -> list[tuple[str, ...]]:
    """Before the files go."""
    linked = [(*_systemctl(call), "disable", f"{call.name}.service")] if call.id else []
    return [(*_systemctl(call), "disable", "--now", f"{call.name}.timer"), *linked]


def after_removal(call: Call) -> list[tuple[str, ...]]:
    return [(*_systemctl(call), "daemon-reload")]


def _systemctl(call: Call) -> tuple[str, ...]:
    return ("systemctl",) if call.user else ("systemctl", "--user")


def _as_user(call: Call) -> list[str]:
    return ["# It can do what this user can, and nothing else.", f"User={call.user}"]


def _for_user(call: Call) -> list[str]:
    if call.mails:
        return [
            "# sendmail changes its group, which these would forbid: NoNewPrivileges and what implies it."
        ]
    return [
        "NoNewPrivileges=yes",
        "LockPersonality=yes",
        "RestrictRealtime=yes",
        "SystemCallArchitectures=native",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    ]


def _for_system() -> list[str]:
    return [
        "# It reads a home of somebody else and writes a vault of its own; the system stays as it is.",
        "ProtectSystem=full",
        "ReadWritePaths=-/etc/safekept",
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "ProtectKernelTunables=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelLogs=yes",
        "ProtectControlGroups=yes",
        "ProtectClock=yes",
        "ProtectHostname=yes",
        "LockPersonality=yes",
        "RestrictRealtime=yes",
        "RestrictNamespaces=yes",
        "SystemCallArchitectures=native",
        "SystemCallFilter=~@clock @cpu-emulation @debug @module @mount @obsolete @raw-io @reboot @swap",
        "SystemCallErrorNumber=EPERM",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "# Read and write as that user could, give files to him, see who holds a database, send mail.",
        "CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID "
        "CAP_KILL CAP_SETGID CAP_SETUID CAP_SYS_PTRACE",
    ]


def _command(words: Iterable[str]) -> str:
    found = list(words)
    # The name of the program itself is not looked at for `$`; `env` takes it as an ordinary word.
    if "$" in found[0]:
        found = ["/usr/bin/env", *found]
    return " ".join(_quoted(word.replace("$", "$$")) for word in found)


def _quoted(text: str) -> str:
    escaped = _specifier(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _specifier(text: str) -> str:
    return text.replace("%", "%%")
