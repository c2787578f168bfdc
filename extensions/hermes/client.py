"""The lean client of the helper: a few system calls, and nothing imported that a bare Python has not.

It is also copied beside the plugins of agents that run in a Python of their own, so nothing of safekept's
may be imported here. It never raises: a caller without an answer does the work itself.

The wire, both ways: two lengths (four bytes each, big endian), then that many bytes of header and of body.
A header is `key=value`, joined by zero bytes, beginning with `safekept=1`. The helper first says that it
is at work (`working=1`, nothing else), so that a stopped one is told from a busy one.
"""

import _socket
import os
import sys
import time

MAX_HEADER = 1 << 20
MAX_BODY = 64 << 20
#: Seconds in which a living helper has said that it is at work.
PATIENCE = 1.0
SOCKET = "socket"
#: No helper is started again before so many seconds, whatever became of the last one.
RETRY_SECONDS = 20.0
#: A path of a socket cannot be longer (108 bytes with its end on Linux, 104 elsewhere).
_LONGEST = 100
_FAMILIES = ("XDG_", "SAFEKEPT_")
_NAMES = (
    "HOME",
    "PATH",
    "CLAUDE_CONFIG_DIR",
    "CLINE_DIR",
    "CURSOR_CONFIG_DIR",
    "OPENCLAW_STATE_DIR",
    "OPENVIKING_CLI_CONFIG_FILE",
    "TERMINAL_CWD",  # where the tools of Hermes work, and in which back end
    "TERMINAL_ENV",
)


def data_directory(environment: dict[str, str]) -> str:
    """Where safekept keeps what is this user's; the same place that its settings come to."""
    owner = environment.get("SAFEKEPT_SYSTEM_USER")
    if owner:
        return os.path.join("/var/lib/safekept", owner)
    data = environment.get("XDG_DATA_HOME", "")
    if not data.startswith("/"):  # a relative one would be another place in each directory
        home = environment.get("HOME", "")
        if not home.startswith("/"):
            import pwd

            try:
                home = pwd.getpwuid(os.getuid()).pw_dir
            except KeyError:
                home = "/"
        data = os.path.join(home, ".local", "share")
    return os.path.join(data, "safekept")


def helper_directory(environment: dict[str, str]) -> str:
    """Where the helper of this user and data directory listens."""
    return os.path.join(data_directory(environment), "helper")


def wanted(environment: dict[str, str]) -> bool:
    """Whether a helper may be used at all: `SAFEKEPT_HELPER=0` says no."""
    return environment.get("SAFEKEPT_HELPER", "").strip().lower() not in ("0", "false", "no", "off")


def counts(name: str) -> bool:
    """Whether a variable can mean something to safekept: the only ones that are sent."""
    return name.startswith(_FAMILIES) or name in _NAMES or name.endswith("_HOME")


def code_identity(package: str) -> str:
    """Which code is installed in that directory, by two of its files: an update replaces them. Cheap,
    since every hook works it out; a helper sees by itself when a single file of its code changes."""
    marks = [package]
    for name in ("__init__.py", "integrations/helper/client.py"):
        try:
            found = os.stat(os.path.join(package, name))
        except OSError:
            continue
        marks.append(f"{found.st_ino:x}.{found.st_mtime_ns:x}")
    return "-".join(marks)


def request(do: str, environment: dict[str, str], **keys: str) -> dict[str, str]:
    """The header of a request."""
    header = {"safekept": "1", "do": do, **keys}
    for name, value in environment.items():
        if counts(name):
            header["env." + name] = value
    return header


def packed(header: dict[str, str], body: bytes = b"") -> bytes:
    """One frame."""
    text = "\0".join([f"{key}={value}" for key, value in header.items()])
    head = text.encode("utf-8", "surrogateescape")
    return len(head).to_bytes(4, "big") + len(body).to_bytes(4, "big") + head + body


def unpacked(head: bytes) -> dict[str, str]:
    """The keys of a header. Anything else is a ValueError."""
    found: dict[str, str] = {}
    for pair in head.decode("utf-8", "surrogateescape").split("\0"):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError("a header without values")
        found[key] = value
    if next(iter(found)) != "safekept" or found["safekept"] != "1":
        raise ValueError("not a header of safekept's")
    return found


