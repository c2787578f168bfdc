"""Keys, keyrings and terminals for the tests of sealed archives."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from dataclasses import dataclass

from safekept.archive import Identity, Seal, make_seal

PASSPHRASE = "correct horse battery"
#: What a child needs to find its programs, and nothing of whoever runs the tests.
PLAIN = {name: os.environ[name] for name in ("PATH", "TERM") if name in os.environ} | {"LC_ALL": "C.UTF-8"}


def given(passphrase: str = PASSPHRASE):  # type: ignore[no-untyped-def]
    """Somebody who always answers the same."""
    return lambda question, new: passphrase


def seal_to(*texts: str, environment: dict[str, str] | None = None, passphrase: str = PASSPHRASE) -> Seal:
    return make_seal(texts, user_home="/nonexistent", environment=environment or PLAIN, ask=given(passphrase))


def opener(
    *files: object, environment: dict[str, str] | None = None, passphrase: str | None = None
) -> Identity:
    ask = given(passphrase) if passphrase is not None else None
    return Identity(tuple(map(str, files)), environment=environment or PLAIN, ask=ask)


@dataclass(frozen=True)
class Keyring:
    """A home of gpg: short, since its sockets must fit into a name of a hundred bytes."""

    directory: str

    @property
    def environment(self) -> dict[str, str]:
        return {**PLAIN, "HOME": self.directory, "GNUPGHOME": self.directory}

    def run(self, *words: str, input: bytes | None = None) -> bytes:
        done = subprocess.run(
            ["gpg", "--batch", "--quiet", *words], env=self.environment, input=input, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def make(self, name: str, kind: str = "future-default", usage: str = "default", *more: str) -> str:
        """A key without a passphrase; returns its fingerprint."""
        words = ["--passphrase", "", *more, "--quick-generate-key", f"{name} <{name}@example.org>"]
        self.run(*words, kind, usage, "1d" if more else "never")
        return self.fingerprint(name)

    def fingerprint(self, name: str) -> str:
        listing = self.run("--with-colons", "--list-keys", name).decode()
        return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))

    def public(self, name: str) -> bytes:
        return self.run("--export", name)


@contextlib.contextmanager
def keyring() -> Iterator[Keyring]:
    directory = tempfile.mkdtemp(prefix="hf-", dir="/tmp")
    made = Keyring(directory)
    try:
        yield made
    finally:
        # Its agent would outlive us, and everything that was left here.
        subprocess.run(["gpgconf", "--kill", "all"], env=made.environment, capture_output=True)
        shutil.rmtree(directory, ignore_errors=True)


def at_terminal(
    words: list[str], answers: list[tuple[str, str]], environment: dict[str, str], cwd: str
) -> tuple[int, str]:
    """Run a program at a terminal of its own, answering each question when it is asked; status and text."""
    ours, theirs = os.openpty()
    try:
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.ONLCR
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        started = subprocess.Popen(
            words,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
    finally:
        os.close(theirs)
    said = ""
    waiting = list(answers)
    seen = 0
    try:
        while True:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:  # the last one at the other end is gone
                break
            if not data:
                break
            said += data.decode("utf-8", "replace")
            while waiting and (found := said.find(waiting[0][0], seen)) >= 0:
                seen = found + len(waiting[0][0])
                os.write(ours, waiting.pop(0)[1].encode() + b"\n")
    finally:
        code = started.wait()
        os.close(ours)
    assert not waiting, f"never asked: {waiting}\n{said}"
    return code, said


SAFEKEPT = [sys.executable, "-I", "-m", "safekept"]
