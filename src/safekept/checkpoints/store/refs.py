"""One ref per checkpoint: `refs/safekept/<project id>/<checkpoint id>`.

A ref is made once and never moved, so that making one is a rename and dropping one is an unlink.
Maintenance may gather refs in `packed-refs`; both places are read. Names in between, such as the
directories that git removes when they become empty, may vanish under our hands and are made again.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import time
from collections.abc import Iterable, Iterator

from safekept.core.files import fsync_directory, temporary_name, write_all
from safekept.core.platform.syncing import sync_file

from ..checkpoint import is_checkpoint_id

PREFIX = "refs/safekept"
_HEX = frozenset("0123456789abcdef")
#: A lock file of git's is given up as an orphan after this long (seconds).
STALE = 600.0


class RefsLocked(Exception):
    """`packed-refs` is being written by another process."""


class Refs:
    """The refs of one repository, of ours only."""

    def __init__(self, repository: str) -> None:
        self.repository = repository
        self._packed_path = os.path.join(repository, "packed-refs")
        self._seen: tuple[int, int, int] | None = None
        self._packed: dict[str, dict[str, str]] = {}
        #: A ref that is there and could not be read: what was listed since is not all.
        self.unread: OSError | None = None

    def projects(self) -> set[str]:
        """Ids of all projects that have a ref."""
        found = {project for project, refs in self._read_packed().items() if refs}
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(os.path.join(self.repository, PREFIX)):
                with contextlib.suppress(OSError):
                    if any(not entry.startswith(".") for entry in os.listdir(self._directory(name))):
                        found.add(name)
        return found

    def of(self, project: str) -> dict[str, str]:
        """Checkpoint id -> commit of one project. Broken files are passed over."""
        # Loose ones are read first: one that is being packed is in both places, never in none.
        loose: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(self._directory(project)):
                if not name.startswith(".") and not name.endswith(".lock"):
                    commit = self._read(os.path.join(self._directory(project), name))
                    if commit:
                        loose[name] = commit
        return {**self._read_packed().get(project, {}), **loose}

    def get(self, project: str, checkpoint: str) -> str | None:
        """The commit of one checkpoint; None when there is no such ref."""
        commit = self._read(os.path.join(self._directory(project), checkpoint))
        return commit or self._read_packed().get(project, {}).get(checkpoint)

    def newest(self, project: str) -> str:
        """The greatest checkpoint id of a project; empty where there is none. No ref is read."""
        names = list(self._read_packed().get(project, {}))
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            names += os.listdir(self._directory(project))
        return max((name for name in names if is_checkpoint_id(name)), default="")

    def newest_first(self, project: str) -> Iterator[tuple[str, str]]:
        """Checkpoint id and commit, one at a time: the first few cost the same however many follow."""
        loose: list[str] = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            loose = [name for name in os.listdir(self._directory(project)) if is_checkpoint_id(name)]
        read = (
            (name, self._read(os.path.join(self._directory(project), name))) for name in sorted(loose)[::-1]
        )
        last = ""
        for name, commit in heapq.merge(read, self._packed_backwards(project), reverse=True):
            if commit and name != last:  # one that is being packed is in both places
                last = name
                yield name, commit

    def _packed_backwards(self, project: str) -> Iterator[tuple[str, str]]:
        """The same of `packed-refs`, which is in the order of its names."""
        try:
            with open(self._packed_path, "rb") as file:
                text = file.read()
        except OSError:
            return
        if b" sorted" not in text[: text.find(b"\n")]:
            yield from sorted(self._read_packed().get(project, {}).items(), reverse=True)
            return
        before, end = f" {PREFIX}/{project}/".encode(), len(text)
        while (end := text.rfind(before, 0, end)) >= 0:
            begin = end + len(before)
            name = text[begin : text.find(b"\n", begin)].decode("utf-8", "replace")
            if is_checkpoint_id(name):
                yield name, _commit(text[max(0, end - 40) : end])

    def create(self, project: str, checkpoint: str, commit: str, scratch: str, durable: bool = True) -> None:
        """Make a ref. It is there, whole and durable, when this returns."""
        directory = self._directory(project)
        temporary = temporary_name(scratch)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                write_all(descriptor, commit.encode() + b"\n")
                if durable:
                    sync_file(descriptor)
            finally:
                os.close(descriptor)
            for attempt in range(20):
                try:
                    os.rename(temporary, os.path.join(directory, checkpoint))
                    break
                except FileNotFoundError:
                    # Missing, or removed just now by a process that packs refs: an empty directory goes.
                    if attempt == 19:
                        raise
                    os.makedirs(directory, mode=0o700, exist_ok=True)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
            with contextlib.suppress(FileNotFoundError):
                fsync_directory(directory)

    def drop(self, project: str, checkpoints: Iterable[str]) -> None:
        """Remove refs; those that are not there are no trouble."""
        gone = set(checkpoints)
        packed = self._read_packed().get(project, {})
        if gone & packed.keys():
            self._rewrite_packed({f"{PREFIX}/{project}/{name}" for name in gone})
        for name in gone:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._directory(project), name))
        with contextlib.suppress(OSError):
            os.rmdir(self._directory(project))

    def _directory(self, project: str) -> str:
        return os.path.join(self.repository, PREFIX, project)

    def _read(self, path: str) -> str:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return _commit(os.read(descriptor, 64))
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            self.unread = error
            return ""

    def _read_packed(self) -> dict[str, dict[str, str]]:
        try:
            status = os.stat(self._packed_path)
        except FileNotFoundError:
            self._packed, self._seen = {}, None
            return self._packed
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            packed: dict[str, dict[str, str]] = {}
            with open(self._packed_path, "rb") as file:
                for line in file:
                    commit, _, name = line.decode("utf-8", "replace").rstrip("\n").partition(" ")
                    parts = name.split("/")
                    if len(parts) == 4 and name.startswith(PREFIX + "/") and _commit(commit.encode()):
                        packed.setdefault(parts[2], {})[parts[3]] = commit
            self._packed, self._seen = packed, seen
        return self._packed

    def _rewrite_packed(self, gone: set[str]) -> None:
        """Write `packed-refs` again without some refs, under git's own lock file."""
        lock = self._packed_path + ".lock"
        deadline = time.monotonic() + 10
        while True:
            try:
                descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                break
            except FileExistsError:
                sweep_stale_lock(lock)
                if time.monotonic() > deadline:
                    raise RefsLocked(lock) from None
                time.sleep(0.02)
        try:
            try:
                kept = []
                with open(self._packed_path, "rb") as file:
                    skip = False
                    for line in file:
                        if not line.startswith(b"^"):
                            skip = line.decode("utf-8", "replace").rstrip("\n").partition(" ")[2] in gone
                        if not skip:
                            kept.append(line)
                write_all(descriptor, b"".join(kept))
                sync_file(descriptor)
            finally:
                os.close(descriptor)
            os.rename(lock, self._packed_path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(lock)
            raise
        fsync_directory(self.repository)


def sweep_stale_lock(path: str) -> bool:
    """Remove a lock file of git's that no process can still be holding; True when it is gone.

    Git writes nothing into its lock files that would name their owner, and holds none of these for
    longer than it takes to write a file, so age is the only witness there is.
    """
    try:
        age = time.time() - os.lstat(path).st_mtime
        if age > STALE or age < -STALE:
            os.unlink(path)
            return True
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False


def _commit(data: bytes) -> str:
    text = data.strip().decode("ascii", "replace")
    return text if len(text) == 40 and _HEX.issuperset(text) else ""


# Gathering refs in git's `packed-refs`: a ref of its own takes a block of the disk for 41 bytes. Refs
# are made once and never moved, so a ref that is in both places is the same in both. The packed file is
# whole and durable under its name before a single loose one is removed.

#: Fewer loose refs than this are not worth it.
_ENOUGH = 32


def pack_refs(refs: Refs, at_least: int = _ENOUGH) -> int:
    """Move loose refs of ours into `packed-refs`; returns how many. The caller holds the maintenance lock.

    Where another process is writing that file, nothing is done and 0 returned.
    """
    loose = _loose_refs(refs.repository)
    if len(loose) < at_least:
        return 0
    path = os.path.join(refs.repository, "packed-refs")
    lock = path + ".lock"
    sweep_stale_lock(lock)
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return 0
    try:
        try:
            packed = _packed_lines(path)
            packed.update({name: [f"{commit} {name}"] for name, commit in loose.items()})
            lines = ["# pack-refs with: peeled fully-peeled sorted "]
            for name in sorted(packed, key=os.fsencode):
                lines += packed[name]
            write_all(descriptor, ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        os.rename(lock, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(lock)
        raise
    fsync_directory(refs.repository)
    for name in loose:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(refs.repository, name))
    # Directories of projects stay: a take that is about to rename its ref into one must find it.
    return len(loose)


def _loose_refs(repository: str) -> dict[str, str]:
    found = {}
    refs = Refs(repository)
    with contextlib.suppress(OSError):
        for project in os.listdir(os.path.join(repository, PREFIX)):
            place = os.path.join(repository, PREFIX, project)
            with contextlib.suppress(OSError):
                names = [name for name in os.listdir(place) if "." not in name]
                for name in names:
                    commit = refs.get(project, name)
                    if commit:
                        found[f"{PREFIX}/{project}/{name}"] = commit
    return found


def _packed_lines(path: str) -> dict[str, list[str]]:
    """Ref -> its line, and the line of what it stands for if there is one."""
    found: dict[str, list[str]] = {}
    last = ""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            for line in file.read().splitlines():
                if line.startswith("#") or (" " not in line and not line.startswith("^")):
                    continue
                if line.startswith("^"):
                    if last:
                        found[last].append(line)
                    continue
                last = line.partition(" ")[2]
                found[last] = [line]
    except FileNotFoundError:
        pass
    return found
