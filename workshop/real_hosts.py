"""Real agent hosts for `./test --hosts`: from npm, pinned by hash, in a cache of their own, never global.

They are some 1.5 GB, so they are kept outside of the checkout, once for each lock, for all checkouts. A place
counts once its lock was copied into it, which is the last thing done.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
import subprocess

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hosts")
LOCK = os.path.join(HERE, "package-lock.json")
#: Bytes that installing them takes, with what npm keeps beside it.
ROOM = 4 << 30
#: Seconds that npm gets; it takes one minute where the registry answers.
PATIENCE = 900


class CannotInstall(Exception):
    """Why they are not there."""


def place() -> str:
    """Where this lock's hosts are, or will be."""
    above = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    with open(LOCK, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return os.path.join(above, "safekept-tests", f"hosts-{digest[:12]}")


def installed(where: str) -> bool:
    stamp = os.path.join(where, "installed.json")
    return os.path.exists(stamp) and filecmp.cmp(LOCK, stamp, shallow=False)


def install(where: str) -> None:
    """By the ordinary npm client; raises CannotInstall."""
    npm = shutil.which("npm")
    if npm is None:
        raise CannotInstall("npm is not installed (on Debian or Ubuntu: sudo apt-get install npm)")
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    free = shutil.disk_usage(where).free
    if free < ROOM:
        raise CannotInstall(f"{where} has {free >> 20} MiB free, and {ROOM >> 20} MiB are needed")
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(os.path.join(HERE, name), os.path.join(where, name))
    log = os.path.join(where, "npm.log")
    # Not `ci`: it wants the packages of other platforms in the lock, too, and not every registry has them.
    command = [npm, "install", "--no-audit", "--no-fund"]
    try:
        with open(log, "wb") as output:
            ended = subprocess.run(
                command,
                cwd=where,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE,
            )
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"npm did not end within {PATIENCE // 60} minutes: see {log}") from None
    if ended.returncode != 0:
        raise CannotInstall(f"`{' '.join(command)}` failed in {where}: see {log}")
    shutil.copyfile(LOCK, os.path.join(where, "installed.json"))
