"""Real servers on loopback for tests: an OpenSSH daemon, an S3 server, and rclone with remotes to use.

Each is started once for a run, when the first test asks for it, and answers before that test begins. No
port is chosen before it is bound: the S3 server binds port 0 and says which it got; for SSH a small listener
of ours binds port 0 and hands each connection to an `sshd -i` of its own. A test takes a directory, prefix
or bucket of its own from the server, so that tests never see each other's objects.

    sftp_server.place()     -> (url, Options, environment, directory on disk)
    s3_server.place()       -> the same; the directory is what the server stores
    rest_server.place()     -> the same, on `rclone serve restic`; adding_server can only be added to
    rclone_remotes.local()  -> the same, through rclone
    rclone_remotes.s3()     -> the same, through rclone and the S3 server
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from safekept.core.objects import ObjectStore, Options, open_objects
from safekept.core.objects.sftp import ADD_ONLY
from support.commands.waiting import PATIENT
from support.places import CHECKOUT

KEY, SECRET = "AKIASAFEKEPTTEST0001", "a-secret-that-must-never-be-seen"
#: Ends what it runs when the test process is gone, however that ended.
WATCHED = """
exec 3<&0 </dev/null
"$@" 3<&- & child=$!
{ cat <&3 >/dev/null; kill "$child" 2>/dev/null; } & watcher=$!
exec 3<&-; wait "$child"; status=$?; kill "$watcher" 2>/dev/null; exit $status
"""
_COUNT = itertools.count(1)


@dataclass(frozen=True)
class Place:
    """One empty place on a server, as a user would name it, and what is really stored there."""

    url: str
    directory: str
    options: Options = field(default_factory=Options)
    environment: dict[str, str] = field(default_factory=dict)

    def open(self, **changes: object) -> ObjectStore:
        options = replace(self.options, **changes)
        return open_objects(self.url, environment=self.environment, options=options)


def find_program(name: str) -> str:
    """A program of this checkout or of the system; a loud skip where there is none."""
    from conftest import program

    mine = os.path.join(CHECKOUT, ".venv", "bin", name)
    if os.access(mine, os.X_OK):
        return mine
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or program(name)


def plain_environment(home: str) -> dict[str, str]:
    """Nothing of this machine's user, and never the metadata service of the machine itself."""
    return {
        "PATH": f"{os.path.join(CHECKOUT, '.venv', 'bin')}:{os.environ.get('PATH', '')}",
        "HOME": home,
        "AWS_EC2_METADATA_DISABLED": "true",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
    }


