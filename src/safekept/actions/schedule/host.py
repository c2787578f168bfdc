"""Which host is there to wake us, and what it would be asked: from facts about the machine to a plan."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep, Step
from safekept.core.owner import chosen_by
from safekept.core.platform.system import on_macos
from safekept.core.records import dataclass
from safekept.schedule.hosts import cron, launchd, systemd
from safekept.schedule.hosts.call import Call
from safekept.schedule.hosts.stores import Stores

from .install import CRON, LAUNCHD, SYSTEMD, Installation, Installed, rediscovered

_SECONDS = 30.0
#: Programs that a run may call; where they are must be in its PATH.
PROGRAMS = ("git", "ssh", "gpg", "rclone", "restic", "hermes")
#: Where programs are usually; every schedule looks there.
USUAL = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")


class NoHost(SafekeptError):
    code = "no-schedule-host"


@dataclass(frozen=True, slots=True)
class Machine:
    """The places of a machine; another root for tests."""

    environment: Mapping[str, str]
    user_home: str
    config: str  # the user's, above `safekept`
    login: str = ""
    root: str = "/"
    platform: str = "darwin" if on_macos() else "linux"

    def at(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def has(self, program: str) -> bool:
        return shutil.which(program, path=self.environment.get("PATH")) is not None

    def run(self, words: Sequence[str], given: str = "") -> tuple[int, str]:
        """Run a program of the host; its status and what it printed. A missing one has status 127."""
        program = shutil.which(words[0], path=self.environment.get("PATH"))
        if program is None:
            return 127, f"{words[0]} is not installed"
        try:
            done = subprocess.run(
                [program, *words[1:]],
                input=given.encode("utf-8", "surrogateescape"),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**self.environment, "LC_ALL": "C"},  # its words are looked at
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, f"it did not end in {_SECONDS:.0f} s"
        except OSError as error:
            return 126, error.strerror or str(error)
        return done.returncode, done.stdout.decode("utf-8", "surrogateescape")


def find_host(machine: Machine, *, system: bool) -> str:
    """What is there: launchd on a Mac, systemd where it runs, else cron. NoHost where there is nothing."""
    if machine.platform == "darwin":
        return LAUNCHD
    if os.path.isdir(machine.at("/run/systemd/system")) and (system or has_user_manager(machine)):
        return SYSTEMD
    if machine.has("crontab") or (system and os.path.isdir(machine.at("/etc/cron.d"))):
        return CRON
    raise NoHost(
        "Neither systemd nor cron is there to wake safekept",
        kept="Nothing was installed",
        next_steps=(
            "Install cron and run the command again",
            NextStep(
                "schedule run", ("--quiet",), before="Or call", after=" every hour from whatever there is"
            ),
        ),
    )


def search_path(environment: Mapping[str, str]) -> str:
    """Where a run looks for programs: where those are that it may need, and the usual places.

    In the order of the caller's own PATH: a run takes the same `ssh` as a push by hand.
    """
    path = environment.get("PATH")
    needed = {os.path.dirname(place) for name in PROGRAMS if (place := shutil.which(name, path=path))}
    if os.geteuid() == 0:
        needed = {place for place in needed if chosen_by(place, 0)}
    found = [place for place in (path or os.defpath).split(os.pathsep) if place in needed]
    return ":".join(dict.fromkeys([*(place for place in found if place.startswith("/")), *USUAL]))


def find_leftovers(machine: Machine, user: str, uid: int, stores: Stores) -> Installed | None:
    """What was installed here for these stores although nothing remembers it."""
    call = Call(("safekept",), user=user, stores=None if user else stores)
    plans = (plan_installation(machine, host, call, uid) for host in (SYSTEMD, LAUNCHD, CRON))
    return next((found for plan in plans if (found := rediscovered(plan, machine.run))), None)


def plan_installation(machine: Machine, host: str, call: Call, uid: int) -> Installation:
    """What would be written, and which commands run."""
    if host == SYSTEMD:
        below = "/etc/systemd/system"
        directory = machine.at(below) if call.user else os.path.join(machine.config, "systemd", "user")
        files = systemd.unit_files(call, directory)
        return Installation(
            SYSTEMD,
            call.user,
            files,
            start=systemd.start_commands(call, files),
            stop=systemd.stop_commands(call),
            after=systemd.after_removal(call),
            notes=[] if call.user else _lingering(machine),
            stores=call.stores,
        )
    if host == LAUNCHD:
        below = machine.at("/Library/LaunchDaemons")
        directory = below if call.user else os.path.join(machine.user_home, "Library", "LaunchAgents")
        files = launchd.unit_files(call, directory)
        start = launchd.start_commands(call, next(iter(files)), uid)
        stop = launchd.stop_commands(call, uid)
        return Installation(LAUNCHD, call.user, files, start=start, stop=stop, stores=call.stores)
    note = NextStep("schedule show", before="cron must be running for this;", after=" says whether it is")
    if call.user:
        files = cron.system_file(call, machine.at("/etc/cron.d"))
        return Installation(CRON, call.user, files, notes=[note])
    table = "\n".join(cron.lines(call)) + "\n"
    return Installation(CRON, table=table, notes=[note], stores=call.stores)


def has_user_manager(machine: Machine) -> bool:
    """Whether a systemd of this user's own can be asked; not in a container, not after `su`."""
    directory = machine.environment.get("XDG_RUNTIME_DIR", "")
    return bool(directory) and os.path.lexists(os.path.join(directory, "systemd", "private"))


def linger_file(machine: Machine) -> str:
    """What says that this user's services run while they are logged out; "" where nothing does."""
    path = machine.at(f"/var/lib/systemd/linger/{machine.login}")
    return path if machine.login and os.path.lexists(path) else ""


def _lingering(machine: Machine) -> list[Step]:
    if linger_file(machine):
        return []
    return [
        "It runs while you are logged in. To let it run at any time, on a server for example: "
        "`loginctl enable-linger`"
    ]
