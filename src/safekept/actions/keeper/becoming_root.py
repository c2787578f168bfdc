"""Whether this user can become root: then what belongs to another user of this machine is not safe from them.

Tried, not assumed: the user's number, the groups that amount to root, and `sudo -n true`. That one is
remembered for an hour, since each refusal is a line in the machine's log.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
import subprocess
import time

from safekept.core.files.small import read_fields, write_document

#: Groups whose members can read and write every disk, or start something that can.
AS_GOOD_AS_ROOT = ("root", "docker", "lxd", "incus-admin", "disk", "libvirt", "sudo", "wheel", "admin")
_REMEMBERED = 3600.0
#: Seconds for sudo to say no.
_SUDO = 5.0


def way_to_root(cache_directory: str, user: int | None = None) -> str:
    """How this user could become root, in a sentence's middle; empty where no way was found."""
    if (os.geteuid() if user is None else user) == 0:
        return "it is root already"
    for number in sorted({*os.getgroups(), os.getegid(), *_entered()}):
        with contextlib.suppress(KeyError):
            name = grp.getgrgid(number).gr_name
            if name in AS_GOOD_AS_ROOT:
                return f"it is in the group {name}"
    return "`sudo` asks it for no password" if _sudo(cache_directory) else ""


def _entered() -> list[int]:
    """Groups that this user is entered in, and that the next login, or `newgrp`, gives to any process."""
    try:
        found = pwd.getpwuid(os.geteuid())
    except KeyError:  # in a container a number may have no name
        return []
    return os.getgrouplist(found.pw_name, found.pw_gid)


def _sudo(cache_directory: str) -> bool:
    """Whether `sudo -n true` works, tried at most once an hour."""
    program = shutil.which("sudo", path="/usr/bin:/bin:/usr/local/bin:/run/wrappers/bin")
    if program is None:
        return False
    path = os.path.join(cache_directory, "sudo.json") if cache_directory else ""
    if path:
        found = read_fields(path)
        since = found.get("time")
        if isinstance(since, int | float) and 0 <= time.time() - since < _REMEMBERED:
            return bool(found.get("works"))
    try:
        done = subprocess.run(
            [program, "-n", "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SUDO,
            check=False,
        )
        works = done.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        works = False
    if path:
        with contextlib.suppress(OSError):
            write_document(path, {"time": time.time(), "works": works}, durable=False)
    return works
