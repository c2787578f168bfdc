"""The objects of one repository, held in a bare one of ours.

Git packs them there, with the project's objects as alternates: it runs in our repository, so nothing of the
project's settings is read. What no remote-tracking ref has comes first, since it exists nowhere else; what a
remote has as well follows behind the call, within a limit, so that a `.git` that is gone comes back whole.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.files import durable_write, free_bytes
from safekept.core.locks import AlreadyRunning, process_lock
from safekept.core.platform.rights import bound_memory
from safekept.core.records import dataclass

from ..git import MOST_MEMORY, find_git, git_command, git_environment
from .own_repository import HELD, INCOMPLETE, LOCK, MOST_PACKS, WHOLE, OwnRepository
from .reading import OBJECT_NAME
from .traps import trap_in_objects

if TYPE_CHECKING:
    import subprocess

#: So much of what a remote has as well is kept, and so much room stays free.
MOST_PUSHED, _FLOOR = 1 << 30, 1 << 30
#: Names that a walk may stop at; more of them cost more than they save.
_MOST_STOPS = 2_000
_SETTINGS = (
    *("pack.threads=1", "pack.windowMemory=64m", "core.bigFileThreshold=16m"),
    *("core.sharedRepository=0600", "core.fsync=all"),
)


@dataclass(slots=True)
class WantedObjects:
    """What is to be held of a repository as it stands."""

    objects: str  # the project's own
    tips: list[str] = field(default_factory=list)
    remote: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)  # in logs only; whatever is left of these
    stops: list[str] = field(
        default_factory=list
    )  # where refs stood before: most of what is new lies above these
    index: str = ""
    shallow: bytes = b""


def run_bounded(
    git: str, directory: str, *words: str, data: str = "", until: float, more: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes] | None:
    """What git said in that repository, its memory and its time bounded; None where it did not end in time.

    It uses no network, whatever a configuration says.
    """
    import subprocess

    environment = {**git_environment(directory), "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    with subprocess.Popen(
        git_command(git, *words, settings=_SETTINGS),
        env={**environment, **(more or {})},
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        bound_memory(process.pid, MOST_MEMORY)
        try:
            left = max(0.05, until - time.monotonic())
            out, said = process.communicate(os.fsencode(data), timeout=left)
        except subprocess.TimeoutExpired:
            process.kill()
            return None
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(words, process.returncode, out, said)


class Kept(OwnRepository):
    """What is held there of one repository of the project's, and how git brings it in."""

    def lacks(self, wanted: WantedObjects) -> bool:
        """Whether something of it is not held yet."""
        return self.lacks_tips(wanted) or not self.promised()[WHOLE].issuperset(wanted.remote)

    def lacks_tips(self, wanted: WantedObjects) -> bool:
        """Whether something that exists nowhere else is not held yet."""
        return not self.promised()[HELD].issuperset(wanted.tips)

    def hold(self, wanted: WantedObjects, wait: float, *, pushed: bool = False, staged: bool = False) -> bool:
        """See that it is held, in so many seconds; False where that was not enough, or not possible.

        `pushed`: what a remote has, too. `staged`: the index lists something new.
        """
        git, until = find_git(), time.monotonic() + wait
        self.trouble = "" if git else "git is not on this machine"
        if git is None:
            return False
        # A call in the foreground has a short deadline anyway, and does not pay for the look.
        if wait > 1 and (trap := trap_in_objects(wanted.objects)):
            self.trouble = f"`objects/{trap}` is no file that git could read"
            return False
        try:
            self.prepare()
            lock, patience = os.path.join(self.directory, LOCK), wait if wait > 1 else 0.0
            with self.opened(), process_lock(lock, "keeping a repository", patience):
                return self._hold(git, wanted, until, pushed, staged)
        except AlreadyRunning:
            self.trouble = "another process is keeping it"
        except OSError as error:
            self.trouble = error.strerror or str(error)
        return False

    def give(self, wanted: WantedObjects, place: str, stops: Sequence[str], wait: float) -> bool:
        """Write everything behind the tips, and not behind the stops, as one pack into `place`.

        What is missing here and with the project is left out; False where that is so, `trouble` says what.
        """
        git, until = find_git(), time.monotonic() + wait
        self.trouble = "" if git else "git is not on this machine"
        if git is None:
            return False
        words = ["pack-objects", "--revs", "--quiet", "--non-empty", "--delta-base-offset"]
        words += ["--indexed-objects"] if wanted.index else []
        tips = self._existing(git, wanted, [*wanted.tips, *wanted.remote, *wanted.logged], until)
        data = "\n".join([*tips, "--not", *stops]) + "\n"
        for missing in ((), ("--missing=allow-any",)):
            with self.opened():  # git begins a pack beside its own, wherever it is to go
                done = self._run(git, wanted, until, *words, *missing, os.path.join(place, "pack"), data=data)
            if done is not None and done.returncode == 0:
                return not missing and {*wanted.tips, *wanted.remote} <= set(tips)
            said = done.stderr.decode("utf-8", "replace").strip() if done is not None else "git took too long"
            self.trouble = said.split("\n")[-1][:200]
        return False

    def count(self, objects: str, one: str, other: str, wait: float = 2.0) -> int:
        """The commits behind one that are not behind the other; -1 where that is not known in time."""
        git = find_git()
        if git is None or not self.exists:
            return -1
        words = ("rev-list", "--count", one, f"^{other}")
        done = self._run(git, WantedObjects(objects), time.monotonic() + wait, *words)
        answer = done.stdout.strip() if done is not None and done.returncode == 0 else b""
        return int(answer) if answer.isdigit() else -1

    def connected(self, objects: str, names: Sequence[str], wait: float) -> bool:
        """Whether a project's own objects hold everything behind these names."""
        git = find_git()
        if git is None or trap_in_objects(objects):
            return False
        more = {"GIT_OBJECT_DIRECTORY": objects}
        words = ("rev-list", "--objects", "--quiet", "--stdin")
        data = "".join(f"{name}\n" for name in names)
        until = time.monotonic() + wait
        done = run_bounded(git, self.directory, *words, data=data, until=until, more=more)
        return done is not None and done.returncode == 0

    # ── steps ──

    def _hold(self, git: str, wanted: WantedObjects, until: float, pushed: bool, staged: bool) -> bool:
        known = self.promised()
        self.note_shallow(wanted.shallow)
        fresh = [oid for oid in wanted.tips if oid not in known[HELD]]
        logged = [oid for oid in wanted.logged if oid not in known[HELD]]
        if fresh or staged:
            # Only what is surely here, or with a remote, may end the walk.
            here = known[HELD if wanted.remote else WHOLE]
            near = [oid for oid in (*wanted.stops, *wanted.tips) if oid in here]
            stops = [*near, *wanted.remote, *here]
            if not self._pack(git, wanted, [*fresh, *logged], _first(stops, _MOST_STOPS), until):
                return False
            kind = HELD if wanted.remote else WHOLE
            self.promise({kind: known[kind] | {*fresh, *logged}})
        if pushed and not known[WHOLE].issuperset({*wanted.remote, *wanted.tips}):
            size = _size(wanted.objects)
            if size > MOST_PUSHED:
                self.trouble = f"{size >> 20:,} MB of history that a remote has, too, is over the limit"
                return False
            whole = self.promised()[WHOLE]
            everything = [*wanted.remote, *wanted.tips]
            if not self._pack(git, wanted, everything, _first(list(whole), _MOST_STOPS), until):
                return False
            self.promise({WHOLE: whole | set(everything)})
        if pushed:
            self._join(git, until)
        return True

    def _pack(
        self, git: str, wanted: WantedObjects, tips: Sequence[str], stops: Sequence[str], until: float
    ) -> bool:
        """One new pack of what is behind the tips and not behind the stops."""
        if free_bytes(self.directory) < _FLOOR:
            self.trouble = "there is too little room on the disk"
            return False
        allowed = ("--missing=allow-any",) if self.incomplete else ()
        have, wished = list(tips), set(tips)
        ends = [oid for oid in stops if oid not in wished]
        for _ in range(2):
            lines = [*have, "--not", *ends]
            words = ["pack-objects", "--revs", "--quiet", "--non-empty", "--delta-base-offset", "--window=0"]
            if wanted.index:
                words.append("--indexed-objects")
            place = os.path.join(self.directory, "objects", "pack", "pack")
            done = self._run(git, wanted, until, *words, *allowed, place, data="\n".join(lines) + "\n")
            if done is None:
                self.sweep()
                self.trouble = "it takes longer than a call may wait"
                return False
            if done.returncode == 0:
                return True
            # Something is missing, or is no object at all: whatever is there is kept, and that is said.
            self.sweep()
            self.trouble = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1][:200]
            have, allowed = self._existing(git, wanted, tips, until), ("--missing=allow-any",)
            ends = self._existing(git, wanted, ends, until)
            if len(have) == len(tips):
                durable_write(os.path.join(self.directory, INCOMPLETE), b"")
        return False

    def _existing(self, git: str, wanted: WantedObjects, names: Sequence[str], until: float) -> list[str]:
        data = "".join(f"{name}\n" for name in names)
        done = self._run(git, wanted, until, "cat-file", "--batch-check=%(objectname)", data=data)
        answers = done.stdout.decode("ascii", "replace").split("\n") if done is not None else []
        return [answer for answer in answers if OBJECT_NAME.fullmatch(answer)]

    def _run(
        self, git: str, wanted: WantedObjects, until: float, *words: str, data: str = ""
    ) -> subprocess.CompletedProcess[bytes] | None:
        """What git said; None where it did not end in time."""
        more = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(wanted.objects)} if wanted.objects else {}
        if wanted.index:
            more["GIT_INDEX_FILE"] = wanted.index
        return run_bounded(git, self.directory, *words, data=data, until=until, more=more)

    def _join(self, git: str, until: float) -> None:
        """Make few packs of many. Needs to know nothing of what is behind what."""
        packs = [name for name in os.listdir(self.packs) if name.endswith(".pack")]
        if len(packs) > MOST_PACKS:
            self._run(git, WantedObjects(""), until, "repack", "-d", "-q", "--geometric=2")


def _first(names: Sequence[str], most: int) -> list[str]:
    return list(dict.fromkeys(names))[:most]


def _quoted(path: str) -> str:
    """A path in git's list of alternates, where a colon ends one and a quote begins a quoted one."""
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _size(objects: str) -> int:
    total = 0
    with contextlib.suppress(OSError), os.scandir(os.path.join(objects, "pack")) as listing:
        for entry in listing:
            with contextlib.suppress(OSError):
                total += entry.stat(follow_symlinks=False).st_size
    return total
