"""One rclone process that answers requests on a socket of its own.

Starting rclone for every object would cost a hundred milliseconds each. Instead `rclone rcd` listens on a
unix socket in a directory that only we may enter, with a random password that travels in its environment
and never on a command line. It ends with us, also when we are killed: a small shell beside it waits for
the end of a pipe that only our process holds open.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping

from ..errors import ProgramMissing

_START = 60.0  # seconds until it listens, also on a machine that does something else
_TRIES = 3  # of rclone's own low-level retries
_WATCHED = """
exec 3<&0 </dev/null
"$0" rcd 3<&- &
child=$!
{ cat <&3 >/dev/null; trap '' TERM; kill "$child" 2>/dev/null; rm -rf "$1"; } &
watcher=$!
exec 3<&-
wait "$child"
status=$?
kill "$watcher" 2>/dev/null
exit $status
"""


class HelperLost(Exception):
    """rclone does not answer (any more)."""


class Answered(Exception):
    """rclone answered with an error."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class RcloneHelper:
    """The process, and connections to it; used from many threads."""

    def __init__(
        self, environment: Mapping[str, str], *, config: str, timeout: float, rate_limit: int, lanes: int
    ) -> None:
        self.timeout = timeout
        self._environment = dict(environment)
        self._settings = {
            "RCLONE_TIMEOUT": f"{max(1, round(timeout))}s",
            "RCLONE_CONTIMEOUT": f"{max(1, round(min(timeout, 5)))}s",
            "RCLONE_LOW_LEVEL_RETRIES": str(_TRIES),
            "RCLONE_RETRIES": "1",
            "RCLONE_TRANSFERS": str(lanes),
            "RCLONE_STATS": "0",
            "RCLONE_LOG_LEVEL": "ERROR",
            "RCLONE_FAST_LIST": "true",
            "RCLONE_USE_SERVER_MODTIME": "true",
            "RCLONE_IGNORE_TIMES": "true",  # asked to write, it writes: what is there was looked at before
            "RCLONE_S3_NO_CHECK_BUCKET": "true",  # a bucket is never made
            "RCLONE_ASK_PASSWORD": "false",
            "RCLONE_RC_SERVE": "true",
        }
        if config:
            self._settings["RCLONE_CONFIG"] = config
        if rate_limit:
            self._settings["RCLONE_BWLIMIT"] = f"{rate_limit}B:off"
        self.directory = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._idle: list[_UnixConnection] = []
        self._headers: dict[str, str] = {}
        self._lock = threading.Lock()

    def call(self, command: str, _patience: float = 0.0, **values: object) -> dict[str, object]:
        """One call of rclone's remote control; Answered where it says no, HelperLost where it is gone."""
        body = json.dumps(values).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        with self._connection(_patience) as connection:
            connection.request("POST", f"/{command}", body, {**headers, **self._headers})
            answer = connection.getresponse()
            content = answer.read()
        try:
            document = json.loads(content or b"{}")
        except ValueError:
            document = {}
        if answer.status != 200:
            raise Answered(answer.status, str(document.get("error", "")) or f"status {answer.status}")
        return document if isinstance(document, dict) else {}

    @contextlib.contextmanager
    def get(self, path: str, span: str) -> Iterator[http.client.HTTPResponse]:
        """The body of one object, to be read inside the block."""
        with self._connection(0.0) as connection:
            connection.request("GET", path, headers={**self._headers, **({"Range": span} if span else {})})
            answer = connection.getresponse()
            if answer.status not in (200, 206):
                raise Answered(answer.status, answer.read().decode("utf-8", "replace"))
            yield answer

    def close(self) -> None:
        with self._lock:
            process, self._process = self._process, None
            idle, self._idle = self._idle, []
            directory, self.directory = self.directory, ""
        for connection in idle:
            connection.close()
        if process is not None:
            _end(process)
        if directory:
            shutil.rmtree(directory, ignore_errors=True)

    def spool(self) -> str:
        """A name for a file on its way, in the directory that goes when we go."""
        self._start()
        return os.path.join(self.directory, f"spool-{secrets.token_hex(8)}")

    @contextlib.contextmanager
    def _connection(self, patience: float) -> Iterator[_UnixConnection]:
        connection = self._take()
        clean = False
        try:
            connection.patience(self.timeout * (_TRIES + 1) + patience)
            yield connection
            clean = True
        except Answered:
            clean = True
            raise
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, TimeoutError):
                raise HelperLost("no answer in time") from None
            raise HelperLost(self._last_words() or "rclone ended") from None
        finally:
            with self._lock:
                keep = clean and self._process is not None
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def _take(self) -> _UnixConnection:
        self._start()
        with self._lock:
            if self._idle:
                return self._idle.pop()
            return _UnixConnection(os.path.join(self.directory, "socket"))

    def _start(self) -> None:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            process, self._process = self._process, None
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            if process is not None:
                _end(process)
            if self.directory:
                shutil.rmtree(self.directory, ignore_errors=True)
            self._start_locked()

    def _start_locked(self) -> None:
        program = shutil.which("rclone", path=self._environment.get("PATH"))
        if program is None:
            raise ProgramMissing(
                "The program `rclone` is not installed, and `rclone:` places are reached with it",
                kept="Nothing was contacted or changed",
                next_steps=("Install rclone (rclone.org, or Debian: `rclone`), then run the command again",),
                program="rclone",
            )
        self.directory = _private_directory(self._environment)  # the shell removes it if we cannot
        path = os.path.join(self.directory, "socket")
        secret = secrets.token_urlsafe(24)
        pair = base64.b64encode(f"safekept:{secret}".encode()).decode()
        self._headers = {"Authorization": f"Basic {pair}"}
        settings = {
            **self._settings,
            "RCLONE_RC_ADDR": f"unix://{path}",
            "RCLONE_RC_USER": "safekept",
            "RCLONE_RC_PASS": secret,
        }
        with open(os.path.join(self.directory, "words"), "wb") as words:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHED, program, self.directory],
                env={**self._environment, **settings},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=words,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START
        while not _listens(path):
            if self._process.poll() is not None or time.monotonic() > deadline:
                last_words = self._last_words()
                _end(self._process)
                self._process = None
                raise HelperLost(last_words or "rclone did not start")
            time.sleep(0.02)

    def _last_words(self) -> str:
        try:
            with open(os.path.join(self.directory, "words"), "rb") as words:
                lines = words.read()[-4096:].decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def patience(self, seconds: float) -> None:
        self.timeout = seconds
        if self.sock is not None:
            self.sock.settimeout(seconds)


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
        try:
            knock.connect(path)
        except OSError:
            return False
    return True


def _private_directory(environment: Mapping[str, str]) -> str:
    """A 0700 directory with a path short enough for a socket."""
    for parent in (environment.get("XDG_RUNTIME_DIR"), environment.get("TMPDIR"), "/tmp"):  # noqa: S108
        if parent and len(parent) < 60 and os.access(parent, os.W_OK):
            return tempfile.mkdtemp(prefix="safekept-rclone-", dir=parent)
    return tempfile.mkdtemp(prefix="safekept-rclone-")


def _end(process: subprocess.Popen[bytes]) -> None:
    """The end of its input ends it; what does not end is killed with everything it started."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
