"""The objects of one repository, in a bare one of ours: `repositories/<id>` beside the checkpoint store.

Git packs them there, with the project's objects as alternates: it runs in our repository, so nothing of the
project's settings is read. What no remote-tracking ref has comes first, since it exists nowhere else; what a
remote has as well follows behind the call, within a limit, so that a `.git` that is gone comes back whole.

A name in `packed-refs` is a promise: `refs/held/X` says that everything behind X is here but for what remote
refs had, `refs/whole/X` that all of it is. It is written when the pack is there and synced, so a kill at any
instant leaves a pack too many, never a promise too many.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from safekept.core.files import durable_write, free_bytes, private_directory, write_all
from safekept.core.files.small import read_regular
from safekept.core.locks import AlreadyRunning, process_lock
from safekept.core.platform.rights import bound_memory
from safekept.core.platform.syncing import sync_file
from safekept.core.records import dataclass

from ..git import MOST_MEMORY, find_git, git_command, git_environment
from ..repository import belt_of, repositories_belt
from .reading import OBJECT_NAME
from .traps import trap_in_objects

if TYPE_CHECKING:
    import subprocess

NAME = "repositories"
_DIRECTORIES = ("objects", "objects/pack", "objects/info", "refs", "info")
_INCOMPLETE = "incomplete"
_LOCK = "safekept.lock"
USERS = "users"  # ids of the projects whose points need it
HELD, WHOLE = "refs/held/", "refs/whole/"
#: So much of what a remote has as well is kept, and so much room stays free.
MOST_PUSHED, _FLOOR = 1 << 30, 1 << 30
#: Names that a walk may stop at; more of them cost more than they save.
_MOST_STOPS = 2_000
#: So many packs are joined.
_MOST_PACKS = 30
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


class Kept:
    """The repository of ours for one of the project's."""

    def __init__(self, directory: str, common: str, format: str = "sha1") -> None:
        identity = hashlib.sha256(os.fsencode(common) + format.encode()).hexdigest()[:24]
        self.directory = os.path.join(directory, NAME, identity)
        self.format, self._common = format, common
        self.trouble = ""  # why the last try did not hold everything
        # Closed where the checkpoint store is.
        worn = belt_of(os.path.join(directory, "store")).state
        self._belt = repositories_belt(directory, {"on": True, "off": False}.get(worn))
        self._opened = 0

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """It can be written meanwhile."""
        for name in ("", *_DIRECTORIES):
            self._belt.open(os.path.join(self.directory, name) if name else self.directory)
        self._opened += 1
        try:
            yield
        finally:
            self._opened -= 1
            if not self._opened:
                self._belt.let_go()

    @property
    def exists(self) -> bool:
        return os.path.isfile(os.path.join(self.directory, "HEAD"))

    @property
    def incomplete(self) -> bool:
        """Whether the project itself lacked objects: a partial clone, or damage."""
        return os.path.exists(os.path.join(self.directory, _INCOMPLETE))

    def promised(self) -> dict[str, set[str]]:
        """The names that are held, and those that are held whole."""
        found: dict[str, set[str]] = {HELD: set(), WHOLE: set()}
        with contextlib.suppress(OSError), open(self._refs, encoding="ascii", errors="replace") as file:
            for line in file:
                oid, _, name = line.rstrip("\n").partition(" ")
                for kind, known in found.items():
                    if name == kind + oid:
                        known.add(oid)
        found[HELD] |= found[WHOLE]
        return found

    @property
    def crowded(self) -> bool:
        """Whether there are so many packs that joining them is worth a process."""
        with contextlib.suppress(OSError):
            return sum(name.endswith(".pack") for name in os.listdir(self._packs)) > 2 * _MOST_PACKS
        return False

    def used_by(self, project: str) -> None:
        """Remember the id of a project that needs it. Raises OSError."""
        path = os.path.join(self.directory, USERS)
        with contextlib.suppress(FileNotFoundError):
            if project in read_regular(path).decode("ascii", "replace").split():
                return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with self.opened():
            descriptor = os.open(path, flags, 0o600)
            try:
                write_all(descriptor, f"\n{project}\n".encode())
                sync_file(descriptor)
            finally:
                os.close(descriptor)

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
            lock, patience = os.path.join(self.directory, _LOCK), wait if wait > 1 else 0.0
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
        self._note_shallow(wanted.shallow)
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
            self._promise({kind: known[kind] | {*fresh, *logged}})
        if pushed and not known[WHOLE].issuperset({*wanted.remote, *wanted.tips}):
            size = _size(wanted.objects)
            if size > MOST_PUSHED:
                self.trouble = f"{size >> 20:,} MB of history that a remote has, too, is over the limit"
                return False
            whole = self.promised()[WHOLE]
            everything = [*wanted.remote, *wanted.tips]
            if not self._pack(git, wanted, everything, _first(list(whole), _MOST_STOPS), until):
                return False
            self._promise({WHOLE: whole | set(everything)})
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
                self._sweep()
                self.trouble = "it takes longer than a call may wait"
                return False
            if done.returncode == 0:
                return True
            # Something is missing, or is no object at all: whatever is there is kept, and that is said.
            self._sweep()
            self.trouble = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1][:200]
            have, allowed = self._existing(git, wanted, tips, until), ("--missing=allow-any",)
            ends = self._existing(git, wanted, ends, until)
            if len(have) == len(tips):
                durable_write(os.path.join(self.directory, _INCOMPLETE), b"")
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
        packs = [name for name in os.listdir(self._packs) if name.endswith(".pack")]
        if len(packs) > _MOST_PACKS:
            self._run(git, WantedObjects(""), until, "repack", "-d", "-q", "--geometric=2")

    def _promise(self, more: dict[str, set[str]]) -> None:
        """Everything that is promised, written again: whole, synced, under its final name."""
        known = {**self.promised(), **more}
        known[HELD] = known[HELD] - known[WHOLE]
        lines = sorted(f"{oid} {kind}{oid}\n" for kind, names in known.items() for oid in names)
        lines.sort(key=lambda line: line.split(" ")[1])
        durable_write(self._refs, b"# pack-refs with: sorted \n" + "".join(lines).encode())

    def prepare(self) -> None:
        """Make the repository of ours, where there is none yet. Raises OSError."""
        if self.exists:
            return
        private_directory(os.path.dirname(self.directory))
        with self.opened():
            self._make()

    def _make(self) -> None:
        for name in _DIRECTORIES[1:]:
            private_directory(os.path.join(self.directory, name))
        extension = "[extensions]\n\tobjectformat = sha256\n" if self.format == "sha256" else ""
        version = 1 if extension else 0
        text = f"[core]\n\trepositoryformatversion = {version}\n\tbare = true\n[gc]\n\tauto = 0\n{extension}"
        durable_write(os.path.join(self.directory, "config"), text.encode())
        durable_write(os.path.join(self.directory, "safekept"), os.fsencode(self._common))
        durable_write(os.path.join(self.directory, "HEAD"), b"ref: refs/heads/main\n")

    def _note_shallow(self, shallow: bytes) -> None:
        """Where a shallow clone ends, git stops without looking for parents."""
        names = {line for line in shallow.decode("ascii", "replace").split() if OBJECT_NAME.fullmatch(line)}
        if not names:
            return
        path = os.path.join(self.directory, "shallow")
        with contextlib.suppress(OSError):
            known = set(read_regular(path).decode("ascii", "replace").split())
            if names <= known:
                return
            names |= known
        durable_write(path, "".join(f"{name}\n" for name in sorted(names)).encode())

    def _sweep(self) -> None:
        """What a git that was ended left; the lock says that no other is at work."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._packs):
                if name.startswith("tmp_"):
                    os.unlink(os.path.join(self._packs, name))

    @property
    def _packs(self) -> str:
        return os.path.join(self.directory, "objects", "pack")

    @property
    def _refs(self) -> str:
        return os.path.join(self.directory, "packed-refs")


def drop_unused(directory: str, in_use: Callable[[str], bool]) -> int:
    """Remove the repositories that no project's points need any more; returns how many. Never raises.

    One without a record of who needs it stays.
    """
    import shutil

    place, gone, belt = os.path.join(directory, NAME), 0, repositories_belt(directory)
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(place)):
            with contextlib.suppress(OSError, AlreadyRunning):
                path = os.path.join(place, name)
                users = read_regular(os.path.join(path, USERS)).decode("ascii", "replace").split()
                if not users or any(map(in_use, users)):
                    continue
                with process_lock(os.path.join(path, _LOCK), "dropping a repository", 0.0):
                    for one in ("", *_DIRECTORIES):
                        belt.open(os.path.join(path, one) if one else path)
                    shutil.rmtree(path)
                    gone += 1
        belt.let_go()
    return gone


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
