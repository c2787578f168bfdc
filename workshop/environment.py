"""Makes the environments that `./safekept`, `./test` and `./bench` run in.

Promises: everything installed is pinned by hash; an environment is current only once its lock file
was copied into it, which is the last thing done, so a set-up that was killed is made anew; two
set-ups at once wait for each other on a lock that dies with its process; a failure says what to run.

Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import filecmp
import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import BinaryIO

# `-I` keeps the directory of this file off the path, so that nothing there can stand in for a module.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import newer_restic
import real_hosts

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETUP = os.path.join(CHECKOUT, ".setup")
MAIN = os.path.join(CHECKOUT, ".venv")
HERMES = os.path.join(SETUP, "hermes")

#: Real programs that the tests hold ours against, with the Debian package of each.
TOOLS = {
    "sqlite3": "sqlite3",
    "zstd": "zstd",
    "unzip": "unzip",
    "restic": "restic",
    "age": "age",
    "gpg": "gnupg",
    "ssh": "openssh-client",
    "/usr/sbin/sshd": "openssh-server",
    "/usr/sbin/cron": "cron",
    "systemd-analyze": "systemd",
    "zsh": "zsh",
    "fish": "fish",
    "mandoc": "mandoc",
    "strace": "strace",
    "chromium": "chromium",
    "lsof": "lsof",
    "ps": "procps",
    "/usr/sbin/mkfs.exfat": "exfatprogs",
    "/usr/sbin/mount.exfat-fuse": "exfat-fuse",
}

#: Settings of pip that would send the packages somewhere else than into the environment.
MISLEADING = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class CannotPrepare(Exception):
    """Why an environment could not be made, and what to do about it."""


def say(text: str, end: str = "\n") -> None:
    sys.stderr.write(text + end)
    sys.stderr.flush()


def stamp_of(place: str, lock: str) -> str:
    """The copy of the lock inside an environment: its presence means that all of it is installed."""
    name = "safekept.lock" if os.path.basename(lock) == "requirements.lock" else os.path.basename(lock)
    return os.path.join(place, name)


def is_current(place: str, lock: str) -> bool:
    stamp = stamp_of(place, lock)
    return (
        os.access(os.path.join(place, "bin", "python"), os.X_OK)
        and os.path.exists(stamp)
        and filecmp.cmp(lock, stamp, shallow=False)
    )


def ensure(place: str, lock_name: str, doing: str) -> None:
    """Make `place` hold exactly what the lock names, or add it to what is there."""
    lock = os.path.join(CHECKOUT, lock_name)
    if is_current(place, lock):
        return
    say(f"{doing} ... ", end="")
    started = time.monotonic()
    log = os.path.join(SETUP, os.path.basename(place).lstrip(".") + ".log")
    stamp = stamp_of(place, lock)
    with open(log, "wb") as output:
        # Without a stamp of any kind nobody knows how far a set-up came: start from nothing.
        if not any(name.endswith(".lock") for name in _names(place)):
            shutil.rmtree(place, ignore_errors=True)
            make_venv(place, output)
        elif os.path.exists(stamp):
            os.unlink(stamp)
        environment = {name: value for name, value in os.environ.items() if name not in MISLEADING}
        environment["PIP_USER"] = "0"
        environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
        command = [os.path.join(place, "bin", "python"), "-I", "-m", "pip", "install", "--quiet"]
        command += ["--require-hashes", "--only-binary", ":all:", "--no-deps", "-r", lock]
        run(command, output, environment, log)
        if place == MAIN:
            link_source(place)
    shutil.copyfile(lock, stamp + ".new")
    os.replace(stamp + ".new", stamp)
    say(f"done in {time.monotonic() - started:.0f} s")


def _names(place: str) -> list[str]:
    try:
        return os.listdir(place) if os.access(os.path.join(place, "bin", "python"), os.X_OK) else []
    except FileNotFoundError:
        return []


def make_venv(place: str, output: BinaryIO) -> None:
    # The resolved name: `/usr/bin/python3` may be another version after an upgrade of the system,
    # `/usr/bin/python3.11` is then gone, the link in the environment is broken and it is made anew.
    python = os.path.realpath(sys.executable)
    command = [python, "-I", "-m", "venv", place]
    if subprocess.run([python, "-I", "-c", "import ensurepip, venv"], capture_output=True).returncode != 0:
        install_packages([f"python3.{sys.version_info[1]}-venv"], "Python's venv part")
    run(command, output, dict(os.environ), "")


def link_source(place: str) -> None:
    """Let the environment import `src/`, by a path that stays true when the checkout is moved."""
    packages = os.path.join(place, "lib", f"python3.{sys.version_info[1]}", "site-packages")
    source = os.path.relpath(os.path.join(CHECKOUT, "src"), packages)
    with open(os.path.join(packages, "safekept-source.pth"), "w") as file:
        file.write(source + "\n")


def run(command: list[str], output: BinaryIO, environment: dict[str, str], log: str) -> None:
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
    )
    if result.returncode == 0:
        return
    tail = ""
    if log:
        with open(log, errors="replace") as file:
            tail = "".join(file.readlines()[-12:])
    raise CannotPrepare(
        f"{tail}\nThis failed: {' '.join(command)}\n"
        f"Nothing outside {CHECKOUT} was changed. Once the cause is mended, run the same command again."
    )


def install_packages(packages: list[str], what: str) -> None:
    """Install packages of the distribution where we may, else say the one command that does."""
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise CannotPrepare(f"{what} is missing. Install it with:\n  sudo {' '.join(command)}")
    say(f"installing {' '.join(packages)} ...")
    if _apt(command).returncode != 0:
        _apt(["apt-get", "update"])
        result = _apt(command)
        if result.returncode != 0:
            reason = result.stderr.strip()[-800:]
            raise CannotPrepare(f"{what} could not be installed: {reason}\nTry: {' '.join(command)}")


def _apt(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=environment
    )


def prepare_run() -> None:
    ensure(MAIN, "requirements.lock", "safekept: setting up, once")


#: Commands that need more than the rest, and what that is for.
EXTRAS = {"mcp": "what the MCP server needs", "ui": "what the page needs"}


def prepare_extra(command: str) -> None:
    """What one of those commands needs, by its first start."""
    prepare_run()
    ensure(MAIN, f"requirements-{command}.lock", f"installing {EXTRAS[command]}")


def prepare_test() -> None:
    prepare_run()
    ensure(MAIN, "requirements-dev.lock", "installing the tools for lint, types and tests")
    for command, what in EXTRAS.items():
        ensure(MAIN, f"requirements-{command}.lock", f"and {what}")


def prepare_peers() -> None:
    """The real programs. What cannot be had is said loudly; under CI it is a failure."""
    missing = []
    try:
        ensure(HERMES, "requirements-hermes.lock", "installing the real hermes-agent 0.19.0")
    except CannotPrepare as error:
        missing.append(f"hermes-agent 0.19.0: {error}")
    absent = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if absent:
        try:
            install_packages(absent, "A real program that the tests need")
        except CannotPrepare as error:
            missing.append(str(error))
    try:
        newer_restic.fetch(SETUP)
    except (newer_restic.CannotFetch, OSError, ValueError) as error:
        missing.append(f"A second, newer restic: {error}")
    for text in missing:
        say(f"\n*** MISSING REAL PART ***\n{text}\n")
    if missing and os.environ.get("CI") == "true":
        raise CannotPrepare("Under CI every real part must be there.")


def prepare_contenders() -> None:
    """What only the benchmarks are run beside; without it, its rows are missing."""
    if shutil.which("borg") is None:
        try:
            install_packages(["borgbackup"], "borg, which ./bench vault runs beside ours,")
        except CannotPrepare as error:
            say(str(error))


def prepare_hosts() -> None:
    """The agents that `./test --hosts` drives; where they are is printed for it."""
    where = real_hosts.place()
    try:
        if not real_hosts.installed(where):
            say(f"installing real agents from npm into {where} ... ", end="")
            started = time.monotonic()
            real_hosts.install(where)
            say(f"done in {time.monotonic() - started:.0f} s")
    except (real_hosts.CannotInstall, OSError) as error:
        say(f"\n*** MISSING REAL PART ***\nThe agents of ./test --hosts: {error}\n")
        if os.environ.get("CI") == "true":
            raise CannotPrepare("Under CI every real part must be there.") from None
    sys.stdout.write(where + "\n")


WHAT: dict[str, tuple[Callable[[], None], ...]] = {
    "run": (prepare_run,),
    "mcp": (functools.partial(prepare_extra, "mcp"),),
    "ui": (functools.partial(prepare_extra, "ui"),),
    "test": (prepare_test, prepare_peers),
    "bench": (prepare_test, prepare_peers, prepare_contenders),
    "hosts": (prepare_test, prepare_hosts),
}


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in WHAT:
        say(f"usage: workshop/prepare {'|'.join(WHAT)}")
        return 2
    try:
        os.makedirs(SETUP, exist_ok=True)
        with open(os.path.join(SETUP, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for step in WHAT[sys.argv[1]]:
                step()
    except CannotPrepare as error:
        say(f"\n{error}")
        return 1
    except OSError as error:
        say(f"\nThe environment could not be made: {error}\nNothing outside {CHECKOUT} was changed.")
        return 1
    except KeyboardInterrupt:
        say("\nInterrupted. The next call sets up anew.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
