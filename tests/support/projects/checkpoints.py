"""What checkpoint tests share: a project as it lies, and plain git's opinion of a store."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable

from safekept.checkpoints.store.store import Store


def tree_on_disk(project: str, *, without: tuple[str, ...] = (".git",)) -> dict[str, tuple[object, ...]]:
    """Every path with its kind, mode, time, size and git's name for its content, read independently."""
    found: dict[str, tuple[object, ...]] = {}
    for directory, folders, files in os.walk(project):
        folders[:] = [name for name in folders if name not in without]
        for name in [*folders, *files]:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            relative = os.path.relpath(path, project)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                content = os.fsencode(os.readlink(path))
                found[relative] = ("symlink", mode, status.st_mtime_ns, len(content), blob_name(content))
            elif stat.S_ISDIR(status.st_mode):
                found[relative] = ("directory", mode, status.st_mtime_ns, 0, "")
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
                found[relative] = ("file", mode, status.st_mtime_ns, len(content), blob_name(content))
    return found


def tree_in_store(store: Store, checkpoint: object) -> dict[str, tuple[object, ...]]:
    state = store.state(checkpoint)  # type: ignore[arg-type]
    return {path: (item.kind, item.mode, item.mtime_ns, item.size, item.oid) for path, item in state.items()}


def contents_in_store(store: Store, checkpoint: object) -> dict[str, bytes]:
    state = store.state(checkpoint)  # type: ignore[arg-type]
    return {path: store.read(item.oid) for path, item in state.items() if item.kind == "file"}


def blob_name(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def run_plain_git(store: Store | str, *words: str) -> subprocess.CompletedProcess[bytes]:
    place = store if isinstance(store, str) else store.repository
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    return subprocess.run(
        ["git", "--git-dir", place, *words], env=environment, capture_output=True, cwd="/", check=False
    )


def fsck(store: Store | str) -> None:
    """Plain git finds nothing wrong with the store."""
    done = run_plain_git(store, "fsck", "--strict", "--full", "--no-dangling")
    said = [line for line in done.stderr.decode().splitlines() if not line.startswith("notice:")]
    complaints = f"{done.returncode} {done.stdout!r} {said}"
    assert complaints == "0 b'' []", complaints


def put(path: str, content: bytes | str = b"", mode: int | None = None) -> str:
    """Write a file, with the directories it needs."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    if mode is not None:
        os.chmod(path, mode)
    return path


def settle(project: str) -> None:
    """Make every file look old, so that no pass reads it again for being fresh."""
    # Change times cannot be set; only waiting for the clock's tick makes a file settled.
    time.sleep(0.03)


def killed_at(step: int, work: Callable[[], None]) -> int:
    """Run `work` in a fork that kills itself at its Nth change of the filesystem.

    Returns how many steps were done, or -1 when it was killed.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reading)
            done = 0

            def count() -> None:
                nonlocal done
                done += 1
                if done == step:
                    os.kill(os.getpid(), signal.SIGKILL)

            def hook(event: str, arguments: tuple[object, ...]) -> None:
                if event in _CHANGES or (
                    event == "open"
                    and isinstance(arguments[2], int)
                    and arguments[2] & (os.O_WRONLY | os.O_RDWR)
                ):
                    count()

            for name in ("write", "pwrite", "fsync", "ftruncate"):
                setattr(os, name, _counted(getattr(os, name), count))
            sys.addaudithook(hook)
            work()
            step = 0
            os.write(writing, str(done).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    try:
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return -1
        assert os.WEXITSTATUS(status) == 0, "the work failed by itself"
        return int(os.read(reading, 20))
    finally:
        os.close(reading)


_CHANGES = {
    "os.rename",
    "os.link",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.chmod",
    "os.utime",
    "os.truncate",
}


def _counted(real: Callable[..., object], count: Callable[[], None]) -> Callable[..., object]:
    def wrapped(*arguments: object, **options: object) -> object:
        count()
        return real(*arguments, **options)

    return wrapped
