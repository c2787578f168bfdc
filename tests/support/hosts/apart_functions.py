"""Functions for another process, which has to find them by their module's name."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
import time

from safekept.api.apart import ProcessLost, in_its_own_process


@in_its_own_process
def where(*words: object, **more: object) -> tuple[object, ...]:
    return os.getpid(), os.getcwd(), os.environ.get("SAFEKEPT_TEST"), words, more


@in_its_own_process
def wait_for(up: str, go: str, done: str) -> None:
    pathlib.Path(up).touch()
    while not os.path.exists(go):
        time.sleep(0.01)
    pathlib.Path(done).touch()


@in_its_own_process
def die() -> None:
    print("nobody may take this for an answer", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


class Unsendable(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")
        self.lock = open(os.devnull)  # noqa: SIM115


@in_its_own_process
def fail(kind: str) -> None:
    print("and neither may this")
    if kind == "ours":
        raise ProcessLost("what", kept="kept", next_steps=("next",), lock=threading.Lock())
    if kind == "unsendable":
        raise Unsendable("a", "b")
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "exit":
        raise SystemExit(3)
    raise FileNotFoundError(2, "No such file or directory", "x")