class Process:
    """A server that says on its error stream when it is ready; it never outlives the test run."""

    def __init__(self, command: list[str], environment: dict[str, str], ready: str) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", WATCHED, "sh", *command],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []
        self._ready = threading.Event()
        self.match: re.Match[str] | None = None
        self._reader = threading.Thread(target=self._read, args=(re.compile(ready),), daemon=True)
        self._reader.start()
        if not self._ready.wait(PATIENT) or self.match is None:
            self.end()
            pytest.fail(f"{command[0]} did not start: {' / '.join(self.said[-5:])}")

    def _read(self, ready: re.Pattern[str]) -> None:
        for line in self._process.stderr:
            self.said.append(line.strip())
            if self.match is None and (match := ready.search(line)):
                self.match = match
                self._ready.set()
        self._ready.set()

    def end(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(PATIENT)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait()
        self._reader.join(PATIENT)
        self._process.stderr.close()


class S3Server:
    """`rclone serve s3` over a directory; its buckets are the directories in it.

    It remembers directories for five minutes, and without that memory it deadlocks under parallel writes.
    So there is one bucket, made before the start, and whoever wants to change what is stored does so through
    the server (`place.open()`), not on the disk below it; looking at the disk is always right.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.join(root, "s3")
        self.home = os.path.join(root, "s3-home")
        os.makedirs(os.path.join(self.root, "bucket"))
        os.makedirs(self.home)
        rclone = find_program("rclone")
        self._process = Process(
            [rclone, "serve", "s3", "--addr", "127.0.0.1:0", "--auth-key", f"{KEY},{SECRET}", self.root],
            plain_environment(self.home),
            r"Starting s3 server on \[http://127\.0\.0\.1:(\d+)/\]",
        )
        self.port = int(self._process.match[1])
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        return {**plain_environment(self.home), **keys}

    def place(self, endpoint: str = "") -> Place:
        """A prefix of its own; another endpoint (a proxy) may stand before the server."""
        prefix = f"place-{next(_COUNT)}/agent"
        directory = os.path.join(self.root, "bucket", prefix)
        options = Options(endpoint=endpoint or self.endpoint, region="us-east-1", timeout=30.0)
        return Place(f"s3://bucket/{prefix}", directory, options, self.environment())

    def end(self) -> None:
        self._process.end()


class RestServer:
    """`rclone serve restic` over a directory, for one user with a password."""

    USER, PASSWORD = "agent", "a-password-that-must-never-be-seen"

    def __init__(self, root: str, *words: str) -> None:
        self.root = os.path.join(root, f"rest{words[0]}" if words else "rest")
        self.home = f"{self.root}-home"
        os.makedirs(self.root)
        os.makedirs(self.home)
        # What it remembers of a listing, it would still show when a test takes it away on the disk.
        command = [find_program("rclone"), "serve", "restic", "--addr", "127.0.0.1:0"]
        login = {"RCLONE_USER": self.USER, "RCLONE_PASS": self.PASSWORD}
        self._process = Process(
            [*command, "--cache-objects=false", *words, self.root],
            {**plain_environment(self.home), **login},
            r"Serving restic REST API on \[https?://127\.0\.0\.1:(\d+)/\]",
        )
        self.port = int(self._process.match[1])

    def place(self, port: int = 0) -> Place:
        """A path of its own; a proxy may stand before the server."""
        path = f"place-{next(_COUNT)}"
        environment = {**plain_environment(self.home), "RESTIC_REST_PASSWORD": self.PASSWORD}
        url = f"rest:http://{self.USER}@127.0.0.1:{port or self.port}/{path}"
        return Place(url, os.path.join(self.root, path), Options(timeout=30.0), environment)

    def restic(self, place: Place, directory: str = "") -> str:
        """What restic calls a repository there."""
        return f"{place.url.replace('@', f':{self.PASSWORD}@')}/{directory}"

    def end(self) -> None:
        self._process.end()


class SshServer:
    """OpenSSH's daemon, one process for each connection, for whoever runs the tests, or for another account.

    The key may do nothing but SFTP (`restrict,command="internal-sftp"`). Other keys may do less: `reader`
    only read, `adder` only add, `mover` neither remove nor replace, but rename; `lodger` begins in the data
    directory; `stranger` is not let in. Known hosts know the server as `safekept-test`, so that a proxy
    before it changes nothing. Another account must be able to reach `root`.
    """

    def __init__(self, root: str, account: str = "") -> None:
        self.account = account
        self.root = os.path.join(root, "ssh")
        self.data = os.path.join(self.root, "data")
        os.makedirs(self.data)
        self._sshd = find_program("sshd")
        find_program("ssh")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        for name in ("host", "user", "reader", "adder", "mover", "lodger", "stranger"):
            path = os.path.join(self.root, name)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        self.config = self._file(
            "sshd_config",
            f"HostKey {self.root}/host\nAuthorizedKeysFile {self.root}/authorized\nPidFile none\nUsePAM no\n"
            "StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\nLogLevel ERROR\n",
        )
        may = {
            "user": "",
            "reader": " -R",
            "adder": f" -P {ADD_ONLY}",
            "mover": " -P remove,rmdir,posix-rename",
            "lodger": f" -d {self.data}",
        }
        lines = [f'restrict,command="internal-sftp{may[key]}" {self._read(f"{key}.pub")}' for key in may]
        self._file("authorized", "\n".join(lines))
        self._file("known_hosts", f"safekept-test {self._read('host.pub')}")
        self._file("known_other", f"safekept-test {self._read('stranger.pub')}")
        self.ssh_config = self.client_config()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._log = open(os.path.join(self.root, "log"), "wb")  # noqa: SIM115 - until the end
        self._sessions: list[subprocess.Popen[bytes]] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def client_config(self, *lines: str, known: str = "known_hosts", key: str = "user") -> str:
        """A configuration file of the client, with further lines before ours."""
        text = "\n".join(
            [
                *lines,
                f"IdentityFile {self.root}/{key}",
                "IdentitiesOnly yes",
                "IdentityAgent none",
                "HostKeyAlias safekept-test",
                f"UserKnownHostsFile {self.root}/{known}",
                "GlobalKnownHostsFile /dev/null",
            ]
        )
        return self._file(f"ssh_config_{next(_COUNT)}", text)

    def place(self, port: int = 0) -> Place:
        directory = os.path.join(self.data, f"place-{next(_COUNT)}")
        os.makedirs(directory)
        user = self.account
        if user:
            shutil.chown(directory, user)
        else:
            user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        url = f"sftp://{user}@127.0.0.1:{port or self.port}{directory}"
        options = Options(ssh_config=self.ssh_config, timeout=30.0)
        return Place(url, directory, options, plain_environment(self.root))

    def log(self) -> str:
        self._log.flush()
        return self._read("log")

    def end(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(PATIENT)
        for session in self._sessions:
            if session.poll() is None:
                session.terminate()
            session.wait()
        self._log.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                command = [self._sshd, "-i", "-e", "-f", self.config]
                session = subprocess.Popen(command, stdin=connection, stdout=connection, stderr=self._log)
            self._sessions = [one for one in self._sessions if one.poll() is None] + [session]

    def _file(self, name: str, text: str) -> str:
        path = os.path.join(self.root, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.rstrip("\n") + "\n")
        return path

    def _read(self, name: str) -> str:
        with open(os.path.join(self.root, name), encoding="utf-8", errors="replace") as file:
            return file.read().strip()


class RcloneRemotes:
    """An rclone.conf with a local remote and one on the S3 server."""

    def __init__(self, root: str, s3: S3Server) -> None:
        self.root = os.path.join(root, "rclone")
        self.s3_server = s3
        os.makedirs(os.path.join(self.root, "data"))
        self.config = os.path.join(self.root, "rclone.conf")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(
                "[disk]\ntype = local\n\n"
                f"[bucket]\ntype = s3\nprovider = Rclone\nendpoint = {s3.endpoint}\n"
                f"access_key_id = {KEY}\nsecret_access_key = {SECRET}\n"
            )

    def local(self) -> Place:
        directory = os.path.join(self.root, "data", f"place-{next(_COUNT)}")
        os.makedirs(directory)
        return self._place(f"rclone:disk:{directory}", directory)

    def s3(self) -> Place:
        below = self.s3_server.place()
        return self._place(f"rclone:bucket:{below.url.removeprefix('s3://')}", below.directory)

    def _place(self, url: str, directory: str) -> Place:
        options = Options(rclone_config=self.config, timeout=30.0)
        return Place(url, directory, options, plain_environment(self.root))


@pytest.fixture(scope="session")
def server_root() -> Iterator[str]:
    """A short path: sockets and configuration files of ssh have limits that pytest's paths exceed."""
    root = tempfile.mkdtemp(prefix="safekept-servers-", dir=os.environ["PYTEST_DEBUG_TEMPROOT"])
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def s3_server(server_root: str) -> Iterator[S3Server]:
    server = S3Server(server_root)
    yield server
    server.end()


@pytest.fixture(scope="session")
def rest_server(server_root: str) -> Iterator[RestServer]:
    server = RestServer(server_root)
    yield server
    server.end()


@pytest.fixture(scope="session")
def adding_server(server_root: str) -> Iterator[RestServer]:
    server = RestServer(server_root, "--append-only")
    yield server
    server.end()


@pytest.fixture(scope="session")
def sftp_server(server_root: str) -> Iterator[SshServer]:
    server = SshServer(server_root)
    yield server
    server.end()


@pytest.fixture(scope="session")
def rclone_remotes(server_root: str, s3_server: S3Server) -> RcloneRemotes:
    find_program("rclone")
    return RcloneRemotes(server_root, s3_server)
