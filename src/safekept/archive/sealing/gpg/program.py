"""Runs `gpg`: in batch, with an environment of few words, and its answers taken from the status lines.

Secrets go through pipes of their own, never on the command line, and no text of gpg's is handed on before
what could hold one was taken out. The status lines have a pipe of their own, too: nothing that a message
makes gpg say can pass for one of them. The configuration of the user is not read: an `encrypt-to` in it would
add a reader that is not named here.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from safekept.core.platform.descriptors import widen_pipe
from safekept.core.worker import Worker

from ..errors import gpg_missing

_KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "GNUPGHOME",
    "GPG_TTY",
    "TERM",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "PINENTRY_USER_DATA",
)
_ALWAYS = (
    "--no-options",
    "--batch",
    "--no-tty",
    "--trust-model=always",
    "--no-auto-check-trustdb",
    "--no-random-seed-file",
)
#: For messages with a passphrase: no keys are looked for, so it works where gpg was never used before.
WITH_PASSPHRASE = ("--pinentry-mode=loopback", "--no-symkey-cache")
WITHOUT_KEYS = "--no-keyring"
_ENGLISH = {"LC_ALL": "C.UTF-8"}
_STATUS = "[GNUPG:] "
PIPE = subprocess.PIPE
_WIDTH = 1 << 20
#: Seconds that it may do nothing while we wait for it: a person may have to find a card or a passphrase.
SILENCE = 600.0
_LOOK = 1.0
#: Lines kept of what gpg says; a message for thousands of keys has some for each.
_STATUS_LINES, _LINES = 50_000, 200


def find_gpg(environment: Mapping[str, str]) -> str | None:
    path = environment.get("PATH") or os.defpath
    return shutil.which("gpg", path=path) or shutil.which("gpg2", path=path)


class Gpg:
    """One run. Feed it, read from it, `finish`, and always `close`."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        kept: str,
        secrets: Mapping[str, bytes] | None = None,
        stdin: int = subprocess.DEVNULL,
        feed: Iterator[bytes] | None = None,
    ) -> None:
        program = find_gpg(environment)
        if program is None:
            raise gpg_missing(kept)
        self.status: list[tuple[str, list[str]]] = []
        self._text: list[str] = []
        self._feeder: Worker | None = None
        self._waits = 0.0  # since when we wait for it; 0: it waits for us
        self.silent = False  # it was ended because nothing came of it
        self._status_end, ours = os.pipe()
        command, ends = [program, *_ALWAYS, f"--status-fd={ours}"], [ours]
        try:
            for option, secret in (secrets or {}).items():
                ends.append(_pipe_with(secret))
                command.append(f"{option}={ends[-1]}")
            self.process = subprocess.Popen(
                [*command, *arguments],
                stdin=PIPE if feed is not None else stdin,
                stdout=PIPE,
                stderr=PIPE,
                bufsize=0,
                pass_fds=tuple(ends),
                env={name: environment[name] for name in _KEPT if name in environment} | _ENGLISH,
            )
        except BaseException:
            os.close(self._status_end)
            raise
        finally:
            for end in ends:
                os.close(end)
        assert self.process.stdout is not None and self.process.stderr is not None
        self._out = self.process.stdout.fileno()
        self._err = self.process.stderr.fileno()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                widen_pipe(pipe.fileno(), _WIDTH)
        self._collectors = (
            Worker(lambda: self._collect(self._status_end, self._note_status), "safekept-gpg-status"),
            Worker(lambda: self._collect(self._err, self._note_text), "safekept-gpg-words"),
        )
        if feed is not None:
            self._feeder = Worker(lambda: self._feed(feed), "safekept-gpg-feed")

    # -- in and out ------------------------------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        """To its standard input; BrokenPipeError where it ended."""
        assert self.process.stdin is not None
        view = memoryview(data)
        with self._waiting() if self._feeder is None else contextlib.nullcontext():
            while view:
                view = view[os.write(self.process.stdin.fileno(), view) :]
                self._moved()

    def end_of_input(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def read(self, size: int) -> bytes:
        """That many bytes of its output; fewer only at the end."""
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            with self._waiting():
                got = os.readv(self._out, [view[filled:]])
            if not got:
                break
            filled += got
        view.release()
        return bytes(data) if filled == size else bytes(data[:filled])

    def some(self) -> bytes:
        """What there is of its output, waiting for a first byte; empty at the end."""
        with self._waiting():
            return os.read(self._out, _WIDTH)

    # -- the end ---------------------------------------------------------------------------------

    def finish(self) -> bool:
        """Wait for its end; whether it says that all went well."""
        if self._feeder is None:
            self.end_of_input()
        with self._waiting():
            code = self.process.wait()
        self._hear()
        if self._feeder is not None:
            self._feeder.wait()
            if self._feeder.error is not None:
                raise self._feeder.error
        return code == 0

    def close(self) -> None:
        """Let go of everything; a run that is not over is ended. May be called twice."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._hear()
        if self._feeder is not None:
            self._feeder.wait()
        if self._status_end >= 0:
            os.close(self._status_end)
            self._status_end = -1
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _hear(self) -> None:
        for collector in self._collectors:
            collector.wait()

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """While nothing goes on unless gpg does something; while it waits for us it may wait for ever."""
        self._waits = time.monotonic()
        try:
            yield
        finally:
            self._waits = 0.0

    def _moved(self) -> None:
        if self._waits:
            self._waits = time.monotonic()

    def _end_if_silent(self) -> None:
        if self._waits and time.monotonic() - self._waits > SILENCE and not self.silent:
            self.silent = True
            self.process.kill()

    def status_lines(self, keyword: str) -> list[list[str]]:
        """The words of every status line of that kind."""
        return [words for known, words in self.status if known == keyword]

    @property
    def reason(self) -> str:
        """What it said of a failure, in its own words, without secrets."""
        if self.silent:
            return f"it did nothing for {SILENCE:.0f} s, and was ended"
        lines = [line.removeprefix("gpg: ") for line in self._text if line.strip()]
        return "; ".join(lines[-3:]) or f"it ended with status {self.process.returncode}"

    # -- beside ----------------------------------------------------------------------------------

    def _collect(self, end: int, note: Callable[[str], None]) -> None:
        rest = b""
        while True:
            while not select.select([end], [], [], _LOOK)[0]:
                self._end_if_silent()
            data = os.read(end, 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                note(line.decode("utf-8", "replace"))
            rest = rest[-(1 << 16) :]
        note(rest.decode("utf-8", "replace"))

    def _note_status(self, line: str) -> None:
        if line.startswith(_STATUS) and len(self.status) < _STATUS_LINES:
            keyword, *words = line.removeprefix(_STATUS).split(" ")
            if keyword not in ("PROGRESS", "KEY_CONSIDERED"):
                self.status.append((keyword, words))

    def _note_text(self, line: str) -> None:
        if "session key" not in line and len(self._text) < _LINES:
            self._text.append(line)

    def _feed(self, feed: Iterator[bytes]) -> None:
        try:
            for data in feed:
                self.write(data)
        except BrokenPipeError:
            pass  # it ended; its status lines say why
        finally:
            self.end_of_input()


def _pipe_with(secret: bytes) -> int:
    """The read end of a pipe that holds a secret; it fits into the pipe's own buffer."""
    receiving, sending = os.pipe()
    try:
        os.write(sending, secret + b"\n")
    finally:
        os.close(sending)
    return receiving
