"""A repository's refs, stashes, index and settings, read as plain files; git is asked about the index only.

Any of these files may be a pipe, a link or a gigabyte: each is read with a bound, no link is followed, and
what cannot be read is left out and named. What was read is remembered by the looks of a few files and
directories, so that an unchanged repository costs a handful of looks however many refs it has.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator

from safekept.core.files.small import is_short, read_regular, read_start

from ..git import find_git, git_command, git_environment
from .locating import Located, Look, look
from .state import DOT_GIT, FILE, HEAD, INDEX, LOG, REF, STASH, RepositoryState

REFTABLE = "its refs are in the reftable format, which is not read: only its files are kept"
OBJECT_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LARGEST_INDEX, _LARGEST_PACKED, _LARGEST_FILE = 128 << 20, 64 << 20, 1 << 20
_MOST_REFS, _MOST_FILES, _MOST_LOOKS = 200_000, 2_000, 500
#: Seconds for git to list an index.
_LONGEST_WAIT = 5.0
#: What follows from the rest, is made again, or belongs to a process that runs now.
_NOT_KEPT = re.compile(
    r"(?:objects|refs|logs|reftable|worktrees|modules|lfs|annex|packed-refs|HEAD|index|FETCH_HEAD|COMMIT_EDITMSG"
    r"|gc\.(?:log|pid)|fsmonitor--daemon.*|.*\.lock|.*\.sock|.*~)"
)
#: Names and tokens in addresses; settings that carry a secret.
_LOGIN = re.compile(rb"(https?://)[^/\s@]+@", re.IGNORECASE)
_SECRET_LINE = re.compile(
    rb"(?im)^[ \t]*[\w.-]*(?:extraheader|password|passwd|token|secret|apikey)[\w.-]*[ \t]*=[^\n]*\n?"
)
#: In front of the value of a file from which something was taken out.
SCRUBBED = "scrubbed "
#: What a linked worktree has of its own.
_OF_A_WORKTREE = ("commondir", "gitdir", "locked")


class RepositoryReading:
    """One repository, read once. `put` takes bytes and returns their blob; `looks`: what was looked at."""

    def __init__(self, place: Located, ours: str, put: Callable[[bytes], str]) -> None:
        self._place, self._ours, self._put = place, ours, put
        self.state = RepositoryState(place.path, place.git, place.common, place.format)
        self.looks: list[Look] = []
        self.index = ""  # where git can read it
        self._files = 0
        self._logs: list[bytes] = []  # that of HEAD first

    def read(self) -> RepositoryState:
        place, items = self._place, self.state.items
        self._look(place.git)
        self._look(place.common)
        self._look(os.path.join(place.git, "HEAD"))
        items[HEAD] = self._line(os.path.join(place.git, "HEAD"))
        if place.dot_git:
            items[DOT_GIT] = self._put(place.dot_git)
        if os.path.isdir(os.path.join(place.common, "reftable")):
            self.state.remarks.append(REFTABLE)
        self._refs()
        self._index()
        self._log(HEAD, os.path.join(place.git, "logs", "HEAD"))
        for name in [*self.state.refs()][:_MOST_FILES]:
            log = os.path.join(place.common, "logs", *name.split("/"))
            if name == "refs/stash":
                self._stashes(log)
            else:
                self._log(name, log)
        self._walk_files(place.git, "")
        if not place.linked:
            self._worktrees()
        return self.state

    def stash_objects(self) -> list[str]:
        """Every stash, the newest last; all but that one exist in the log only."""
        return [fields[1] for fields in self._log_lines(self._stash_log)]

    _stash_log = b""

    def logged_objects(self, most: int) -> list[str]:
        """What `HEAD` and then the branches stood at lately, so many of each; five times as many of all."""
        found = (fields[1] for log in self._logs for fields in self._log_lines(log)[-most:])
        return list(dict.fromkeys(found))[: 5 * most]

    # ── refs ──

    def _refs(self) -> None:
        common = self._place.common
        found: dict[str, str] = {}
        packed = os.path.join(common, "packed-refs")
        self._look(packed)
        with contextlib.suppress(FileNotFoundError):
            try:
                for line in os.fsdecode(read_regular(packed, _LARGEST_PACKED, follow=False)).split("\n"):
                    oid, _, name = line.partition(" ")
                    if name.startswith("refs/") and OBJECT_NAME.fullmatch(oid):
                        found[name] = oid
            except FileNotFoundError:
                raise
            except OSError as error:
                self._left_out("packed-refs", error)
        for name, path in self._loose(os.path.join(common, "refs"), "refs"):
            value = self._line(path)
            if OBJECT_NAME.fullmatch(value) or value.startswith("ref: refs/"):
                found[name] = value
            else:
                found.pop(name, None)
                self.state.remarks.append(f"{name} is no ref that can be read")
        self.state.items.update((REF + name, found[name]) for name in sorted(found))

    def _loose(self, directory: str, name: str) -> Iterator[tuple[str, str]]:
        self._look(directory)
        try:
            with os.scandir(directory) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            self._left_out(name, error)
            return
        for entry in entries:
            full = f"{name}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if full.count("/") < 64 and full not in ("refs/bisect", "refs/worktree", "refs/rewritten"):
                    yield from self._loose(entry.path, full)
            elif not entry.name.endswith(".lock"):
                self._files += 1
                if self._files <= _MOST_REFS:
                    yield full, entry.path

    # ── the index ──

    def _index(self) -> None:
        path = os.path.join(self._place.git, "index")
        self._look(path)
        if not os.path.lexists(path):
            return
        if os.path.islink(path) or not is_short(path, _LARGEST_INDEX):
            self.state.remarks.append("its index is no file that can be kept")
            return
        with contextlib.suppress(OSError):
            data = read_regular(path, _LARGEST_INDEX, follow=False)
            entries = self._entries(path)
            self.index = path if entries else ""
            entries = entries or hashlib.sha256(data).hexdigest()
            self.state.items[INDEX] = f"{entries} {self._put(data)}"

    def _entries(self, path: str) -> str:
        """A word for what the index lists; empty where git cannot say. Nothing of the project's is obeyed."""
        import subprocess

        git = find_git()
        if git is None:
            return ""
        words = ("ls-files", "--stage", "-v", "-z")
        try:
            done = subprocess.run(
                git_command(git, *words),
                env=git_environment(self._ours, index=path),
                cwd=self._ours,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LONGEST_WAIT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return hashlib.sha256(done.stdout).hexdigest() if done.returncode == 0 else ""

    # ── logs and other files ──

    def _log(self, name: str, path: str) -> None:
        with contextlib.suppress(OSError):
            data = without_secrets(_tail(path))
            if data:
                self._logs.append(data)
                self.state.items[LOG + name] = self._put(data)

    def _stashes(self, path: str) -> None:
        self._look(path)
        with contextlib.suppress(OSError):
            self._stash_log = _tail(path)
            if self._stash_log:
                self.state.items[STASH] = self._put(self._stash_log)

    @staticmethod
    def _log_lines(data: bytes) -> list[list[str]]:
        lines = [line.split(" ", 2) for line in data.decode("utf-8", "replace").split("\n") if line]
        return [fields for fields in lines if len(fields) == 3 and OBJECT_NAME.fullmatch(fields[1])]

    def _walk_files(self, base: str, below: str) -> None:
        """Every small file that is neither object nor ref: settings, hooks, a merge or rebase under way."""
        if below:
            self._look(os.path.join(base, below))
        try:
            with os.scandir(os.path.join(base, below)) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            name = f"{below}/{entry.name}" if below else entry.name
            if not below and _NOT_KEPT.fullmatch(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                if name.count("/") < 8:
                    self._walk_files(base, name)
            elif not entry.name.endswith((".lock", ".sample")):
                self._file(name, entry.path)

    def _worktrees(self) -> None:
        """What the main repository knows of each linked worktree, which is none without it."""
        base = os.path.join(self._place.git, "worktrees")
        if not os.path.isdir(base):
            return
        self._look(base)
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(base))[:200]:
                for part in ("HEAD", "logs/HEAD", *_OF_A_WORKTREE):
                    self._file(f"worktrees/{name}/{part}", os.path.join(base, name, part))
                index = f"worktrees/{name}/index"
                self._file(index, os.path.join(self._place.git, index), _LARGEST_INDEX)

    def _file(self, name: str, path: str, most: int = _LARGEST_FILE) -> None:
        self._files += 1
        if len(self.looks) < _MOST_LOOKS and not name.startswith("worktrees/"):
            self._look(path)
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode) or self._files > _MOST_REFS + _MOST_FILES:
                return
            mode = stat.S_IMODE(os.lstat(path).st_mode) & 0o777
            data = read_regular(path, most, follow=False)
            clean = data if name.endswith("/index") else without_secrets(data)
            scrubbed = SCRUBBED if clean != data else ""
            self.state.items[FILE + name] = f"{scrubbed}{mode:o} {self._put(clean)}"
        except FileNotFoundError:
            pass
        except OSError as error:
            self._left_out(name, error)

    def _line(self, path: str) -> str:
        with contextlib.suppress(OSError):
            line = read_start(path, 4096, follow=False).split(b"\n", 1)[0].strip()
            return os.fsdecode(line) if b"\0" not in line else ""
        return ""

    def _left_out(self, name: str, error: OSError) -> None:
        self.state.remarks.append(f"{name} could not be read: {error.strerror or error}")

    def _look(self, path: str) -> None:
        self.looks.append(look(path))


def without_secrets(data: bytes) -> bytes:
    """The same without what opens something: our store of checkpoints is not encrypted."""
    return _SECRET_LINE.sub(rb"", _LOGIN.sub(rb"\1", data))


def _tail(path: str) -> bytes:
    """A log, or the last megabyte of it: git appends to these for years."""
    with contextlib.suppress(FileNotFoundError):
        facts = os.lstat(path)
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= 16 * _LARGEST_FILE:
            data = read_regular(path, 16 * _LARGEST_FILE, follow=False)
            return data if len(data) <= _LARGEST_FILE else data[-_LARGEST_FILE:].partition(b"\n")[2]
    return b""
