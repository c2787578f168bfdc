"""Where news of changes come from: the system's notifications, or looking again and again.

Both answer the same question: what changed since the last answer. Neither may miss a change that was
there when it was last set up, so setting one up is followed by a full pass.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from safekept.checkpoints.scan import Ignore, Rules
from safekept.core.platform.filesystems import kind_of_filesystem

# Which changes count: those of files that a checkpoint would hold. What the rules of checkpoints leave
# out by name (`node_modules`, `.git`, secrets), what `.gitignore` hides and what is ours is neither
# watched nor taken for a change. Asking is cheap: names first, and git only for what is left, in one
# process that stays. Where git cannot be asked, a change counts: too many looks at a project cost a
# moment, one too few costs a file.

_RULES_FILE = ".gitignore"
#: More changed paths than this at once are not asked about one by one: some of them will count.
_ASKED = 200


class Relevance:
    """What counts in one project. `own`: directories of ours, which may lie inside it."""

    def __init__(
        self, project: str, repository: str, excluded: tuple[str, ...] = (), own: Collection[str] = ()
    ) -> None:
        self.project, self._repository = project, repository
        self._rules = Rules(excluded)
        self._own = tuple(os.path.realpath(place) for place in own if place)
        self._ignore: Ignore | None = None

    def counts(self, paths: Collection[str]) -> bool:
        """Whether one of these changed paths is something that a checkpoint would hold."""
        left = [name for name in map(self._kept, paths) if name is not None]
        if any(os.path.basename(name) == _RULES_FILE for name in left):
            self.forget()
            return True
        if not left or len(left) > _ASKED or "" in left:
            return bool(left)
        wanted = [os.fsencode(name) for name in left]
        return len(self._ignored(wanted)) < len(set(wanted))

    def walk(self) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
        """Every directory worth watching, with its entries that are no directories. A level at a time.

        Raises OSError where the project itself cannot be listed.
        """
        level = [""]
        while level:
            below: list[str] = []
            for relative in level:
                entries: list[os.DirEntry[str]] = []
                try:
                    with os.scandir(os.path.join(self.project, relative)) as found:
                        entries = list(found)
                except OSError:
                    if not relative:
                        raise
                    continue
                files = []
                for entry in entries:
                    name = f"{relative}/{entry.name}" if relative else entry.name
                    directory = entry.is_dir(follow_symlinks=False)
                    if self._left_out(relative, entry.name, directory) or entry.path in self._own:
                        continue
                    if directory:
                        below.append(name)
                    else:
                        files.append(entry)
                yield os.path.join(self.project, relative) if relative else self.project, files
            hidden = {os.fsdecode(name) for name in self._ignored([os.fsencode(name) for name in below])}
            level = [name for name in below if name not in hidden]

    def forget(self) -> None:
        """The rules may have changed, or the project was rebuilt: git reads them again."""
        if self._ignore is not None:
            self._ignore.close()
            self._ignore = None

    def _kept(self, path: str) -> str | None:
        """The path in the project, unless a name on the way leaves it out; "" for the project itself."""
        if path == self.project:
            return ""
        if not path.startswith(self.project.rstrip("/") + "/"):
            return None
        if any(path == own or path.startswith(own + "/") for own in self._own):
            return None
        relative = path[len(self.project.rstrip("/")) + 1 :]
        directory = ""
        parts = relative.split("/")
        for at, name in enumerate(parts):
            if self._left_out(directory, name, at < len(parts) - 1):
                return None
            directory = f"{directory}/{name}" if directory else name
        # The last name may be a directory's; one that is gone can no longer be asked.
        if self._left_out(os.path.dirname(relative), parts[-1], True) and not os.path.isfile(path):
            return None
        return relative

    def _left_out(self, directory: str, name: str, is_directory: bool) -> bool:
        return self._rules.decide(os.fsencode(directory), os.fsencode(name), is_directory) is not None

    def _ignored(self, names: Iterable[bytes]) -> set[bytes]:
        asked = list(dict.fromkeys(names))
        if not asked:
            return set()
        with contextlib.suppress(OSError):
            if self._ignore is not None and not self._ignore.available:
                self.forget()  # it may have ended with the store that it stood in
            if self._ignore is None:
                self._ignore = Ignore(os.fsencode(self.project), self._repository)
            return self._ignore.ask(asked)
        return set()


#: Filesystems that others may change, of which this machine's kernel is told nothing.
UNTOLD = frozenset("nfs nfs4 cifs smb3 smbfs 9p afs ceph glusterfs lustre virtiofs vboxsf prl_fs".split())
#: Milliseconds for which notifications are gathered, and between two looks for them.
_GATHER, _STEP = 200, 50
_ADDED = 1
_TRIES = 5
#: PollingWatch may take this share of one processor.
_SHARE = 0.05


class Stop(Protocol):
    """Something that may be set while others wait."""

    def is_set(self) -> bool: ...
    def wait(self, timeout: float) -> bool: ...


class Source(Protocol):
    """News of one project."""

    native: bool
    stale: bool  # there are directories that are not watched yet

    def again(self) -> None:
        """Set up again. OSError where the project is not there."""

    def wait(self, seconds: float) -> set[str]:
        """What changed, at the latest after so many seconds; nothing when there was nothing."""
        ...

    def close(self) -> None: ...


class CannotWatch(Exception):
    """The system gives no notifications here, for this reason."""


class Notifications:
    """The system's own. Every directory that counts is watched by itself, and no other.

    A recursive watch would spend the user's allowance, which their editor needs too, on `node_modules`.
    """

    native = True

    def __init__(self, relevance: Relevance, stop: Stop) -> None:
        try:
            from watchfiles._rust_notify import RustNotify
        except ImportError as error:
            raise CannotWatch(f"the package watchfiles cannot be used: {error}") from error

        self._make, self._relevance, self._stop = RustNotify, relevance, stop
        self._notify: RustNotify | None = None
        self.stale = False
        self.again()

    def again(self) -> None:
        self.stale = False
        self._relevance.forget()
        directories = self._directories()
        for _ in range(_TRIES):
            self.close()
            try:
                # Without the last flag a watch that is refused for any reason would go unsaid.
                self._notify = self._make(directories, False, False, 300, False, False)
            except FileNotFoundError:
                directories = self._directories()  # one went away meanwhile
                continue
            except UnicodeEncodeError as error:
                raise CannotWatch("a directory's name is not UTF-8, and cannot be watched") from error
            except (OSError, RuntimeError) as error:
                raise CannotWatch(_in_words(error)) from error
            # One that was made between the list and the watch would go unseen for ever.
            before, directories = directories, self._directories()
            if directories == before:
                return
        self.stale = True  # they come faster than they can be listed: again with the next checkpoint
        if self._notify is None:
            raise CannotWatch("its directories come and go too fast to be watched one by one")

    def wait(self, seconds: float) -> set[str]:
        if self._notify is None:
            self._stop.wait(seconds)
            return set()
        try:
            found = self._notify.watch(_GATHER, _STEP, max(_STEP, int(seconds * 1000)), self._stop)
        except (RuntimeError, OSError):
            # News of a file whose name is not UTF-8 cannot be delivered, nor what else came with it: it is
            # looked at, and the watches are set up again.
            self.close()
            self.stale = True
            return {self._relevance.project}
        if isinstance(found, str):  # nothing came, or the end did
            return set()
        if not self.stale:
            self.stale = any(kind == _ADDED and os.path.isdir(path) for kind, path in found)
        return {path for _, path in found}

    def close(self) -> None:
        if self._notify is not None:
            self._notify.close()
            self._notify = None

    def _directories(self) -> list[str]:
        return sorted(directory for directory, _ in self._relevance.walk())


class PollingWatch:
    """Looks at every file that counts, no oftener than its price allows."""

    native = False

    def __init__(self, relevance: Relevance, stop: Stop, pause: float) -> None:
        self._relevance, self._stop, self._pause = relevance, stop, pause
        self.stale = False
        self._seen = 0
        self._cost = 0.0
        self.again()

    def again(self) -> None:
        self._relevance.forget()
        self._seen = self._look()

    def wait(self, seconds: float) -> set[str]:
        self._stop.wait(max(self._pause, self._cost / _SHARE))
        if self._stop.is_set():
            return set()
        with contextlib.suppress(OSError):
            seen = self._look()
            if seen == self._seen:
                return set()
            self._seen = seen
        return {self._relevance.project}

    def close(self) -> None:
        return

    def _look(self) -> int:
        """One number for all names, sizes and times."""
        began, sum_of_all = time.process_time(), 0
        for directory, files in self._relevance.walk():
            sum_of_all ^= hash(directory)
            for entry in files:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    sum_of_all ^= hash((entry.path, status.st_mtime_ns, status.st_ctime_ns, status.st_size))
        self._cost = time.process_time() - began
        return sum_of_all


def best_source(relevance: Relevance, stop: Stop, pause: float) -> tuple[Source, str]:
    """Notifications where the system has them for this project; else looking, and why."""
    kind = kind_of_filesystem(os.stat(relevance.project).st_dev)
    if kind in UNTOLD:
        return PollingWatch(relevance, stop, pause), f"the project lies on a network filesystem ({kind})"
    try:
        return Notifications(relevance, stop), ""
    except CannotWatch as error:
        return PollingWatch(relevance, stop, pause), str(error)


def _in_words(error: Exception) -> str:
    text = str(error)
    if "watch limit" in text or "Too many open files" in text:
        return "the system's limit for file notifications is reached (fs.inotify)"
    return f"the system gives no file notifications here: {text.split(' about ')[0][:200]}"
