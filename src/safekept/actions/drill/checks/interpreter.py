"""The interpreter that an agent runs in: where it is, who runs it, and what keeps it off the network.

What lies in a home is run by the owner of that home alone; root becomes that user first, for
good, and gives it nothing but two pipes. What came with an import is not run at all.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from safekept.core.files.small import read_start
from safekept.core.owner import Owner, chosen_by, foreign_owner
from safekept.core.platform.rights import words_without_network
from safekept.core.records import dataclass
from safekept.home.as_owner import Worker
from safekept.home.landing import discard

#: So many scripts may stand one before the other.
_HANDED_ON = 3
USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that has the agent in it, and how it is started."""

    python: str
    owner: Owner | None  # who runs it; None: the user that we are
    words: tuple[str, ...]  # in front of the command: what takes network and rights away
    becomes: bool = False  # the words do not change the user, so the caller has to

    @property
    def how(self) -> str:
        return "unshare" if self.words else "sockets refused in its process"

    def run(
        self, script: str, place: str, environment: Mapping[str, str], patience: float
    ) -> tuple[str, str, int]:
        """What the script said on its two streams, and its status. Raises OSError and TimeoutExpired."""
        child = subprocess.Popen(
            [*self.words, self.python, "-I", "-B", "-c", script],
            env=dict(environment),
            cwd=place if self.owner is None else "/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            user=self.owner.uid if self.becomes and self.owner else None,
            group=self.owner.gid if self.becomes and self.owner else None,
            extra_groups=self.owner.groups if self.becomes and self.owner else None,
        )
        try:
            output, errors = child.communicate(timeout=patience)
        finally:
            _end(child)
        return output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"), child.returncode


def find_interpreter(
    live_home: str, code_path: str, environment: Mapping[str, str], brought: bool = False
) -> Interpreter | None:
    """The one to run for this home. `brought`: what lies in the home came with an import, and is not run."""
    owner = foreign_owner(live_home) if live_home else None
    python = find_python(live_home, code_path, environment, owner, brought)
    if not python:
        return None
    words = _without_network(owner)
    if owner is not None and not words:
        return Interpreter(python, owner, (), becomes=True)
    return Interpreter(python, owner, words)


def find_python(
    live_home: str,
    code_path: str,
    environment: Mapping[str, str],
    owner: Owner | None = None,
    brought: bool = False,
) -> str:
    """The interpreter that Hermes runs in: of the code in the home, else of `hermes` on the PATH."""
    uid = owner.uid if owner is not None else os.geteuid()
    usable = [
        path
        for path in _candidates(live_home, code_path, environment)
        if not (brought and _lies_in(path, live_home))
    ]
    return next((path for path in usable if os.access(path, os.X_OK) and chosen_by(path, uid)), "")


def is_there(live_home: str, code_path: str, environment: Mapping[str, str]) -> bool:
    """Whether there is any interpreter, also one that is not run."""
    return any(os.access(path, os.X_OK) for path in _candidates(live_home, code_path, environment))


def _candidates(live_home: str, code_path: str, environment: Mapping[str, str]) -> list[str]:
    candidates = []
    if live_home and code_path:
        for name in ("venv", ".venv"):
            candidates.append(os.path.join(live_home, code_path, name, "bin", "python"))
    launcher = shutil.which("hermes", path=environment.get("PATH") or USUAL_PATH)
    if launcher:
        candidates += _beside(launcher)
    return candidates


def _lies_in(path: str, home: str) -> bool:
    """By its name, or by where its directory really is. The program itself is a link in every venv."""
    home = home.rstrip("/") + "/"
    directory = os.path.realpath(os.path.dirname(path)) + "/"
    return path.startswith(home) or directory.startswith(os.path.realpath(home).rstrip("/") + "/")


