"""What a report about another system needs: what this one has and can, in words that name no person.

No path, name, address or text of the user's is in it: only versions, kinds, answers of yes and no, and the
codes of findings, which are ours.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from safekept import __version__
from safekept.core.finding import Finding
from safekept.core.platform.filesystems import folding_of, kind_of_filesystem
from safekept.core.platform.system import features

_PROGRAMS = (
    "git hermes claude codex gemini opencode ssh-keygen gpg rclone restic systemctl launchctl crontab".split()
)


def system_report(
    places: Mapping[str, str], search: str, findings: Iterable[Finding], failure: BaseException | None
) -> dict[str, object]:
    """`places`: directories to try, by what they are for; `search`: the PATH; `failure`: of looking."""
    facts = os.uname()
    return {
        "safekept": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "system": f"{facts.sysname} {_digits(facts.release)} {facts.machine}",
        "root": os.geteuid() == 0,
        "features": features(),
        "disks": {name: _disk(path) for name, path in places.items()},
        "programs": {name: shutil.which(name, path=search) is not None for name in _PROGRAMS},
        "findings": dict(sorted(Counter(one.code for one in findings).items())),
        "failure": _failure(failure) if failure is not None else [],
    }


def _digits(release: str) -> str:
    """Without the name that a person gave a kernel."""
    match = re.match(r"[0-9]+(\.[0-9]+)*", release)
    return match[0] if match else ""


def _disk(path: str) -> dict[str, object]:
    """What the filesystem of a directory is and can, by trying it in one of ours that goes again."""
    if not os.path.isdir(path):
        return {"there": False}
    answers: dict[str, object] = {
        "kind": kind_of_filesystem(os.stat(path).st_dev) or "unknown",
        "tried": False,
    }
    with (
        contextlib.suppress(OSError),
        tempfile.TemporaryDirectory(prefix=".safekept-report-", dir=path) as ours,
    ):
        answers |= {"links": _works(os.link, ours), "symlinks": _works(os.symlink, ours)}
        descriptor = os.open(ours, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchmod(descriptor, 0o700)
            answers["modes"] = os.fstat(descriptor).st_mode & 0o777 == 0o700
            folding = folding_of(descriptor, "report")
        finally:
            os.close(descriptor)
        answers |= {"ignores_case": folding.case, "ignores_forms": folding.forms, "tried": True}
    return answers


def _works(call: Callable[[str, str], None], directory: str) -> bool:
    one = os.path.join(directory, f"one-{call.__name__}")
    os.close(os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        call(one, f"{one}-{call.__name__}")
    except OSError:
        return False
    return True


def _failure(error: BaseException) -> list[str]:
    """The kind of an error and the lines that it came through; not its text, which may name a file."""
    found, trace = [type(error).__name__], error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename.rpartition(f"{os.sep}safekept{os.sep}")[2]
        found.append(f"{name if os.sep != name[:1] else 'elsewhere'}:{trace.tb_lineno}")
        trace = trace.tb_next
    return found
