"""Work that opens or replaces databases of a home, done in a process of its own.

The program that calls may be the agent, with its database open. A process that closes any descriptor of a
database loses its own locks on it, and does not know its own handle: it would replace the file under
itself, and every later row would go with the old one. From another process the program is seen as what it
is, a user of the database, and what it has open is brought back through SQLite under its hands.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

Given = ParamSpec("Given")
Value = TypeVar("Value")

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from safekept.api.apart import main; main()"
)


class ProcessLost(SafekeptError):
    code = "process-lost"


def in_its_own_process(function: Callable[Given, Value]) -> Callable[Given, Value]:
    """The same function, worked off elsewhere: with our environment and directory, and the same errors."""

    @functools.wraps(function)
    def called(*arguments: Given.args, **options: Given.kwargs) -> Value:
        given = [_plain(one) for one in arguments], {name: _plain(one) for name, one in options.items()}
        answer = _ask(pickle.dumps((function.__module__, function.__qualname__, *given)))
        try:
            raised, found = pickle.loads(answer)  # noqa: S301 - our own process wrote it
        except (pickle.UnpicklingError, EOFError, ValueError) as error:
            raise _lost("it ended without an answer") from error
        if raised:
            raise _error(found)
        return found  # type: ignore[no-any-return]

    return called


def _plain(value: object) -> object:
    """Paths and anything that gives them one by one, as another process can have them."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return tuple(_plain(one) for one in value)
    return value


def _ask(request: bytes) -> bytes:
    import subprocess

    import safekept

    root = os.path.dirname(os.path.dirname(os.path.abspath(safekept.__file__)))
    # What this program can import, its own directory aside: nothing there is meant for us.
    places = [root, *(place for place in sys.path if place and place != root)]
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, json.dumps(places)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
    except OSError as error:
        raise _lost(f"it could not be started: {error.strerror or error}") from error
    assert process.stdin is not None and process.stdout is not None
    answer, interrupted, sent = bytearray(), False, False
    with process.stdin, process.stdout:
        while True:
            try:
                if not sent:
                    _send(process.stdin.fileno(), request)
                    sent = True
                    process.stdin.close()
                part = os.read(process.stdout.fileno(), 1 << 20)
            except KeyboardInterrupt:
                # A terminal sent it to the other process, too: it takes back what it began, and is waited
                # for. Left alone it would go on while the program believes that it ended.
                interrupted = sent = True
                process.stdin.close()
                continue
            if not part:
                break
            answer += part
    status = process.wait()
    if interrupted:
        raise KeyboardInterrupt
    if not answer:
        raise _lost(f"it was ended by signal {-status}" if status < 0 else f"it ended with status {status}")
    return bytes(answer)


def _send(descriptor: int, request: bytes) -> None:
    from safekept.core.files import write_all

    try:
        write_all(descriptor, request)
    except BrokenPipeError:
        return  # its silence will tell


def main() -> None:
    """The other process: one request, one answer."""
    import importlib
    import inspect
    import signal

    output = os.dup(1)
    os.dup2(2, 1)  # whatever is printed by accident is no part of the answer
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        request = sys.stdin.buffer.read()
        module, name, arguments, options = pickle.loads(request)  # noqa: S301 - from the one who started us
        function = inspect.unwrap(getattr(importlib.import_module(module), name))
        answer = pickle.dumps((False, function(*arguments, **options)))
    except BaseException as error:
        answer = _described(error)
    from safekept.core.files import write_all

    try:
        write_all(output, answer)
    except BrokenPipeError:
        os._exit(1)  # nothing waits for it any more; what was done is done, and in the journal
    os._exit(0)


def _described(error: BaseException) -> bytes:
    """An error so that the same can be raised elsewhere; one that cannot travel goes as its words."""
    forms: list[object] = [error]
    if isinstance(error, SafekeptError):  # made by name, and facts may be anything
        plain = {**vars(error), "facts": error.as_dict()["facts"]}
        forms = [(type(error), error.args, facts) for facts in (vars(error), plain)]
    for travels in forms:
        try:
            found = pickle.dumps((True, travels))
            pickle.loads(found)  # noqa: S301 - whether it arrives
        except Exception:  # noqa: S112 - the next has less in it
            continue
        return found
    return pickle.dumps((True, RuntimeError(f"{type(error).__name__}: {error}")))


def _error(found: BaseException | tuple[type[SafekeptError], tuple[str], dict[str, object]]) -> BaseException:
    if isinstance(found, BaseException):
        return found
    kind, arguments, facts = found
    error = kind.__new__(kind, *arguments)  # not called: each kind may want other words
    error.args = arguments
    error.__dict__.update(facts)
    return error


def _lost(why: str) -> ProcessLost:
    return ProcessLost(
        f"The process that should do this gave no answer: {why}",
        kept="What it began is finished or taken back by the next command",
        next_steps=(NextStep("status", before="See how everything is:"), "Then try it again"),
    )
