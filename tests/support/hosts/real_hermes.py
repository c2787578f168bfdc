"""The real Hermes with the plugin in its home, in a process that tests can talk to."""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML

from safekept.cli.main import run
from safekept.integrations.connecting.program import Program
from safekept.integrations.helper import client
from safekept.integrations.hermes.install import host_files
from support.commands.in_process import Said
from support.commands.waiting import PATIENT, wait_until

DRIVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hermes_driver.py")
SAFEKEPT = (sys.executable, "-I", "-m", "safekept")


class User:
    """A throwaway user with a home of Hermes, a project, and safekept's own places."""

    def __init__(self, place: str, model: Mapping[str, Any] | None = None, **config: Any) -> None:
        self.directory = os.path.join(place, "user")
        self.home = os.path.join(self.directory, ".hermes")
        self.project = os.path.join(self.directory, "project")
        os.makedirs(self.home)
        os.makedirs(self.project)
        put(f"{self.project}/pyproject.toml", "")
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        self.environment = {
            **keep,
            "HOME": self.directory,
            "HERMES_HOME": self.home,
            "NO_COLOR": "1",
            "PYTHONUTF8": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HERMES_YOLO_MODE": "1",
            "GATEWAY_ALLOW_ALL_USERS": "1",
        }
        # No test is about the probe of the machine's tools, which takes seconds, nor about Hermes looking
        # back at its work in the background, which would use up what a scripted model has to say.
        quick: dict[str, Any] = {
            "agent": {"environment_probe": False},
            "memory": {"nudge_interval": 0},
            "skills": {"creation_nudge_interval": 0},
        }
        document = {**quick, **({"model": dict(model)} if model else {}), **config}
        with open(f"{self.home}/config.yaml", "w", encoding="utf-8") as file:
            YAML().dump(document, file)

    def connect(self, command: Sequence[str] = SAFEKEPT) -> None:
        """What `safekept connect hermes` writes, with this command in it, and without a record of it."""
        for one in host_files(self.home, self.environment):
            put(one.path, one.put(read(one.path), Program(tuple(command))))

    @property
    def data(self) -> str:
        return client.data_directory(self.environment)

    def safekept(self, *words: str, cwd: str = "") -> Said:
        """The command line as this user, in this process: a new interpreter for each costs half a second."""
        kept, here = dict(os.environ), os.getcwd()
        out, err = io.StringIO(), io.StringIO()
        try:
            os.environ.clear()
            os.environ.update(self.environment)
            os.chdir(cwd or self.project)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(list(words))
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(kept)
        return Said(code, out.getvalue(), err.getvalue())

    def ask(self, *words: str) -> Any:
        """The same with `--json`."""
        done = self.safekept(*words, "--json")
        assert done.out, done.err
        return json.loads(done.out)

    @property
    def helper(self) -> str:
        return client.helper_directory(self.environment)

    def helper_pid(self) -> int:
        """0: there is none."""
        answer = self._asked("status")
        return int(answer[0]["pid"]) if answer else 0

    def running_helper(self) -> int:
        """Its process, once there is one: a call that it came too late for was made without it."""
        wait_until(self.helper_pid, "the helper")
        return self.helper_pid()

    def home_point(self, reason: str) -> str:
        """The newest home point with a reason that begins so, from the project's own timeline.

        It stands there once the project has a point of the same session, which a call may leave to be noted
        after its answer: on a busy machine that takes a moment.
        """
        found: list[str] = []

        def noted() -> bool:
            rows = self.ask("rollback")["home_points"]
            found[:] = [row["id"] for row in rows if row["reason"].startswith(reason)]
            return bool(found)

        wait_until(noted, f"a home point {reason!r}")
        return found[0]

    def remove_data(self) -> None:
        """Everything of safekept's goes, also what a helper that works on may put there meanwhile."""
        aside = f"{self.data}-removed-{time.time_ns()}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.data, aside)
        shutil.rmtree(aside, ignore_errors=True)

    def settled(self) -> None:
        """Waits until the helper has done what it does later."""
        ends = time.monotonic() + PATIENT
        while time.monotonic() < ends:
            answer = self._asked("status")
            if answer is None or answer[0].get("pending") == "0":
                return
            time.sleep(0.02)
        raise AssertionError("the helper is still at work")

    def stop_helper(self) -> None:
        pid = self.helper_pid()
        if not pid:
            return
        self._asked("stop")
        ends = time.monotonic() + PATIENT
        while time.monotonic() < ends and os.path.exists(f"/proc/{pid}"):
            time.sleep(0.02)

    def _asked(self, do: str) -> tuple[dict[str, str], bytes] | None:
        """None: nobody listens. A helper that is slow is no helper that is not there."""
        return client.ask(self.helper, client.request(do, {}), b"", PATIENT, PATIENT)


def put(path: str, content: str | bytes, mode: int = 0o644) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    os.chmod(path, mode)


def read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


class HermesProcess:
    """A process of Hermes's own Python that does what it is told; see hermes_driver.py."""

    def __init__(self, python: str, user: User, **environment: str) -> None:
        self.user = user
        self.heard = 0
        self.errors = os.path.join(os.path.dirname(user.directory), f"stderr-{time.time_ns()}")
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [python, DRIVER],
                env={**user.environment, **environment},
                cwd=user.project,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def __call__(self, verb: str, *words: Any, **given: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([verb, words, given]).encode() + b"\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], 300)
        line = self.process.stdout.readline() if ready else b""
        assert line, f"Hermes does not answer:\n{self.said()[-3000:]}"
        answer = json.loads(line)
        assert "error" not in answer, f"{answer['error']}\n{self.said()[-3000:]}"
        return answer["answer"]

    def tool(self, name: str, arguments: dict[str, Any], **given: Any) -> dict[str, Any]:
        answer = self("tool", name, arguments, **given)
        try:
            return json.loads(answer)
        except ValueError:
            return {"text": answer}

    def said(self) -> str:
        """Everything on its standard error."""
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            return file.read()

    def news(self) -> str:
        """What came on it since it was asked the last time."""
        before, self.heard = self.heard, len(self.said())
        return self.said()[before:]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(PATIENT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@contextlib.contextmanager
def hermes_process(python: str, user: User, **environment: str) -> Iterator[HermesProcess]:
    process = HermesProcess(python, user, **environment)
    try:
        yield process
    finally:
        process.close()
        user.stop_helper()


def run_hermes(hermes: str, user: User, *words: str) -> subprocess.CompletedProcess[str]:
    """The program itself, as a user calls it, with nobody at the terminal."""
    return subprocess.run(
        [hermes, *words],
        env=user.environment,
        cwd=user.project,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
