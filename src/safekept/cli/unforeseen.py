"""The last resort: an error that was not caught, in words.

A disk that fails, is full or may only be read is no mistake of ours: what the system said is told, on
which file, and what to do about it. Neither is a part of the program that cannot be read. Everything else
is one, and the details are kept for a report.
"""

from __future__ import annotations

import contextlib
import errno
import os

from safekept.core.errors import SafekeptError

_KEPT = (
    "No file was replaced without the old one being kept; an unfinished import is taken back "
    "by the next command"
)
_AGAIN = "then run the command again"
#: What the system says when it does not do what it was asked, and what helps.
_ADVICE = {
    errno.EIO: f"The disk gave an error: look after it (`dmesg` says more), {_AGAIN}",
    errno.ENOSPC: f"Make room on that disk, {_AGAIN}",
    errno.EDQUOT: f"Make room, or have your quota raised, {_AGAIN}",
    errno.EROFS: f"That disk may only be read now: see why (`dmesg` says more), {_AGAIN}",
    errno.EMFILE: f"End some programs, or raise the limit of open files (`ulimit -n`), {_AGAIN}",
    errno.ENFILE: f"End some programs, {_AGAIN}",
    errno.EPERM: f"See whose file that is and whether you may change it, {_AGAIN}",
    errno.EACCES: f"See whose file that is and whether you may read it, {_AGAIN}",
    errno.ENOMEM: f"End some programs, {_AGAIN}",
    errno.EINTR: "Run the command again",
    errno.ESTALE: f"See that the network disk is there, {_AGAIN}",
    errno.ETIMEDOUT: f"See that the network disk is there, {_AGAIN}",
}


class Unexpected(SafekeptError):
    code = "unexpected"


class SystemRefused(SafekeptError):
    code = "system-refused"


def unforeseen(error: Exception) -> SafekeptError:
    """The error to tell. The details are in a file of their own, where one can be written."""
    details = _written_down(error)
    if isinstance(error, OSError) and error.errno in _ADVICE:
        where = f": `{error.filename}`" if isinstance(error.filename, str) else ""
        steps = (f"The details are in `{details}`",) if details else ()
        return SystemRefused(
            f"The system refused to do something: {error.strerror}{where}",
            kept=_KEPT,
            next_steps=(_ADVICE[error.errno], *steps),
            path=error.filename if isinstance(error.filename, str) else None,
            errno=error.errno,
            traceback=details,
        )
    if isinstance(error, ImportError):
        # A disk or a full memory that keeps Python from reading a file of its own; why, it does not say.
        steps = (f"The details are in `{details}`",) if details else ()
        return SystemRefused(
            f"A part of safekept or of Python could not be loaded: {error}",
            kept=_KEPT,
            next_steps=("Run the command again; if it says the same, install safekept again", *steps),
            path=error.path,
            traceback=details,
        )
    report = f"The details are in `{details}`; please report them" if details else ""
    return Unexpected(
        f"Something went wrong that safekept did not foresee: {type(error).__name__}: {error}",
        kept=_KEPT,
        next_steps=(report or "Please report it with these words",),
        traceback=details,
    )


def _written_down(error: Exception) -> str | None:
    import tempfile
    import traceback

    path: str | None = None
    with contextlib.suppress(OSError):  # a full disk may be what went wrong
        descriptor, path = tempfile.mkstemp(prefix="safekept-error-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write("".join(traceback.format_exception(error)))
    return path
