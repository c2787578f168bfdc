"""A new user's machine: an agent's home with profiles, a `hermes` of his own, a crontab and a cron that runs.

machine = Newcomer(directory)
machine.environment      # what a shell of his has
machine.run("setup", …)  # `safekept …` in this process
"""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from support.commands.in_process import run_here
from support.home.homes import make_hermes_home
from support.hosts.connected import program_in

PROFILES = ("coder", "ops", "writer")
PASSPHRASE = "four words are enough"


class Newcomer:
    """One user who has never heard of safekept."""

    def __init__(
        self,
        directory: object,
        *,
        hermes: str = "",
        hermes_python: str = "",
        profiles: tuple[str, ...] = PROFILES,
        name: str = "ada",
        agent: bool = True,
    ) -> None:
        self.place = str(directory)
        self.user = os.path.join(self.place, name)
        self.home = os.path.join(self.user, ".hermes")
        self.own = os.path.join(self.user, ".local", "bin")
        self.table = os.path.join(self.place, f"crontab-of-{name}")
        os.makedirs(self.own)
        if not agent:
            pass  # a bare machine
        elif hermes_python:  # one home by the real Hermes; its profiles have the same in them
            make_hermes_home(self.home, profiles=(), awkward=False, hermes_python=hermes_python)
            for name in profiles:
                shutil.copytree(self.home, os.path.join(self.place, name), symlinks=True)
                os.makedirs(os.path.join(self.home, "profiles"), exist_ok=True)
                os.rename(os.path.join(self.place, name), os.path.join(self.home, "profiles", name))
        else:
            make_hermes_home(self.home, profiles=profiles, awkward=False)
        if hermes:
            os.symlink(hermes, os.path.join(self.own, "hermes"))
        self.programs = os.path.join(self.place, "programs")
        program_in(self.place, "programs")
        _write(
            os.path.join(self.programs, "crontab"),
            f'#!/bin/sh\ncase "$1" in\n  -l) cat {self.table} 2>/dev/null || {{ echo no crontab >&2; '
            "exit 1; };;\n"
            f"  -) cat > {self.table};;\n  -r) rm -f {self.table};;\nesac\n",
        )

    def moved(self, name: str) -> Newcomer:
        """The same person on a new machine: another home directory, and nothing in it."""
        other = copy.copy(self)
        other.user = os.path.join(self.place, name)
        other.home, other.own = os.path.join(other.user, ".hermes"), os.path.join(other.user, ".local", "bin")
        os.makedirs(other.own)
        return other

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": self.user,
            "PATH": f"{self.programs}:{self.own}:/usr/bin:/bin",
            "SAFEKEPT_LAUNCHER": os.path.join(self.programs, "safekept"),
            "NO_COLOR": "1",
            "SAFEKEPT_HELPER": "0",
            "LC_ALL": "C.UTF-8",
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        }

    @property
    def secret(self) -> str:
        """A file with the passphrase."""
        return _write(os.path.join(self.place, "passphrase"), PASSPHRASE + "\n", 0o600)

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return run_here(*words, environment={**self.environment, **more}, directory=self.user)

    def crontab(self) -> str:
        try:
            with open(self.table, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""


def two_agents(directory: object) -> Newcomer:
    """A user of two agents, one with a profile; the program `hermes` is his own and says what it is asked."""
    machine = Newcomer(directory, profiles=("coder",))
    _write(os.path.join(machine.own, "hermes"), '#!/bin/sh\necho "hermes did: $*"\n')
    claude = os.path.join(machine.user, ".claude")
    os.makedirs(claude)
    for name, text in (("settings.json", '{"model": "x"}\n'), ("history.jsonl", '{"display": "hi"}\n')):
        _write(os.path.join(claude, name), text, 0o644)
    return machine


@contextmanager
def running_cron(directory: object) -> Iterator[None]:
    """A process that is called `cron`: by that a machine is asked whether it has one at work."""
    path = os.path.join(str(directory), "cron")
    shutil.copy("/bin/sleep", path)
    process = subprocess.Popen([path, "86400"])  # longer than any module of tests
    try:
        yield
    finally:
        process.kill()
        process.wait()


def files_of(directory: str, *without: str) -> Mapping[str, object]:
    """Everything below a directory: kinds, modes, bytes and targets of links; not the stores named."""
    found: dict[str, object] = {}
    for above, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if os.path.join(above, name) not in without]
        for name in [*directories, *files]:
            path = os.path.join(above, name)
            short, mode = os.path.relpath(path, directory), os.lstat(path).st_mode
            if os.path.islink(path):
                found[short] = os.readlink(path)
            elif name in directories:
                found[short] = mode
            else:
                with open(path, "rb") as file:
                    found[short] = (mode, file.read())
    return found


def _write(path: str, text: str, mode: int = 0o755) -> str:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path
