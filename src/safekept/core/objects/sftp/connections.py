"""How the OpenSSH program is called, and what its last words mean.

The program, and not a library: the user's keys, agent, `known_hosts`, `~/.ssh/config`, jump hosts and
hardware keys count as they do everywhere else. Questions are never asked (BatchMode), and a host key that
is not in `known_hosts` is refused whatever the configuration says: a backup that goes to the wrong machine
is worse than none.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping

from ...errors import SafekeptError
from ...files import NoRoom
from ...records import dataclass
from ...spelling import shell_word
from ..errors import WHOLE, HostKeyRefused, ProgramMissing, refused, unreachable
from .channel import Channel, Lost, Refusal
from .wire import Status, text

#: AES with the processor's own instructions; with the default cipher ssh needs almost twice the time.
_QUICK = "aes128-gcm@openssh.com,aes256-gcm@openssh.com"
_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "LogLevel=ERROR",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "Compression=no",  # what we send is compressed or encrypted
)


@dataclass(frozen=True, slots=True)
class Host:
    """Where to connect; empty and zero mean what `~/.ssh/config` says."""

    name: str
    user: str = ""
    port: int = 0
    config: str = ""  # in place of ~/.ssh/config

    def __str__(self) -> str:
        host = f"[{self.name}]" if ":" in self.name else self.name
        return f"{self.user}@{host}" if self.user else host

    @property
    def address(self) -> str:
        return f"{self}:{self.port}" if self.port else str(self)


#: Seconds for the connection; ssh counts the greeting of the server with it.
_CONNECT = 15.0


def ssh_command(host: Host, environment: Mapping[str, str], timeout: float) -> list[str]:
    """The command whose streams speak SFTP."""
    program = shutil.which("ssh", path=environment.get("PATH"))
    if program is None:
        raise ProgramMissing(
            "The program `ssh` is not installed, and `sftp://` places are reached with it",
            kept="Nothing was contacted or changed",
            next_steps=("Install the OpenSSH client (Debian: `openssh-client`), then run the command again",),
            program="ssh",
        )
    command = [program, "-T", *(["-F", host.config] if host.config else [])]
    for option in (*_OPTIONS, f"ConnectTimeout={max(1, round(min(timeout, _CONNECT)))}"):
        command += ["-o", option]
    if host.port:
        command += ["-p", str(host.port)]
    if host.user:
        command += ["-l", host.user]
    if _default_ciphers(command, host, environment):
        command += ["-o", f"Ciphers=^{_QUICK}"]
    return [*command, "-s", "--", host.name, "sftp"]


def _default_ciphers(command: list[str], host: Host, environment: Mapping[str, str]) -> bool:
    """Whether the user left the choice of ciphers to ssh; one who chose keeps the choice."""
    try:
        ours, plain = (
            subprocess.run(
                [*words, "-G", "--", host.name],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=10,
                check=True,
            ).stdout
            for words in (command, [command[0], "-F", "none"])
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return _ciphers(ours) == _ciphers(plain) != b""


def _ciphers(settings: bytes) -> bytes:
    found = (line for line in settings.splitlines() if line.lower().startswith(b"ciphers "))
    return next(found, b"").partition(b" ")[2]


def explain(place: str, host: Host, reason: str, words: str) -> SafekeptError:
    """The error that fits what ssh said before it ended."""
    lines = [line.strip() for line in words.splitlines() if line.strip() and not line.startswith("@")]
    last = lines[-1] if lines else reason
    if "Host key verification failed" in words or "strict checking" in words:
        return _host_key(place, host, changed="IDENTIFICATION HAS CHANGED" in words or "has changed" in words)
    if "Permission denied" in words or "Too many authentication failures" in words:
        return refused(
            place,
            "log in",
            last.partition(": ")[2] or last,
            f"See that this works without a question: `ssh {_hint(host)} -s sftp`",
            "A key with a passphrase needs an agent (`ssh-add`), also where a schedule runs",
        )
    if "ubsystem request failed" in words:
        return refused(
            place,
            "use SFTP",
            last,
            "Switch SFTP on in that server: `Subsystem sftp internal-sftp` in its sshd_config",
        )
    if "Bad configuration option" in words or "bad configuration options" in words:
        return refused(place, "connect", last, "Correct the configuration file of ssh that is named")
    if "Can't open user config file" in words:
        return refused(place, "connect", last, "Correct `ssh_config` in the table of the destination")
    return unreachable(place, last)


def _host_key(place: str, host: Host, changed: bool) -> HostKeyRefused:
    if changed:
        return HostKeyRefused(
            f"The server at `{place}` shows another key than the one in known_hosts",
            kept=f"Nothing was sent to it. {WHOLE}",
            next_steps=(
                "Ask those who run that server whether its key was changed; if not, trust nothing there",
                f"Only if it was: take the old key out with `ssh-keygen -R '{_known_name(host)}'`, "
                f"then connect once with `ssh {_hint(host)}` and compare the fingerprint",
            ),
            place=place,
        )
    return HostKeyRefused(
        f"The key of the server at `{place}` is not in known_hosts",
        kept=f"Nothing was sent to it. {WHOLE}",
        next_steps=(
            f"Connect once by hand and compare the fingerprint: `ssh {_hint(host)}`",
            "Do so as the user that the command or its schedule runs as",
        ),
        place=place,
    )


def _hint(host: Host) -> str:
    config = f"-F {shell_word(host.config)} " if host.config else ""
    return config + (f"-p {host.port} {host}" if host.port else str(host))


def _known_name(host: Host) -> str:
    return f"[{host.name}]:{host.port}" if host.port not in (0, 22) else host.name


# A few SFTP connections for many threads: each is used by one thread at a time. Connections are opened
# when they are needed. Where a server does not allow another one while some are open, those have to do.
# One that was left in the middle of something is ended and never used again.


class Pool:
    def __init__(self, connect: Callable[[], Channel], most: int) -> None:
        self._connect = connect
        self._most = max(1, most)
        self._idle: list[Channel] = []
        self._open = 0
        self._closed = False
        self._change = threading.Condition()

    @contextlib.contextmanager
    def channel(self) -> Iterator[Channel]:
        channel = self._take()
        try:
            yield channel
        finally:
            self._give_back(channel)

    def close(self) -> None:
        with self._change:
            self._closed = True
            idle, self._idle = self._idle, []
            self._open -= len(idle)
        for channel in idle:
            channel.end()

    def _take(self) -> Channel:
        while True:
            with self._change:
                while not self._idle and self._open >= self._most:
                    self._change.wait()
                if self._closed:
                    raise Lost("the place was closed")
                if self._idle:
                    channel = self._idle.pop()
                    if channel.idle:
                        return channel
                    self._open -= 1
                else:
                    self._open += 1
                    channel = None
            if channel is not None:  # the server hung up while it was idle
                channel.end()
                continue
            try:
                return self._connect()
            except BaseException as error:
                with self._change:
                    self._open -= 1
                    # Some servers allow only so many at once: go on with those there are.
                    others = self._open > 0 and isinstance(error, Lost)
                    if others:
                        self._most = self._open
                    self._change.notify_all()
                if not others:
                    raise

    def _give_back(self, channel: Channel) -> None:
        with self._change:
            usable = channel.idle and not self._closed
            if usable:
                self._idle.append(channel)
            else:
                self._open -= 1
            self._change.notify()
        if not usable:
            channel.end()


# Why an SFTP server says no. SFTP version 3 has one word, "Failure", for a full disk, a read-only
# filesystem, a quota and much else. Where the server can describe its filesystem
# (`statvfs@openssh.com`), the word gets its meaning back.

_READ_ONLY = 1  # in the flags of statvfs@openssh.com
_LITTLE = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Filesystem:
    free: int
    total: int
    read_only: bool


def filesystem(channel: Channel, path: str) -> Filesystem | None:
    """What the server says about the filesystem of a path; None where it cannot."""
    if "statvfs@openssh.com" not in channel.extensions:
        return None
    try:
        facts = channel.answer(channel.extended("statvfs@openssh.com", text(path)))
    except Refusal:
        return None
    values = [facts.long_number() for _ in range(11)]
    unit = values[1] or values[0]
    return Filesystem(values[4] * unit, values[2] * unit, bool(values[9] & _READ_ONLY))


def explain_refusal(
    place: str, facts: Filesystem | None, verb: str, refusal: Refusal, size: int
) -> SafekeptError:
    """The error that fits. `size`: how many bytes were to be written."""
    if refusal.status == Status.PERMISSION_DENIED:
        return refused(place, verb, refusal.words or "permission denied", "See whom that place belongs to")
    if refusal.status == Status.FAILURE and facts is not None and facts.read_only:
        return refused(place, verb, "its filesystem is read-only", "Mount it writable on that server")
    full = facts is not None and facts.free <= max(size, _LITTLE)
    if refusal.status == Status.FAILURE and verb == "write there" and facts is not None and full:
        return NoRoom(
            f"There is no room left at `{place}`: {facts.free} bytes are free",
            kept=WHOLE,
            next_steps=("Make room on that server and run the command again",),
            place=place,
        )
    text = refusal.words or f"status {refusal.status}"
    return refused(
        place,
        verb,
        f"the server says only `{text}`",
        "See that there is room (a quota counts too) and that the directory is writable on that server",
    )