def _beside(launcher: str, depth: int = 0) -> list[str]:
    """What a launcher names in its first line, and what lies beside it, links resolved.

    A shell script that hands on to another program, as our own for `hermes update` does, leads to that one.
    """
    found = []
    text = _beginning(launcher)
    first = text.partition("\n")[0].strip()
    words = first[2:].split() if first.startswith("#!") else []
    if words and "python" in os.path.basename(words[0]):
        found.append(words[0])
    elif words and depth < _HANDED_ON:
        for program in _handed_to(text):
            found += _beside(program, depth + 1)
    for path in (launcher, os.path.realpath(launcher)):
        found.append(os.path.join(os.path.dirname(path), "python"))
    return found


def _beginning(launcher: str) -> str:
    with contextlib.suppress(OSError):
        return os.fsdecode(read_start(launcher, 4096))
    return ""


def _handed_to(script: str) -> list[str]:
    """The programs that a shell script becomes, with all that it was given: `exec /path/of/it "$@"`."""
    found = []
    for line in script.splitlines():
        with contextlib.suppress(ValueError):  # a quote that does not end here
            words = shlex.split(line)
            if len(words) == 3 and words[0] == "exec" and words[2] == "$@" and os.path.isabs(words[1]):
                found.append(words[1])
    return found


def _without_network(owner: Owner | None) -> tuple[str, ...]:
    """The words that take the network away from a command, and root's rights; none where that is refused."""
    words = words_without_network(USUAL_PATH)
    if not words or owner is None:
        return words if words and _works(words) else ()
    setpriv = shutil.which("setpriv", path=USUAL_PATH)
    if setpriv is None:
        return ()
    groups = ",".join(map(str, owner.groups))
    others = ("--groups", groups) if groups else ("--clear-groups",)
    drop = ("--reuid", str(owner.uid), "--regid", str(owner.gid), *others, "--no-new-privs")
    words = (*words, setpriv, *drop, "--inh-caps=-all", "--bounding-set=-all")
    return words if _works(words) else ()


def _works(words: Sequence[str]) -> bool:
    try:
        done = subprocess.run([*words, "true"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _end(child: subprocess.Popen[bytes]) -> None:
    """It and whatever it started, whatever happened to us."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


# Where an agent works during a drill: within the drill's own place, or where its owner can reach it.
# Root's places are closed to others. Where the agent runs as another user, what it gets is put into a
# directory of its own, filled while it is still root's, and then given away: from then on only a child
# that is that user touches what is in it.

#: Where everybody may have files that outlive nothing; tried in this order.
_OPEN = ("/var/tmp", "/tmp")  # noqa: S108
_PREFIX = "safekept-drill-"


class AgentsPlace:
    """A directory that is filled, then handed over."""

    def __init__(self, path: str, owner: Owner | None) -> None:
        self.path, self.owner = path, owner
        os.mkdir(path, 0o700)

    def hand_over(self) -> None:
        """Give everything in it to the user who runs the agent; the directory itself last."""
        if self.owner is None:
            return
        for parent, directories, files in os.walk(self.path, topdown=False):
            for name in (*directories, *files):
                os.lchown(os.path.join(parent, name), self.owner.uid, self.owner.gid)
        os.lchown(self.path, self.owner.uid, self.owner.gid)


@contextlib.contextmanager
def agents_place(owner: Owner | None, scratch: str, number: int) -> Iterator[AgentsPlace]:
    """A place for one run of the agent; gone afterwards."""
    if owner is None:
        yield AgentsPlace(os.path.join(scratch, f"agent-{number}"), None)  # it goes with the drill's place
        return
    base = next((place for place in _OPEN if os.access(place, os.W_OK | os.X_OK)), _OPEN[-1])
    outer = os.path.join(base, f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}")
    os.mkdir(outer, 0o711)
    os.chmod(outer, 0o711)  # noqa: S103 - whatever the umask: its owner must be able to walk through
    inner = os.path.join(outer, f"agent-{number}")
    try:
        yield AgentsPlace(inner, owner)
    finally:
        with contextlib.suppress(OSError):
            if os.lstat(inner).st_uid == 0:  # it was never given away
                discard(inner)
            else:
                Worker(owner).do("empty", inner)
                os.rmdir(inner)
        with contextlib.suppress(OSError):
            os.rmdir(outer)