def ask(
    directory: str,
    header: dict[str, str],
    body: bytes = b"",
    deadline: float = 60.0,
    patience: float = PATIENCE,
) -> tuple[dict[str, str], bytes] | None:
    """Ask the helper that listens in `directory`. None: there is none, it is not ours, or it did not
    answer within `deadline` seconds; one that says nothing at all for `patience` is given up sooner."""
    ends = time.monotonic() + deadline
    connection = _connected(directory, min(patience, deadline))
    if connection is None:
        return None
    try:
        connection.sendall(packed(header, body))
        answer = _frame(connection, ends)
        if "working" in answer[0]:
            connection.settimeout(max(0.001, ends - time.monotonic()))
            answer = _frame(connection, ends)
        return answer
    except (OSError, ValueError, StopIteration):
        return None
    finally:
        connection.close()


def start(
    command: list[str], directory: str, environment: dict[str, str] | None = None, wait: float = 0.0
) -> bool:
    """Start a helper that outlives us, unless that was done a moment ago, or `SAFEKEPT_HELPER=running`
    says that only one that runs is to be used. With `wait`, up to so many seconds for its socket; whether
    it is there then."""
    environment = dict(os.environ if environment is None else environment)
    try:
        if environment.get("SAFEKEPT_HELPER", "") != "running" and _claimed(directory):
            _spawn(command, environment)
    except OSError:
        return False
    ends = time.monotonic() + wait
    while wait and time.monotonic() < ends:
        connection = _connected(directory, PATIENCE)
        if connection is not None:
            connection.close()
            return True
        time.sleep(0.01)
    return False


def private_directory(path: str) -> None:
    """Make a directory that only its owner can enter; parents that are missing are made so, too."""
    if not os.path.isdir(path):
        private_directory(os.path.dirname(path))
        try:  # noqa: SIM105 - `contextlib` costs more than all the rest of this file
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass


def _claimed(directory: str) -> bool:
    """Whether it is for us to start one: of many at once only the first does."""
    private_directory(directory)
    stamp = os.path.join(directory, "started")
    try:
        if 0 <= time.time() - os.stat(stamp).st_mtime < RETRY_SECONDS:
            return False
        os.unlink(stamp)
    except FileNotFoundError:
        pass
    try:
        os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def _spawn(command: list[str], environment: dict[str, str]) -> None:
    """In a session of its own, with nothing of ours open, and not our child: nothing has to wait for it."""
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    words = ["sh", "-c", 'cd / && "$@" &', "sh", *command]
    child = os.posix_spawn("/bin/sh", words, environment, file_actions=nowhere, setsid=True)
    try:  # noqa: SIM105 - as above
        os.waitpid(child, 0)
    except ChildProcessError:  # the program around us waits for all children, or for none
        pass


def _connected(directory: str, timeout: float) -> _socket.socket | None:
    """A connection to a process of this very user."""
    path = os.path.join(directory, SOCKET)
    folder = -1
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | getattr(_socket, "SOCK_CLOEXEC", 0))
    try:
        connection.settimeout(timeout)
        if len(os.fsencode(path)) > _LONGEST:
            folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            path = f"/proc/self/fd/{folder}/{SOCKET}"
        connection.connect(path)
        if peer(connection) not in (None, os.geteuid()):
            raise OSError("the helper of another user")
        return connection
    except OSError:
        connection.close()
        return None
    finally:
        if folder >= 0:
            os.close(folder)


def peer(connection: _socket.socket) -> int | None:
    """The user at the other end; None where this system does not say."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # pid, uid, gid
    elif sys.platform == "darwin":
        credentials = connection.getsockopt(0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED: version, uid, groups
    else:
        return None
    return int.from_bytes(credentials[4:8], sys.byteorder)


def _frame(connection: _socket.socket, ends: float) -> tuple[dict[str, str], bytes]:
    lengths = _exactly(connection, 8, ends)
    head, body = int.from_bytes(lengths[:4], "big"), int.from_bytes(lengths[4:], "big")
    if head > MAX_HEADER or body > MAX_BODY:
        raise ValueError("a frame beyond all bounds")
    return unpacked(_exactly(connection, head, ends)), _exactly(connection, body, ends)


def _exactly(connection: _socket.socket, count: int, ends: float) -> bytes:
    parts: list[bytes] = []
    while count:
        if time.monotonic() > ends:
            raise OSError("no time left")
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise OSError("the helper went away")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
