"""The project's own ignore rules, asked of git alone.

One `git check-ignore` per pass, started only when there is something to ask: a name that was not decided
before, below a `.gitignore`. It gets an empty repository of ours as its git directory, so that nothing
in the project's `.git` is read or run; the project's `info/exclude` is handed to it as a file.

Rule files can be hostile. Where one is a pipe, a device or longer than rules are, git is not asked about what
lies below it, and nothing there counts as ignored. Git itself has a deadline and a bound on its memory.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safekept.core.files.small import is_short, read_regular, read_start
from safekept.core.platform.rights import bound_memory

from ..store.git import MOST_MEMORY, find_git, git_command, git_environment

if TYPE_CHECKING:
    import subprocess

#: Questions sent before answers are read; the answers of that many fit into a pipe.
_AT_ONCE = 100
_LONGEST = 16384
#: Seconds that the question for tracked files may take, and how many are looked at.
_LONGEST_WAIT = 5.0
_MOST_TRACKED = 5000
#: Bytes of a rule file, and of the user's index: half a million files.
_LARGEST_RULES, _LARGEST_INDEX = 1 << 20, 128 << 20
RULES_FILE = b".gitignore"


class Ignore:
    """Asks which paths are ignored. Use as a context manager."""

    def __init__(self, project: bytes, repository: str) -> None:
        self.project, self._repository = project, repository
        self.exclude_file = find_exclude_file(project)
        place = find_git_directory(project)
        self._index = os.path.join(place, b"index") if place else b""
        if self._index and not is_short(self._index, _LARGEST_INDEX):
            self._index = b""
        self.available = True
        self.silent = False  # git was asked and did not answer in time
        self.found = False  # something was found to be ignored that was not known to be
        self.unreadable: set[bytes] = set()  # rule files that are none, relative to the project
        self._askable: dict[bytes, bool] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Ignore:
        return self

    def __exit__(self, *trouble: object) -> None:
        self.close()

    def fingerprint(self) -> bytes:
        """Changes when the rules outside the tree may have changed."""
        if not self.exclude_file:
            return b""
        with contextlib.suppress(OSError):
            status = os.lstat(self.exclude_file)
            return b"%d %d %d" % (status.st_mtime_ns, status.st_size, status.st_ino)
        return b"unreadable"

    def has_outside_rules(self) -> bool:
        """Whether `info/exclude` says anything at all; git's own template has only comments."""
        if not self.exclude_file:
            return False
        with contextlib.suppress(OSError):
            rules = read_regular(self.exclude_file, _LARGEST_RULES).split(b"\n")
            return any(line.strip() and not line.startswith(b"#") for line in rules)
        return False

    def ask(self, paths: Sequence[bytes]) -> set[bytes]:
        """Those of the paths (relative to the project) that are ignored; none when git cannot be asked.

        All of them lie in one directory.
        """
        ignored: set[bytes] = set()
        if not paths or not self._may_ask(os.path.dirname(paths[0])):
            return ignored
        for start in range(0, len(paths), _AT_ONCE):
            batch = paths[start : start + _AT_ONCE]
            if sum(map(len, batch)) > _LONGEST and len(batch) > 1:
                middle = len(batch) // 2
                ignored |= self.ask(batch[:middle]) | self.ask(batch[middle:])
            elif self.available:
                ignored |= self._ask(batch)
        return ignored

    def _may_ask(self, directory: bytes) -> bool:
        """Whether git can read every rule file from the project's root down to this directory."""
        if directory not in self._askable:
            above = not directory or self._may_ask(os.path.dirname(directory))
            here = os.path.join(self.project, directory, RULES_FILE)
            # Git follows no link here, and a directory of that name holds no rules.
            harmless = not os.path.lexists(here) or os.path.islink(here) or os.path.isdir(here)
            sound = harmless or is_short(here, _LARGEST_RULES)
            if not sound:
                self.unreadable.add(os.path.join(directory, RULES_FILE))
            self._askable[directory] = above and sound
        return self._askable[directory]

    def _ask(self, paths: Sequence[bytes]) -> set[bytes]:
        ignored = set()
        try:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"".join(b"./" + path + b"\0" for path in paths))
            process.stdin.flush()
            answers, wanted = bytearray(), 4 * len(paths)
            while answers.count(b"\0") < wanted:
                if not select.select([process.stdout], [], [], _LONGEST_WAIT)[0]:
                    self.silent = True  # a rule file became a pipe meanwhile, say
                    raise EOFError
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    raise EOFError
                answers += piece
            # Four fields each: where the rule is from, its line, the rule, the path.
            fields = bytes(answers).split(b"\0")
            for place, path in enumerate(paths):
                if fields[4 * place] and not fields[4 * place + 2].startswith(b"!"):
                    ignored.add(path)
                    self.found = True
        except (OSError, EOFError):
            self.close()
            self.available = False
        return ignored

    def index_looks(self) -> bytes:
        """Changes when the user's own index may have changed; empty where there is none."""
        with contextlib.suppress(OSError):
            status = os.stat(self._index)
            return b"%d %d %d" % (status.st_mtime_ns, status.st_size, status.st_ino)
        return b""

    def tracked(self) -> list[bytes]:
        """Files that the project's repository tracks although they are ignored, as after `git add -f`.

        Only the index is read, with our own empty repository around it: no setting, hook or object of
        the project's. None where git cannot read it so.
        """
        import subprocess  # most projects have nothing to ask, and do not pay for it

        git = find_git()
        if git is None or self.unreadable or not self._may_ask(b""):
            return []
        settings = (f"core.excludesFile={os.fsdecode(self.exclude_file or os.devnull)}",)
        project, index = os.fsdecode(self.project), os.fsdecode(self._index)
        try:
            done = subprocess.run(
                git_command(
                    git, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard", settings=settings
                ),
                env=git_environment(self._repository, project, index),
                cwd=self.project,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LONGEST_WAIT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        names = dict.fromkeys(done.stdout.split(b"\0")) if done.returncode == 0 else {}
        return [name for name in names if name][:_MOST_TRACKED]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            import subprocess

            git = find_git()
            if git is None:
                raise FileNotFoundError("git")
            settings = (f"core.excludesFile={os.fsdecode(self.exclude_file or os.devnull)}",)
            words = ("check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching")
            self._process = subprocess.Popen(
                git_command(git, *words, settings=settings),
                env=git_environment(self._repository, os.fsdecode(self.project)),
                cwd=self.project,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            bound_memory(self._process.pid, MOST_MEMORY)
        return self._process

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()


def find_git_directory(project: bytes) -> bytes:
    """Where the repository whose work tree the project is keeps its data; empty where there is none."""
    place = os.path.join(project, b".git")
    with contextlib.suppress(OSError):
        if os.path.isdir(place):
            return place
        line = read_start(place, 4096)
        if line.startswith(b"gitdir:"):
            return _path_in(project, line[7:])
    return b""


def _path_in(directory: bytes, printed: bytes) -> bytes:
    """The path that a file of git's names; empty where it is none, and no call would take it."""
    name = printed.strip().split(b"\n")[0]
    return os.path.join(directory, name) if name and b"\0" not in name else b""


def find_exclude_file(project: bytes) -> bytes:
    """The `info/exclude` of the repository whose work tree the project is; empty where there is none."""
    place = find_git_directory(project)
    if not place:
        return b""
    with contextlib.suppress(OSError):
        common = os.path.join(place, b"commondir")
        if os.path.isfile(common):
            place = _path_in(place, read_start(common, 4096))
            if not place:
                return b""
        exclude = os.path.join(place, b"info", b"exclude")
        if is_short(exclude, _LARGEST_RULES):
            return os.path.normpath(exclude)
    return b""
