"""The keeper as a service of systemd: a socket that starts it, and a service that may do little else."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .store import STORE
from .wire import SOCKET

USER = "safekept-keeper"
SOCKET_UNIT, SERVICE_UNIT = "safekept-keeper.socket", "safekept-keeper.service"
DIRECTORY = "/etc/systemd/system"
#: The first words of every file of ours, by which a file is known to be ours.
MARK = "# Written by `safekept keeper install`; `safekept keeper remove` takes it away"


def unit_files(program: Sequence[str], directory: str = DIRECTORY) -> dict[str, str]:
    """Path and text of each."""
    return {
        os.path.join(directory, SOCKET_UNIT): _socket(),
        os.path.join(directory, SERVICE_UNIT): _service(program),
    }


START = (("systemctl", "daemon-reload"), ("systemctl", "enable", "--now", SOCKET_UNIT))
#: After an upgrade the next caller starts the new program.
RESTART = ("systemctl", "stop", SERVICE_UNIT)
STOP = (("systemctl", "disable", "--now", SOCKET_UNIT), ("systemctl", "stop", SERVICE_UNIT))
AFTER = ("systemctl", "daemon-reload")


def _socket() -> str:
    lines = [
        MARK,
        "[Unit]",
        "Description=safekept: copies that no agent can delete",
        "",
        "[Socket]",
        f"ListenSequentialPacket={SOCKET}",
        "# Everybody may call: who it is, the kernel says, and each user has a room and a quota.",
        "SocketMode=0666",
        "DirectoryMode=0755",
        "Backlog=256",
        "",
        "[Install]",
        "WantedBy=sockets.target",
    ]
    return "\n".join(lines) + "\n"


def _service(program: Sequence[str]) -> str:
    command = " ".join(_quoted(word) for word in (*program, "keeper", "serve"))
    lines = [
        MARK,
        "[Unit]",
        "Description=safekept: the keeper",
        f"Requires={SOCKET_UNIT}",
        "",
        "[Service]",
        f"ExecStart={command}",
        f"User={USER}",
        f"Group={USER}",
        f"StateDirectory={os.path.basename(STORE)}",
        "StateDirectoryMode=0700",
        "UMask=0077",
        "# Whatever else the machine does comes first.",
        "Nice=10",
        "IOSchedulingPriority=7",
        "TasksMax=512",
        "MemoryMax=2G",
        "# It gets files as descriptors and needs no other; it writes its own store and nothing else.",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "AmbientCapabilities=",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "PrivateNetwork=yes",
        "IPAddressDeny=any",
        "RestrictAddressFamilies=AF_UNIX",
        "ProtectKernelTunables=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelLogs=yes",
        "ProtectControlGroups=yes",
        "ProtectClock=yes",
        "ProtectHostname=yes",
        "ProtectProc=invisible",
        "LockPersonality=yes",
        "MemoryDenyWriteExecute=yes",
        "RestrictNamespaces=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "RemoveIPC=yes",
        "SystemCallArchitectures=native",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged @resources",
        "SystemCallErrorNumber=EPERM",
    ]
    return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    escaped = word.replace("%", "%%").replace("$", "$$").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
