"""The command that a host runs: one that works from any directory and is still there after an update.

Preferred is a name that stays when what it leads to is replaced: the launcher of a checkout, a program on
the PATH, the one beside the interpreter. Links are kept as they are, for that is what survives.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass
from safekept.core.spelling import shown

#: Where `uvx` and `pipx run` keep programs that they throw away again.
_PASSING = re.compile(r"/(?:archive-v\d+|environments-v\d+|\.cache/pipx|pipx/\.cache)/")
#: What to say of such a one.
PASSING = (
    "This safekept lies in a cache that is cleared from time to time; install it (`pipx install`, "
    "`uv tool install`), then run this again with that one"
)


#: Ends a line for a host that stops every tool when its hook ends with a code that it takes for a no: a shell
#: that does not find the program ends with 127. The code follows.
_OR_EXIT = ("||", "exit")


class NoLastingProgram(SafekeptError):
    code = "no-lasting-program"


@dataclass(frozen=True, slots=True)
class Program:
    """How safekept is called."""

    words: tuple[str, ...]

    @property
    def passing(self) -> bool:
        """Whether it lies in a place that is cleared from time to time."""
        return any(_PASSING.search(word) for word in self.words)

    def hook(self, host: str) -> tuple[str, ...]:
        return (*self.words, "hook", host)

    def line(self, host: str) -> str:
        """The same for a host that hands it to a shell."""
        return shlex.join(self.hook(host))

    def line_that_stops_nothing(self, host: str, code: int = 1) -> str:
        """The same, so that it never ends with a code that the host takes for a no, whatever became of us:
        with 0, or with this one."""
        return " ".join((self.line(host), *_OR_EXIT, str(code)))


def this_program(environment: Mapping[str, str], directory: str | None = None) -> Program:
    """The program that runs now, by the name that it can be called by from anywhere and later."""
    words = _words(environment, directory or os.getcwd())
    try:
        for word in words:
            word.encode()
    except UnicodeEncodeError:
        raise NoLastingProgram(
            f"safekept lies at `{shown(words[0])}`, which no settings file can name: it is not UTF-8",
            kept="Nothing was changed",
            next_steps=("Put safekept into a directory with an ordinary name, and run it from there",),
        ) from None
    return Program(words)


def _words(environment: Mapping[str, str], directory: str) -> tuple[str, ...]:
    launcher = environment.get("SAFEKEPT_LAUNCHER", "")
    if launcher:
        if "/" not in launcher:
            launcher = shutil.which(launcher, path=environment.get("PATH")) or launcher
        path = os.path.normpath(os.path.join(directory, launcher))
        if os.access(path, os.X_OK):
            return (path,)
    called = sys.argv[0] if sys.argv else ""
    beside = os.path.join(os.path.dirname(sys.executable), "safekept")
    for path in (called, beside):
        if os.path.basename(path) == "safekept" and os.path.isfile(path) and os.access(path, os.X_OK):
            return (_on_path(os.path.abspath(path), environment),)
    return (sys.executable, "-I", "-m", "safekept")


def _on_path(path: str, environment: Mapping[str, str]) -> str:
    """The name on the PATH where it leads to the same program: an installer keeps that one."""
    found = shutil.which("safekept", path=environment.get("PATH"))
    return os.path.abspath(found) if found and os.path.realpath(found) == os.path.realpath(path) else path


def calls_us(words: Sequence[str], host: str) -> bool:
    """Whether a command of some settings is ours for this host, whichever safekept wrote it."""
    if len(words) < 3 or list(words[-2:]) != ["hook", host]:
        return False
    return os.path.basename(words[-3]) == "safekept"


def split_line(line: object) -> tuple[str, ...]:
    """The words of a command line, without how it may end; none where it is not one."""
    try:
        words = tuple(shlex.split(line)) if isinstance(line, str) else ()
    except ValueError:
        return ()
    return words[:-3] if words[-3:-1] == _OR_EXIT and words[-1] in ("0", "1") else words


def runs(words: Sequence[str]) -> bool:
    """Whether the program of a command is still there."""
    if not words:
        return False
    return os.path.isfile(words[0]) and os.access(words[0], os.X_OK)
