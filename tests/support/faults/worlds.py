"""Small throwaway worlds for commands that meet a fault: a user, a home, a vault, a project, a destination.

A world is made once and copied for each fault, always to the same place, since stores remember paths.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import tempfile

from support.commands.warm_commands import Said, WarmCommands
from support.home.homes import SIDECARS, is_sqlite, make_chat_database, prose
from support.keeper.keepers import RunningKeeper
from support.vault.closed import open_below

#: Where a landing keeps what it replaced when it cannot do so beside the home; not of the home itself.
AREA = ".safekept"
Facts = dict[str, tuple[object, ...]]


class World:
    """A directory with everything that a command can touch in it, and short words for what is there."""

    def __init__(self, base: str, run: WarmCommands, keeper: RunningKeeper | None = None) -> None:
        self.root = os.path.join(os.path.realpath(base), "world")
        self.user = os.path.join(self.root, "user")
        self.home = os.path.join(self.user, ".hermes")
        self.data = os.path.join(self.user, ".local", "share", "safekept")
        self.vault = os.path.join(self.data, "vault")
        self.project = os.path.join(self.root, "project")
        self.out = os.path.join(self.root, "out")
        self.copy = os.path.join(self.root, "copy")
        self.scratch = os.path.join(self.root, "tmp")
        self._kept = os.path.join(os.path.realpath(base), "kept")
        self._run = run
        #: Of this machine, for the command that meets the fault; those that judge it do without.
        self.keeper = keeper
        #: What is known of the world as it was made: trees to compare with, ids, by name.
        self.known: dict[str, Facts] = {}
        self.ids: dict[str, str] = {}
        for path in (self.user, self.project, self.out, self.copy, self.scratch):
            os.makedirs(path)

    @property
    def environment(self) -> dict[str, str]:
        keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"HOME": self.user, "TMPDIR": self.scratch, "NO_COLOR": "1", "PYTHONUTF8": "1"}
        return {**keep, **own, "SAFEKEPT_HELPER": "0", "SAFEKEPT_KEEPER_SOCKET": ""}

    @property
    def with_keeper(self) -> dict[str, str]:
        socket = self.keeper.socket if self.keeper else ""
        return {**self.environment, "SAFEKEPT_KEEPER_SOCKET": socket}

    def done(self, *words: str) -> Said:
        """A command that must work now."""
        said = self._run(list(words), self.environment, self.project)
        if said.code:
            raise AssertionError(
                f"`{' '.join(words)}` ended {said.code}: {said.out[-1500:]}{said.err[-1500:]}"
            )
        return said

    def keep(self) -> None:
        """This is the world that every fault begins with."""
        _copy(self.root, self._kept)

    def begin(self) -> None:
        remove(self.root)
        _copy(self._kept, self.root)

    def forget(self) -> None:
        remove(self._kept)

    # ── the home ───────────────────────────────────────────────────────────────────────────────────

    def make_home(self) -> None:
        """A home with one of each: text, secret, script, link, empty directory, database, larger file."""
        rng = random.Random(3)
        self.write("SOUL.md", "# Soul\n\nCalm and exact.\n")
        self.write("config.yaml", "model:\n  default: some/model\n")
        self.write(".env", "OPENROUTER_API_KEY=not-a-key\n", 0o600)
        self.write("memories/MEMORY.md", prose(rng, 40))
        self.write("skills/bread/SKILL.md", "---\nname: bread\n---\n\n" + prose(rng, 60))
        self.write("skills/bread/scripts/bake.sh", "#!/bin/sh\necho baked\n", 0o755)
        self.write("sessions/one.jsonl", '{"role": "user", "content": "hello"}\n')
        self.write("skills/bread/noise.bin", rng.randbytes(200_000))
        os.mkdir(os.path.join(self.home, "hooks"))
        os.symlink("bread", os.path.join(self.home, "skills", "latest"))
        make_chat_database(os.path.join(self.home, "state.db"), rng, sessions=2, messages=8)
        self.known["first"] = facts(self.home)

    def change_home(self) -> None:
        """What an agent did since: a file changed, one is new, one is gone, a message more."""
        self.write("SOUL.md", "# Soul\n\nHijacked.\n")
        self.write("memories/USER.md", "Likes bread.\n")
        self.write("skills/stone/SKILL.md", "---\nname: stone\n---\n")
        os.unlink(os.path.join(self.home, "sessions", "one.jsonl"))
        os.chmod(os.path.join(self.home, "skills", "bread", "scripts", "bake.sh"), 0o700)
        with contextlib.closing(sqlite3.connect(os.path.join(self.home, "state.db"))) as connection:
            connection.execute(
                "insert into messages(session_id, role, content, timestamp)"
                " values ('session-0', 'user', 'x', 1)"
            )
            connection.commit()
        self.known["second"] = facts(self.home)

    def write(self, name: str, data: str | bytes, mode: int = 0o644, base: str = "") -> None:
        path = os.path.join(base or self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        os.chmod(path, mode)

    # ── the project ────────────────────────────────────────────────────────────────────────────────

    def make_project(self) -> None:
        subprocess.run(["git", "init", "-q", "--template=", self.project], check=True, env=self.environment)
        self.write("src/main.py", "print('hello')\n", base=self.project)
        self.write("run.sh", "#!/bin/sh\n", 0o755, base=self.project)
        self.write("notes/todo.md", "bread\n", base=self.project)
        self.write("noise.bin", random.Random(4).randbytes(100_000), base=self.project)
        os.symlink("main.py", os.path.join(self.project, "src", "link.py"))
        self.known["project-first"] = facts(self.project)

    def change_project(self) -> None:
        self.write("src/main.py", "print('broken')\n", base=self.project)
        self.write("src/new/module.py", "x = 1\n", base=self.project)
        self.write("noise.bin", random.Random(5).randbytes(50_000), base=self.project)
        os.chmod(os.path.join(self.project, "run.sh"), 0o644)
        os.unlink(os.path.join(self.project, "notes", "todo.md"))
        os.rmdir(os.path.join(self.project, "notes"))
        self.known["project-second"] = facts(self.project)

    def make_hidden(self) -> None:
        """A project of which half is hidden: a secret, ignored files, a database."""
        self.write(".gitignore", "data/\n", base=self.project)
        self.write(".env", "TOKEN=first\n", 0o600, base=self.project)
        self.write("data/notes/one.txt", "one\n", base=self.project)
        os.symlink("notes/one.txt", os.path.join(self.project, "data", "link"))
        self._rows("create table t (x); insert into t values (1), (2)")
        self.make_project()

    def change_hidden(self) -> None:
        self.write(".env", "TOKEN=second\n", 0o644, base=self.project)
        self.write("data/new.txt", "new\n", base=self.project)
        shutil.rmtree(os.path.join(self.project, "data", "notes"))
        self._rows("insert into t values (3)")
        self.change_project()

    def _rows(self, script: str) -> None:
        with contextlib.closing(sqlite3.connect(os.path.join(self.project, "data", "app.db"))) as connection:
            connection.executescript(script)

    # ── looking ────────────────────────────────────────────────────────────────────────────────────

    def same(self, what: str, now: Facts, name: str) -> None:
        """Nothing differs from what is known by that name, but for the times of directories."""
        lines = different(self.known[name], now)
        assert not lines, f"{what} is not as {name}: {lines[:6]}"


def remove(place: str) -> None:
    """A world goes, closed stores and all."""
    if os.path.isdir(place):
        shutil.rmtree(open_below(place), ignore_errors=True)


def _copy(source: str, target: str) -> None:
    subprocess.run(["cp", "-a", "--", source, target], check=True)


def facts(root: str) -> Facts:
    """Everything below a directory: kind, mode, and time with content; of databases, their rows."""
    found: Facts = {}
    for directory, names, files in os.walk(root):
        if directory == root and AREA in names:
            names.remove(AREA)
        for name in [*names, *files]:
            path = os.path.join(directory, name)
            seen = os.lstat(path)
            mode = stat.S_IMODE(seen.st_mode)
            key = os.path.relpath(path, root)
            if stat.S_ISLNK(seen.st_mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISDIR(seen.st_mode):
                found[key] = ("directory", mode)
            elif is_sqlite(path):
                found[key] = ("database", mode, rows(path))
            elif not (name.endswith(SIDECARS) and is_sqlite(path.rpartition("-")[0])):
                with open(path, "rb") as file:
                    digest = hashlib.sha256(file.read()).hexdigest()
                found[key] = ("file", mode, seen.st_mtime_ns, seen.st_size, digest)
    return found


def rows(path: str) -> str:
    """A digest of every row of a database; the search indexes are made anew and only have to answer."""
    with tempfile.TemporaryDirectory(prefix="safekept-rows-") as scratch:
        copy = os.path.join(scratch, "copy.db")
        for suffix in ("", "-wal"):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, copy + suffix)
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)], path
            names = [
                name
                for (name,) in connection.execute(
                    "select name from sqlite_master where type = 'table' and rootpage > 0 order by 1"
                )
            ]
            digest = hashlib.sha256()
            for name in names:
                if "_fts" not in name:
                    digest.update(
                        repr((name, sorted(connection.execute(f'select * from "{name}"')))).encode()
                    )
            if "messages" in names:
                counts = [
                    connection.execute(f"select count(*) from {table} where {where}").fetchone()
                    for table, where in (
                        ("messages", "content like '%bread%'"),
                        ("messages_fts", "messages_fts match 'bread'"),
                        ("messages_fts_trigram", "messages_fts_trigram match 'bread'"),
                    )
                ]
                assert len(set(counts)) == 1, f"the search of {path} answers {counts}"
            return digest.hexdigest()


def different(before: Facts, after: Facts) -> list[str]:
    lines = [f"missing: {name}" for name in sorted(before.keys() - after.keys())]
    lines += [f"extra: {name}" for name in sorted(after.keys() - before.keys())]
    shared = sorted(before.keys() & after.keys())
    return lines + [
        f"{name}: {before[name]} -> {after[name]}" for name in shared if before[name] != after[name]
    ]
