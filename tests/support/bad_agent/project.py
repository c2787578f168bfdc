"""The project that the bad agent is let loose on: everything awkward that a real one holds, from a seed.

`look` reads it independently of anything of ours, to the last bit, mode and nanosecond.
"""

from __future__ import annotations

import functools
import hashlib
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable

from support.home.database_holder import Holder
from support.projects.checkpoints import put

Facts = dict[str, tuple[object, ...]]

LIVE = "data/live.db"
SIDECARS = (f"{LIVE}-wal", f"{LIVE}-shm")
#: What no checkpoint of this project holds unless a tool names it: git's own data, secrets, what is ignored.
NEVER_SAVED = (".git", "vendor/lib/.git", "vendor/new/.git", ".env", "build", "notes.tmp", *SIDECARS)

_LIVE_ROWS = (
    "pragma journal_mode=wal",
    "create table if not exists notes(id integer primary key, text)",
    "insert or ignore into notes values (1, 'first'), (2, 'second'), (3, 'third')",
)


@functools.cache
def _template() -> tempfile.TemporaryDirectory[str]:
    made = tempfile.TemporaryDirectory(prefix="safekept-bad-project-")
    _make(made.name)
    return made


def make_project(place: str) -> str:
    """A committed, staged, dirty and untracked project, and what lies outside of it, in `place`."""
    subprocess.run(["cp", "-a", f"{_template().name}/.", place], check=True)
    return os.path.join(place, "project")


def _make(place: str, seed: int = 7) -> str:
    chance = random.Random(seed)
    project, outside = os.path.join(place, "project"), os.path.join(place, "outside")

    def text(lines: int) -> str:
        return "".join(f"value_{chance.randrange(1000)} = {chance.random()}\n" for _ in range(lines))

    put(f"{outside}/theirs.txt", "not of the project\n")
    put(f"{project}/pyproject.toml", '[project]\nname = "victim"\n')
    put(f"{project}/.gitignore", "notes.tmp\n/local/\n")
    put(f"{project}/.gitattributes", "*.txt text eol=lf\n*.dat filter=none ident\n")
    put(f"{project}/README.md", "# Victim\n\nold words\n")
    for name in ("app", "util", "model", "view", "deep/inner/leaf"):
        put(f"{project}/src/{name}.py", f"# {name}\nold = 1\n" + text(30))
    put(f"{project}/src/crlf.txt", b"one\r\ntwo\r\nold\r\n")
    put(f"{project}/src/mixed.txt", b"one\r\ntwo\nold\r\n")
    put(f"{project}/assets/logo.bin", chance.randbytes(64_000))
    put(f"{project}/assets/large.bin", chance.randbytes(2_000_000))
    put(f"{project}/assets/id.dat", b"$Id: keep me $\n")
    put(f"{project}/private.txt", "for me\n", 0o600)
    put(f"{project}/run.sh", "#!/bin/sh\necho old\n", 0o755)
    put(f"{project}/locked/read only.txt", "do not touch\n", 0o444)
    os.chmod(f"{project}/locked", 0o750)
    for name in ("na me.txt", "naïve-日本.txt", "new\nline.txt", "-dash.txt", os.fsdecode(b"bytes-\xff.txt")):
        put(f"{project}/names/{name}", f"old {len(name)}\n")
    for number in range(150):
        put(f"{project}/generated/part{number // 30}/gen_{number:03}.json", f'{{"old": {number}}}\n')
    _databases(project)
    _repositories(project)
    _links(project, outside)
    put(f"{project}/build/out.js", "compiled\n")
    put(f"{project}/notes.tmp", "ignored, and somebody's only copy\n")
    put(f"{project}/.env", "KEY=secret\n", 0o600)
    put(f"{project}/src/untracked.py", "old = 'never committed'\n")
    for empty in ("empty", "hollow/deep/er"):
        os.makedirs(f"{project}/{empty}")
    os.chmod(f"{project}/empty", 0o711)
    _tarball(outside)
    _settle(project, chance)
    return project


def _databases(project: str) -> None:
    os.makedirs(f"{project}/data")
    for name in ("rest.db", "live.db"):
        connection = sqlite3.connect(f"{project}/data/{name}")
        with connection:
            connection.execute("create table notes(id integer primary key, text)")
            connection.executemany(
                "insert into notes(text) values (?)", [("first",), ("second",), ("third",)]
            )
        connection.close()


