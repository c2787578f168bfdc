"""What the tests of the landing share: sources out of plain words, exact facts of a tree, kills."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sqlite3
import stat
import sys
import traceback
from collections.abc import Callable, Iterator

from safekept.core.entries import BytesContent, Entry, Kind
from safekept.home.landing import Landed, LandingPlan, Targets, land, plan_landing
from safekept.home.layout.layout import load_layouts
from support.home.entry_list import EntryList

LAYOUT = load_layouts()["hermes"]
TIME = 1_700_000_000_123_456_789


def file(
    path: str,
    data: bytes | str = b"",
    mode: int = 0o644,
    mtime_ns: int = TIME,
    *,
    hashed: bool = True,
    **facts: object,
) -> Entry:
    content = data.encode() if isinstance(data, str) else data
    return Entry(
        path,
        Kind.FILE,
        mode,
        mtime_ns,
        len(content),
        sha256=hashlib.sha256(content).hexdigest() if hashed else "",
        open=lambda: BytesContent(content, mtime_ns),
        **facts,
    )


def directory(path: str, mode: int = 0o755, mtime_ns: int = TIME) -> Entry:
    return Entry(path, Kind.DIRECTORY, mode, mtime_ns)


def symlink(path: str, target: str, mtime_ns: int = TIME) -> Entry:
    return Entry(path, Kind.SYMLINK, 0o777, mtime_ns, target=target)


def plan(
    home: str, entries: list[Entry], external: dict[str, str] | None = None, **options: object
) -> LandingPlan:
    return plan_landing(EntryList(entries), Targets(home, external or {}), LAYOUT, **options)


def landed(
    home: str,
    entries: list[Entry],
    external: dict[str, str] | None = None,
    *,
    operation: str = "op-1",
    ordered: bool = False,
    allow_damaged: bool = False,
    deadline: float = 5.0,
    **options: object,
) -> Landed:
    """Plan and land in one go."""
    source = EntryList(entries, ordered=ordered)
    made = plan_landing(source, Targets(home, external or {}), LAYOUT, **options)
    return land(source, made, operation=operation, allow_damaged=allow_damaged, deadline=deadline)


def write(path: str, data: bytes | str = b"", mode: int = 0o644, mtime_ns: int = TIME) -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as target:
        target.write(data.encode() if isinstance(data, str) else data)
    os.chmod(path, mode)
    os.utime(path, ns=(mtime_ns, mtime_ns))
    return path


def read(path: str) -> bytes:
    with open(path, "rb") as source:
        return source.read()


def facts(root: str, skip: tuple[str, ...] = (".safekept",)) -> dict[str, tuple[object, ...]]:
    """Everything about a tree, to the byte and the nanosecond, links and sidecars included."""
    found: dict[str, tuple[object, ...]] = {}
    if not os.path.lexists(root):
        return found
    stack = [""]
    while stack:
        path = stack.pop()
        full = os.path.join(root, path) if path else root
        info = os.lstat(full)
        mode, moment = stat.S_IMODE(info.st_mode), info.st_mtime_ns
        if stat.S_ISDIR(info.st_mode):
            found[path] = ("directory", mode, moment)
            stack.extend(
                os.path.join(path, name) for name in os.listdir(full) if os.path.join(path, name) not in skip
            )
        elif stat.S_ISLNK(info.st_mode):
            found[path] = ("symlink", os.readlink(full), moment)
        elif stat.S_ISREG(info.st_mode):
            data = read(full)
            found[path] = ("file", mode, moment, len(data), hashlib.sha256(data).hexdigest()[:16])
        else:
            found[path] = ("special", stat.S_IFMT(info.st_mode))
    return found


def database(path: str, rows: int = 10, *, text: str = "old", log: int = 0, journal: str = "wal") -> str:
    """A database at rest; with `log` so many rows are only in its write-ahead log, as after a crash."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"pragma journal_mode={journal}")
        connection.execute("create table if not exists notes(id integer primary key, text)")
        connection.executemany("insert into notes(text) values (?)", [(f"{text} {n}",) for n in range(rows)])
    if log:
        child = os.fork()
        if not child:
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("pragma wal_autocheckpoint=0")
            connection.executemany(
                "insert into notes(text) values (?)", [(f"{text} log {n}",) for n in range(log)]
            )
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
    return path


def database_bytes(directory: str, rows: int = 20, text: str = "new") -> bytes:
    path = os.path.join(directory, f"made-{text}-{rows}.db")
    if not os.path.exists(path):
        database(path, rows, text=text, journal="delete")
    return read(path)


def texts(path: str) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in connection.execute("select text from notes order by id")]


@contextlib.contextmanager
def holding(path: str, statement: str = "") -> Iterator[int]:
    """Another process that has the database open, in a transaction if asked."""
    ready, tell = os.pipe()
    wait, stop = os.pipe()
    child = os.fork()
    if not child:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("pragma schema_version").fetchone()  # a damaged one can be held, too
        if statement:
            connection.execute(statement)
        os.write(tell, b"x")
        os.close(stop)
        os.read(wait, 1)
        os._exit(0)
    os.read(ready, 1)
    try:
        yield child
    finally:
        for descriptor in (ready, tell, wait, stop):
            os.close(descriptor)
        os.waitpid(child, 0)


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """As somebody who is not root, where we are."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


_CHANGES = {
    "os.rename",
    "os.link",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.chmod",
    "os.utime",
    "os.symlink",
    "os.truncate",
    "os.chown",
}


def killed_at(step: int, work: Callable[[], object]) -> int:
    """Do `work` in a child that kills itself with SIGKILL at its Nth change of the filesystem.

    Returns -1 where it was killed, else the number of changes that the whole work took.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _child(step, work, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return -1
    assert os.WEXITSTATUS(status) == 0, said.decode()
    return int(said)


def _child(step: int, work: Callable[[], object], writer: int) -> None:
    done = 0

    def change() -> None:
        nonlocal done
        done += 1
        if done == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        flags = arguments[2] if event == "open" else 0
        if event in _CHANGES or (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)):
            change()

    real_write = os.write
    for name in ("write", "fsync"):

        def counted(*arguments: object, _real: Callable[..., object] = getattr(os, name)) -> object:
            change()
            return _real(*arguments)

        setattr(os, name, counted)
    sys.addaudithook(hook)
    try:
        work()
        real_write(writer, str(done).encode())
        os._exit(0)
    except BaseException:
        real_write(writer, traceback.format_exc().encode())
        os._exit(1)
