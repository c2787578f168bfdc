"""The run that root set up for a user together with the keeper: a timer of the machine, done as that user.

What it stores goes into the user's own vault, and from there to the keeper: there is one store. The timer
and the program are root's, so neither `crontab -r` nor `rm -rf ~` of the user's agent ends it.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable

from safekept.core.files.small import read_regular
from safekept.core.owner.nightly import (
    CRON_DIRECTORY,
    PREFIX,
    SYSTEMD_DIRECTORY,
    nightly_places,
)
from safekept.schedule.hosts.call import Call

from .host import Machine, find_host, plan_installation, search_path
from .install import CRON, SYSTEMD, Installation, Installed, digest_of


def plan_nightly(machine: Machine, program: Iterable[str], user: str, mark: str) -> Installation:
    """What to write for a user of this machine. Raises KeyError where there is none of that name, NoHost.

    Root reads none of the user's settings: the look in every hour keeps the times that stand there.
    """
    home = pwd.getpwnam(user).pw_dir
    call = Call(
        command=(*program, "schedule", "run", "--quiet"),
        # It runs as that user, so it may find what only that user can write: the agent, for drills.
        environment={"PATH": f"{search_path(machine.environment)}:{home}/.local/bin"},
        user=user,
        home=home,
        time_limit=0.0,  # the user's own setting ends it
        as_user=True,
        mark=mark,
    )
    host = SYSTEMD if find_host(machine, system=True) == SYSTEMD else CRON
    return plan_installation(machine, host, call, os.getuid())


def run_of_machine(user: int | None = None) -> Installed | None:
    """What root set up for this user, by its files; None where nothing was."""
    try:
        name = pwd.getpwuid(os.getuid() if user is None else user).pw_name
    except KeyError:  # in a container a number may have no name
        return None
    for host, path in zip((SYSTEMD, CRON), nightly_places(name), strict=True):
        try:
            content, facts = read_regular(path), os.stat(path)
        except OSError:
            continue
        if host == CRON and f" {name} env ".encode() not in content:
            continue  # of another user, whose name is the same but for a dot
        files = {path: digest_of(content)}
        if host == SYSTEMD:
            service = path.removesuffix(".timer") + ".service"
            files[service] = digest_of(_content(service))
        return Installed(host, name, facts.st_mtime, files, [], False, [], [])
    return None


def runs_of_machine(mark: str) -> dict[str, list[str]]:
    """Every such run on this machine: the files of ours by the name of the user."""
    found: dict[str, list[str]] = {}
    for directory, host in ((SYSTEMD_DIRECTORY, SYSTEMD), (CRON_DIRECTORY, CRON)):
        for name in sorted(os.listdir(directory) if os.path.isdir(directory) else ()):
            path = os.path.join(directory, name)
            if name.startswith(PREFIX) and mark.encode() in (content := _content(path)):
                found.setdefault(_user(name, content, host), []).append(path)
    return found


def _user(name: str, content: bytes, host: str) -> str:
    if host == SYSTEMD:
        return name.removeprefix(PREFIX).rpartition(".")[0]
    for line in content.decode("utf-8", "replace").splitlines():
        match line.split():
            case [_, _, _, _, _, user, "env", *_]:
                return user
    return name.removeprefix(PREFIX)


def _content(path: str) -> bytes:
    try:
        return read_regular(path)
    except OSError:
        return b""
