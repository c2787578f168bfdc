"""A helper in a throwaway place: in a thread of this process, or as a process that is ended for sure.

Tests run with `SAFEKEPT_HELPER=0`, so that no hook leaves one behind; `Throwaway.environment` is without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from safekept.core.worker import Worker
from safekept.integrations.calls import Call
from safekept.integrations.helper import client
from safekept.integrations.helper.code import CodeWatch
from safekept.integrations.helper.server import Server
from support.commands.waiting import PATIENT
from support.places import SOURCE
from support.vault.closed import open_below


@dataclass
class Throwaway:
    """A user of his own, below one directory."""

    root: str
    more: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> str:
        return os.path.join(self.root, "user")

    @property
    def data(self) -> str:
        return os.path.join(self.home, ".local", "share", "safekept")

    @property
    def config(self) -> str:
        return os.path.join(self.home, ".config", "safekept", "config.toml")

    @property
    def directory(self) -> str:
        return client.helper_directory(self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """All that a client sends and a process is started with."""
        # A hook that finds no helper in time must not leave one behind.
        return {
            "HOME": self.home,
            "PATH": os.environ["PATH"],
            "SAFEKEPT_HELPER": "running",
            **self.more,
        }

    def project(self, name: str = "project", **files: str) -> str:
        """A project with some files."""
        place = os.path.join(self.home, name)
        os.makedirs(os.path.join(place, ".git"), exist_ok=True)
        for file, content in (files or {"a.txt": "first\n"}).items():
            with open(os.path.join(place, file), "w") as stream:
                stream.write(content)
        return place

    def ask(
        self, do: str, body: bytes = b"", deadline: float = PATIENT, patience: float = PATIENT, **keys: str
    ):
        """A question to the helper. It need not say within a second that it is at work, as for a hook."""
        header = client.request(do, self.environment, **keys)
        return client.ask(self.directory, header, body, deadline, patience)

    def call(self, call: Call) -> dict[str, object]:
        """The outcome of a call, by the helper."""
        answer = self.ask("call", json.dumps(call.as_dict()).encode())
        assert answer is not None and "error" not in answer[0], answer
        return json.loads(answer[1])

    def chat(self, line: str, directory: str = "", session: str = "", home: str = "") -> dict[str, object]:
        """What the helper answers to a line of a chat."""
        words = {"line": line, "directory": directory, "session": session, "home": home}
        answer = self.ask("chat", json.dumps(words).encode())
        assert answer is not None and "error" not in answer[0], answer
        return json.loads(answer[1])

    def hook(
        self, host: str, message: bytes, *, cwd: str = "", **more: str
    ) -> subprocess.CompletedProcess[bytes]:
        """`safekept hook HOST` as a process, by the lean way, with this user's helper if he has one."""
        return subprocess.run(
            [*program(), "hook", host],
            input=message,
            capture_output=True,
            cwd=cwd or self.home,
            env={**self.environment, **more},
            timeout=PATIENT * 2,
        )

    def settled(self) -> None:
        """Wait until the helper has done all that it does later."""
        ends = time.monotonic() + PATIENT
        while True:
            answer = self.ask("status")
            assert answer is not None
            if answer[0]["pending"] == "0":
                return
            assert time.monotonic() < ends, "the helper's later work never ends"
            time.sleep(0.005)


def throwaway(root: object, **more: str) -> Throwaway:
    """A user below `root`, whose home directory exists."""
    user = Throwaway(os.fspath(root), more)  # type: ignore[arg-type]
    os.makedirs(user.home, exist_ok=True)
    return user


@contextlib.contextmanager
def short_place() -> Iterator[str]:
    """A directory so short that a socket fits below it: without `/proc` one is reached by its path alone."""
    with tempfile.TemporaryDirectory(prefix="s", ignore_cleanup_errors=True) as place:
        yield place
        open_below(place)


def program() -> list[str]:
    """`safekept` as a process, started the way the launcher does it for hooks."""
    start = "import sys; sys.path.append(sys.argv.pop(1)); from safekept.__main__ import main; main()"
    return [sys.executable, "-I", "-S", "-c", start, SOURCE]


class Unchanging(CodeWatch):
    """The code of this process, whoever edits it meanwhile."""

    def changed(self) -> bool:
        return False


@contextlib.contextmanager
def helper_thread(user: Throwaway, idle: float = 600.0) -> Iterator[Server]:
    """A helper in a thread of this process; it is ended and waited for."""
    server = Server(user.directory, user.environment, idle, Unchanging())
    worker = Worker(lambda: server.run() and None, "test-helper")
    try:
        wait_for_socket(user, worker)
        yield server
    finally:
        client.ask(user.directory, client.request("stop", {}), b"", PATIENT)
        server.end("the test is over")
        assert worker.wait(PATIENT), "the helper does not end"
        assert worker.error is None, worker.error


@contextlib.contextmanager
def helper_process(user: Throwaway, idle: float = 600.0) -> Iterator[subprocess.Popen[bytes]]:
    """A helper as a process of its own; it is ended and waited for, by force if it must be."""
    process = subprocess.Popen(
        [*program(), "helper", "run", "--idle", str(idle)],
        env=user.environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for_socket(user, process)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(PATIENT)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()


def wait_for_socket(user: Throwaway, who: Worker | subprocess.Popen[bytes] | None = None) -> None:
    ends = time.monotonic() + PATIENT
    while user.ask("status") is None:
        if isinstance(who, Worker):
            assert who.running, f"the helper ended: {who.error!r}"
        elif who is not None:
            assert who.poll() is None, f"the helper ended with {who.returncode}"
        assert time.monotonic() < ends, "no helper listens"
        time.sleep(0.01)


def end_helper(user: Throwaway) -> None:
    """End a helper that a hook started; for sure, and whoever it is."""
    answer = client.ask(user.directory, client.request("stop", {}), b"", PATIENT, PATIENT)
    if answer is None or "pid" not in answer[0]:
        return
    pid, ends = int(answer[0]["pid"]), time.monotonic() + PATIENT
    while _alive(pid) and time.monotonic() < ends:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        if _alive(pid):
            os.kill(pid, signal.SIGKILL)


def _alive(pid: int) -> bool:
    """Whether it still runs; one that ended and that nobody waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
