"""The project's own ignore rules, asked of git and nobody else.

One `git check-ignore` per pass, started only when there is something to ask: a name that was not decided
before, below a `.gitignore`. It gets an empty repository of ours as its git directory, so that nothing
in the project's `.git` is read or run; the project's `info/exclude` is handed to it as a file.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence

from ..store.git import find_git, git_command, git_environment

#: Questions sent before answers are read; the answers of that many fit into a pipe.
_AT_ONCE = 100
_LONGEST = 16384
#: Seconds that the question for tracked files may take, and how many are looked at.
_LONGEST_WAIT = 10.0
_MOST_TRACKED = 5000


class Ignore:
    """Asks which paths are ignored. Use as a context manager."""

    def __init__(self, project: bytes, repository: str) -> None:
        self.project, self._repository = project, repository
        self.exclude_file = find_exclude_file(project)
        place = find_git_directory(project)
        self._index = os.path.join(place, b"index") if place else b""
        self.available = True
        self.found = False  # something was found to be ignored that was not known to be
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
        with contextlib.suppress(OSError), open(self.exclude_file, "rb") as file:
            return any(line.strip() and not line.startswith(b"#") for line in file.read(1 << 20).split(b"\n"))
        return False

    def ask(self, paths: Sequence[bytes]) -> set[bytes]:
        """Those of the paths (relative to the project) that are ignored; none when git cannot be asked."""
        ignored: set[bytes] = set()
        for start in range(0, len(paths), _AT_ONCE):
            batch = paths[start : start + _AT_ONCE]
            if sum(map(len, batch)) > _LONGEST and len(batch) > 1:
                middle = len(batch) // 2
                ignored |= self.ask(batch[:middle]) | self.ask(batch[middle:])
            elif self.available:
                ignored |= self._ask(batch)
        return ignored

    def _ask(self, paths: Sequence[bytes]) -> set[bytes]:
        ignored = set()
        try:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"".join(b"./" + path + b"\0" for path in paths))
            process.stdin.flush()
            answers, wanted = bytearray(), 4 * len(paths)
            while answers.count(b"\0") < wanted:
                piece = process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
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
        git = find_git()
        if git is None:
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
        with open(place, "rb") as file:
            line = file.read(4096)
        if line.startswith(b"gitdir:"):
            return os.path.join(project, line[7:].strip().split(b"\n")[0])
    return b""


def find_exclude_file(project: bytes) -> bytes:
    """The `info/exclude` of the repository whose work tree the project is; empty where there is none."""
    place = find_git_directory(project)
    if not place:
        return b""
    with contextlib.suppress(OSError):
        common = os.path.join(place, b"commondir")
        if os.path.isfile(common):
            with open(common, "rb") as file:
                place = os.path.join(place, file.read(4096).strip())
        exclude = os.path.join(place, b"info", b"exclude")
        if os.path.isfile(exclude):
            return os.path.normpath(exclude)
    return b""