def _repositories(project: str) -> None:
    put(f"{project}/vendor/lib/code.c", "int old;\n")
    put(f"{project}/vendor/new/fresh.c", "int young;\n")
    for place, commits in (("vendor/lib", True), ("vendor/new", False), ("", True)):
        full = os.path.join(project, place)
        git(full, "init", "-q")
        git(full, "config", "user.name", "t")
        git(full, "config", "user.email", "t@localhost")
        if commits:
            git(
                full,
                "add",
                *(["."] if place else ["*.md", "*.toml", ".gitignore", "src", "assets", "run.sh"]),
            )
            git(full, "commit", "-qm", "all")
    put(f"{project}/vendor/lib/code.c", "int dirty;\n")
    put(f"{project}/src/util.py", "old = 'dirty, and nowhere else'\n")
    put(f"{project}/src/staged.py", "old = 'staged'\n")
    git(project, "add", "src/staged.py")


def _links(project: str, outside: str) -> None:
    os.makedirs(f"{project}/links")
    os.symlink("../src/app.py", f"{project}/links/in")
    os.symlink("../src", f"{project}/links/directory")
    os.symlink(f"{outside}/theirs.txt", f"{project}/links/out")
    os.symlink("nowhere", f"{project}/links/dangling")


def _tarball(outside: str) -> None:
    """What `tar x` lays over the tree: other bytes, modes and a new directory."""
    with tempfile.TemporaryDirectory() as scratch:
        put(f"{scratch}/src/app.py", "unpacked = 1\n", 0o640)
        put(f"{scratch}/README.md", "unpacked\n")
        put(f"{scratch}/unpacked/new.py", "unpacked = 2\n")
        os.makedirs(f"{scratch}/empty/no-more")
        with tarfile.open(f"{outside}/over.tar", "w") as archive:
            archive.add(scratch, ".")


def _settle(project: str, chance: random.Random) -> None:
    """Odd times in the past, nanoseconds and all, children first."""
    base = 1_700_000_000_000_000_000
    for directory, folders, files in os.walk(project, topdown=False):
        if "/.git" in directory:
            continue
        for name in sorted([*files, *folders]):
            if name != ".git":
                moment = base + chance.randrange(10**16)
                os.utime(os.path.join(directory, name), ns=(moment, moment), follow_symlinks=False)
    os.utime(project, ns=(base, base))


def git(place: str, *words: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": place, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", place, *words], check=True, capture_output=True, env=environment)


def hold(project: str) -> Holder:
    """A program that has the live database open, with everything it wrote still in its log."""
    return Holder(os.path.join(project, LIVE), *_LIVE_ROWS)


def look(project: str) -> Facts:
    """Every path with kind, mode, time and content; the project's own directory is `.`.

    The live database is known by its rows; its log and map are nobody's business.
    """
    found: Facts = {}
    if not os.path.lexists(project):
        return found
    found["."] = _facts(project, project)
    for directory, folders, files in os.walk(project):
        for name in [*folders, *files]:
            full = os.path.join(directory, name)
            path = os.path.relpath(full, project)
            if path not in SIDECARS:
                found[path] = _facts(full, project)
    return found


def _facts(full: str, project: str) -> tuple[object, ...]:
    status = os.lstat(full)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return "link", os.readlink(full), status.st_mtime_ns
    if stat.S_ISDIR(status.st_mode):
        return "directory", mode, status.st_mtime_ns
    if not stat.S_ISREG(status.st_mode):
        return "special", mode
    if os.path.relpath(full, project) == LIVE:
        return "database", mode, rows_of(full)
    with open(full, "rb") as file:
        return "file", mode, status.st_mtime_ns, hashlib.sha256(file.read()).hexdigest()


def rows_of(database: str) -> tuple[object, ...]:
    """What the table holds, read from a copy, so that nobody's locks or log are disturbed."""
    with tempfile.TemporaryDirectory() as scratch:
        for end in ("", "-wal"):
            if os.path.exists(database + end):
                shutil.copyfile(database + end, f"{scratch}/copy.db{end}")
        connection = sqlite3.connect(f"{scratch}/copy.db")
        try:
            return tuple(connection.execute("select id, text from notes order by id"))
        except sqlite3.DatabaseError as error:
            return ("broken", str(error))
        finally:
            connection.close()


def differing(one: Facts, other: Facts) -> dict[str, tuple[object, object]]:
    return {
        path: (one.get(path), other.get(path))
        for path in sorted(one.keys() | other.keys())
        if one.get(path) != other.get(path)
    }


def below(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)
