"""Somebody with a home and a project whose stores a keeper may hold, by commands in this process."""

from __future__ import annotations

import os
import shutil
import subprocess

from safekept.actions.keeper.stores import Stores
from safekept.actions.vault.seat_belt import belts
from support.commands.in_process import run_here
from support.home.homes import make_hermes_home
from support.projects.checkpoints import put
from support.users.contexts import throwaway

from .keepers import RunningKeeper


class KeptUser:
    """Somebody with a home, a project, and stores that a keeper may hold. All are one user to the keeper."""

    def __init__(self, place: object, running: RunningKeeper) -> None:
        context = throwaway(place, keeper_socket=running.socket)
        self.home = context.places.user_home
        settings = os.path.join(self.home, ".config", "safekept", "config.toml")
        self.context = context.changed(settings_file=settings)
        self.data = self.context.places.data_directory
        make_hermes_home(os.path.join(self.home, ".hermes"), profiles=(), awkward=False)
        self.project = os.path.join(self.home, "project")
        put(os.path.join(self.project, "package.json"), "{}")
        put(os.path.join(self.project, "notes.txt"), "first")
        self.socket = running.socket
        self.stores = Stores.of(self.context)

    def run(self, *words: str, keeper: bool = False) -> str:
        done = self.say(*words, keeper=keeper)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def say(self, *words: str, keeper: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": self.home, "PATH": os.environ["PATH"], "NO_COLOR": "1"}
        environment |= {"SAFEKEPT_HELPER": "0", "SAFEKEPT_KEEPER_SOCKET": self.socket if keeper else ""}
        environment |= {"TMPDIR": os.environ["TMPDIR"]}
        return run_here(*words, environment=environment, directory=self.home)

    def stored(self) -> dict[str, bytes]:
        """Every file that has to come back."""
        found = {}
        for path, file in self.stores.files():
            with open(file, "rb") as opened:
                found[path] = opened.read()
        return found | {one.path: one.inline or b"" for one in self.stores.refs()}

    def lose(self) -> None:
        """As somebody does it who opens what is closed first."""
        for _, belt in belts(self.context):
            belt.take_off()
        for name in (".local", ".config", ".cache"):
            subject = os.path.join(self.home, name)
            shutil.rmtree(subject, ignore_errors=True)
            assert not os.path.exists(subject)
