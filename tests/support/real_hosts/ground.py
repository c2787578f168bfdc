"""A throwaway user with a project, real hosts that work in it, and safekept beside them.

safekept is a link of this user's own to the checkout's launcher, so that a test can take it away. What a
host leaves running is ended with the ground.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING

from support.places import CHECKOUT
from support.projects.checkpoints import put

from .host import QUIET
from .installed import BIN
from .model import Model

if TYPE_CHECKING:
    from .host import RealHost
    from .model import Tree

#: A turn of a real host, on a busy machine.
PATIENT = 900


class Ground:
    """One user, one project, any number of hosts."""

    def __init__(self, root: str, files: Mapping[str, str], git: bool = True) -> None:
        self.root = os.path.realpath(root)
        self.user = os.path.join(self.root, "user")
        self.project = os.path.join(self.user, "work", "project")
        self.safekept_program = os.path.join(self.user, "bin", "safekept")
        os.makedirs(os.path.dirname(self.safekept_program))
        os.symlink(os.path.join(CHECKOUT, "safekept"), self.safekept_program)
        for name, content in files.items():
            put(os.path.join(self.project, name), content)
        if git:
            for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
                subprocess.run(["git", *words], cwd=self.project, env=self._plain(), check=True)
        self.models: dict[str, Model] = {}
        self._more: dict[str, dict[str, str]] = {}
        self._started: list[subprocess.Popen[str]] = []

    def _plain(self) -> dict[str, str]:
        """Nothing of whoever runs the tests, and helpers as everybody has them."""
        names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a"}
        path = os.pathsep.join((os.path.dirname(self.safekept_program), BIN, os.environ["PATH"]))
        more = {"GIT_COMMITTER_EMAIL": "a@a", "LANG": "C.UTF-8", "TERM": "dumb", "SHELL": "/bin/bash"}
        return {"HOME": self.user, "PATH": path, **names, **more, **QUIET}

    def model(self, host: RealHost) -> Model:
        """The host's model; it is to be served before the host is set up."""
        model = self.models[host.name] = Model(host.wire, host.spell, self.tree)
        return model

    def add(self, host: RealHost, connect: bool = True) -> None:
        """The host is set up for this user, and connected."""
        self._more[host.name] = host.set_up(self, self.models[host.name])
        if connect:
            said = self.safekept("connect", host.name, "--yes")
            assert said.returncode == 0, said.stdout + said.stderr
            host.connected(self)

    def environment(self, host: RealHost) -> dict[str, str]:
        return {**self._plain(), **self._more[host.name]}

    def start(
        self, host: RealHost, prompt: str, directory: str = "", **options: bool
    ) -> subprocess.Popen[str]:
        """Begins one turn of the host."""
        return self.launch(host, host.command(prompt, **options), directory)

    def launch(self, host: RealHost, command: list[str], directory: str = "") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            cwd=directory or self.project,
            env=self.environment(host),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def turn(self, host: RealHost, prompt: str, directory: str = "", **options: bool) -> str:
        """One whole turn, which must end well; what the host said."""
        return self.done(host, self.start(host, prompt, directory, **options))

    def done(self, host: RealHost, process: subprocess.Popen[str]) -> str:
        said, _ = process.communicate(timeout=PATIENT)
        assert process.returncode == 0, f"{host.name} ended with {process.returncode}:\n{said[-4000:]}"
        return said

    def safekept(self, *words: str, directory: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.safekept_program, *words],
            cwd=directory or self.project,
            env={**self._plain(), "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENT,
        )

    def tree(self) -> Tree:
        """Every file of the project, to the byte, and its mode; not what git keeps for itself."""
        found: Tree = {}
        for above, directories, files in os.walk(self.project):
            directories[:] = sorted(name for name in directories if name != ".git")
            for name in files:
                path = os.path.join(above, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, self.project)] = (os.stat(path).st_mode & 0o777, file.read())
        return found

    def end(self) -> None:
        """Nothing that was started here stays."""
        for process in self._started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            finally:
                if process.stdout:
                    process.stdout.close()
                process.wait()
        if not os.path.lexists(self.safekept_program):
            os.symlink(os.path.join(CHECKOUT, "safekept"), self.safekept_program)
        self.safekept("helper", "stop")
