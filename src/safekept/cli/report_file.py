"""`--report FILE`: what happened, as JSON, for a program to read.

A file is written whole or not at all. A pipe, a device or `/dev/stdout` is written to: its name is never
given to a file, which would take `/dev/null` from everybody.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Mapping

import click

from safekept.core.errors import SafekeptError
from safekept.core.files import durable_write, write_all
from safekept.core.owner import held_output

from .console import Console, document_text, path_text

#: Here names stand for devices and open files, also where a regular file is behind one.
_OF_THE_SYSTEM = ("/dev", "/proc")
#: And here they are what they are.
_PLAIN = ("/dev/shm",)  # noqa: S108 - not written to


def refuse_unwritable(report: str, otherwise: str) -> str:
    """The report's full path; a usage error that ends in `otherwise` where it could not be written later."""
    path = os.path.abspath(report)
    with contextlib.suppress(OSError), held_output(path):
        pass  # what is in the way of root's report is reported before anything else is done
    if _is_stream(path):
        fine = os.access(path, os.W_OK)
    else:
        fine = not os.path.isdir(path) and os.access(os.path.dirname(path), os.W_OK | os.X_OK)
    if not fine:
        raise click.UsageError(f"The report cannot be written to {report!r}; {otherwise}.")
    return path


def write_report_file(path: str, document: Mapping[str, object], say: Callable[[str], None]) -> None:
    """What it tells of has happened by now, so a report that cannot be written is said and no more."""
    data = document_text(document, 1).encode() + b"\n"
    try:
        if _below(os.path.realpath(os.path.dirname(path)), _OF_THE_SYSTEM) and _is_stream(path):
            _write(path, data)
            return
        with held_output(path) as held:
            if _is_stream(held):
                _write(held, data, led=held == path)
            else:
                durable_write(held, data)
    except (SafekeptError, OSError) as error:
        reason = error.clause if isinstance(error, SafekeptError) else error.strerror or str(error)
        say(f"the report {path_text(path)} could not be written: {reason}")


def _is_stream(path: str) -> bool:
    directory = os.path.realpath(os.path.dirname(path))
    if _below(directory, _OF_THE_SYSTEM) and not _below(directory, _PLAIN):
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _below(directory: str, places: tuple[str, ...]) -> bool:
    return any(directory == place or directory.startswith(place + "/") for place in places)


def _write(path: str, data: bytes, *, led: bool = True) -> None:
    """`led`: links are followed. Where others could have put one, they are not, and the stream is ours."""
    # Not waited for: a pipe without a reader would keep us for ever. Appended, because what is behind
    # `/dev/stdout` may be a file that has the command's own output in it.
    descriptor = os.open(
        path,
        os.O_WRONLY
        | os.O_APPEND
        | os.O_NONBLOCK
        | os.O_CLOEXEC
        | os.O_NOCTTY
        | (0 if led else os.O_NOFOLLOW),
    )
    try:
        if not led and os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user")
        os.set_blocking(descriptor, True)
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


# A console for commands whose stdout belongs to the program that they run: everything goes to stderr.


class BesideConsole(Console):
    """The same words, beside the result of another."""

    beside = True
