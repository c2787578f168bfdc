"""Makers of realistic homes, and ways to compare what came back with what was there.

Everything is seeded: the same arguments give the same bytes. The homes hold on purpose what has
gone wrong in the field: nested directories with names that look like junk, links, early dates,
sockets, foreign databases, a database in write-ahead mode.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import random
import shutil
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import Self

from support.platforms.needs import where_the_disk_can

#: A day in 2026, in nanoseconds; every file of a made home gets a time of its own near it.
EPOCH_NS = 1_782_000_000_123_456_789

VOCABULARY = (
    "agent memory session restore archive message garden kettle letter window river number quiet answer "
    "question project branch commit deploy server client python function return value error fixed later "
    "please remember that the user prefers short replies and works mostly in the evening from Lisbon "
    "schedule reminder token budget weather train ticket invoice doctor recipe bread salt water stone"
).split()

SCHEMA = """
create table schema_version (version integer not null);
insert into schema_version values (22);
create table sessions (
    id text primary key, source text not null, user_id text, model text, title text, parent_session_id text,
    started_at real not null, ended_at real, message_count integer default 0,
    archived integer not null default 0, foreign key (parent_session_id) references sessions(id)
);
create table messages (
    id integer primary key autoincrement, session_id text not null references sessions(id),
    role text not null, content text, tool_call_id text, tool_calls text, tool_name text,
    timestamp real not null, token_count integer, active integer not null default 1
);
create index idx_messages_session on messages(session_id, timestamp);
create table state_meta (key text primary key, value text);
create virtual table messages_fts using fts5(content);
create virtual table messages_fts_trigram using fts5(content, tokenize='trigram');
create trigger messages_fts_insert after insert on messages begin
    insert into messages_fts(rowid, content) values (new.id, coalesce(new.content, ''));
end;
create trigger messages_fts_trigram_insert after insert on messages begin
    insert into messages_fts_trigram(rowid, content) values (new.id, coalesce(new.content, ''));
end;
create trigger messages_fts_delete after delete on messages begin
    delete from messages_fts where rowid = old.id;
end;
create trigger messages_fts_trigram_delete after delete on messages begin
    delete from messages_fts_trigram where rowid = old.id;
end;
"""


def prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(VOCABULARY, k=words))


def make_hermes_home(
    path: str,
    *,
    seed: int = 1,
    scale: int = 1,
    profiles: tuple[str, ...] = ("coder",),
    awkward: bool = True,
    hermes_python: str = "",
) -> str:
    """Make a Hermes home. `scale` multiplies messages and skills; `awkward` adds what is no plain file.

    With `hermes_python`, the chat databases are made by the real Hermes; otherwise by a schema of
    the same shape. Databases are in write-ahead mode and closed.

    A small one is made once in a process, and copied from then on.
    """
    if scale > 1 or (os.path.isdir(path) and os.listdir(path)):
        return _make_hermes_home(path, seed, scale, profiles, awkward, hermes_python)
    pattern = _pattern(seed, profiles, awkward, hermes_python)
    if (
        os.stat(os.path.dirname(pattern)).st_uid != os.geteuid()
    ):  # made before this process became somebody else
        return _make_hermes_home(path, seed, scale, profiles, awkward, hermes_python)
    os.makedirs(path, exist_ok=True)
    subprocess.run(["cp", "-a", os.path.join(pattern, "."), path], check=True)
    return path


@functools.cache
def _pattern(seed: int, profiles: tuple[str, ...], awkward: bool, hermes_python: str) -> str:
    """A home to be copied; it goes when this process goes."""
    place = tempfile.mkdtemp(prefix="safekept-pattern-")
    maker = os.getpid()
    atexit.register(lambda: os.getpid() == maker and shutil.rmtree(place, ignore_errors=True))
    path = os.path.join(place, "home")
    os.mkdir(path)
    return _make_hermes_home(path, seed, 1, profiles, awkward, hermes_python)


def _make_hermes_home(
    path: str, seed: int, scale: int, profiles: tuple[str, ...], awkward: bool, hermes_python: str
) -> str:
    rng = random.Random(seed)
    os.makedirs(path, exist_ok=True)
    _one_home(path, rng, scale, hermes_python)
    for name in profiles:
        profile = os.path.join(path, "profiles", name)
        _one_home(profile, rng, scale, hermes_python)
        _write(profile, "profile.yaml", f"name: {name}\ndescription: writes code\n")
    if awkward:
        _awkward(path, rng)
    _settle_times(path)
    return path


def _one_home(home: str, rng: random.Random, scale: int, hermes_python: str) -> None:
    settings = "model:\n  provider: openrouter\n  default: some/model\nmemory:\n  memory_enabled: true\n"
    _write(home, "config.yaml", settings + "checkpoints:\n  enabled: false\nagent:\n  max_turns: 90\n")
    _write(home, ".env", f"OPENROUTER_API_KEY=not-a-key-{rng.getrandbits(64):016x}\n", 0o600)
    _write(
        home, "auth.json", json.dumps({"version": 1, "providers": {"nous": {"token": "not-a-token"}}}), 0o600
    )
    _write(home, "SOUL.md", f"# Soul\n\nCalm and exact. {prose(rng, 60)}\n")
    for name in ("MEMORY.md", "USER.md"):
        entries = [prose(rng, 14) for _ in range(6 * scale)]
        _write(home, f"memories/{name}", "\n§\n".join(entries) + "\n")
    for number in range(3 * scale):
        skill = f"skills/{rng.choice(VOCABULARY).lower()}-{number}"
        _write(home, f"{skill}/SKILL.md", f"---\nname: skill {number}\n---\n\n{prose(rng, 120)}\n")
        _write(home, f"{skill}/scripts/run.sh", f"#!/bin/sh\necho {rng.choice(VOCABULARY)}\n", 0o755)
    # A bare name at any depth is no reason to leave something out.
    _write(home, "skills/autonomous-ai-agents/hermes-agent/SKILL.md", "---\nname: hermes-agent\n---\n")
    _write(home, "skills/keeper/SKILL.md", "---\nname: keeper\n---\n")
    for name in ("backups", "checkpoints", "venv", ".cache", "site-packages"):
        _write(home, f"skills/keeper/{name}/notes.md", f"kept: {name}\n")
    jobs = [
        {"id": f"job{n}", "name": prose(rng, 3), "schedule": "0 9 * * *", "prompt": prose(rng, 20)}
        for n in range(4)
    ]
    _write(home, "cron/jobs.json", json.dumps({"jobs": jobs}, indent=2))
    _write(home, "cron/output/job0/2026-06-01.md", prose(rng, 200))
    for number in range(3 * scale):
        lines = [json.dumps({"role": "user", "content": prose(rng, 30)}) for _ in range(20)]
        _write(home, f"sessions/session-{number:03}.jsonl", "\n".join(lines) + "\n")
    _write(home, "pairing/telegram-approved.json", json.dumps({"1001": {"name": "ada"}}), 0o600)
    _write(home, "plugins/greeter/plugin.yaml", "name: greeter\nversion: 1\n")
    _write(home, "plugins/greeter/__init__.py", "def register(ctx):\n    pass\n")
    _write(home, "hooks/notify/HOOK.yaml", "name: notify\n")
    _write(home, "hooks/notify/handler.py", "def handle(event):\n    return None\n")
    _write(home, "logs/agent.log", "\n".join(prose(rng, 12) for _ in range(50)))
    make_chat_database(
        os.path.join(home, "state.db"), rng, sessions=4, messages=40 * scale, hermes_python=hermes_python
    )


def _awkward(home: str, rng: random.Random) -> None:
    """What an archiver meets in real homes and must not trip over."""
    _write(home, "gateway_state.json", json.dumps({"gateway_state": "running", "pid": 4121}))
    _write(home, "gateway.pid", "4121\n")
    _write(home, "processes.json", "[]")
    _write(home, "state-snapshots/20260601-000000/manifest.json", "{}")
    _write(home, "backups/pre-update-2026-06-01-000000.zip", "PK not really")
    _write(home, "hermes-agent/pyproject.toml", "[project]\nname = 'hermes-agent'\n")
    _write(home, "tools/real-venv/pyvenv.cfg", "home = /usr/bin\n")
    _write(home, "tools/real-venv/lib/python3.11/site-packages/thing.py", "x = 1\n")
    _write(home, "tools/web/package.json", "{}")
    _write(home, "tools/web/node_modules/left-pad/index.js", "module.exports = 1\n")
    _write(home, "skills/keeper/__pycache__/run.cpython-311.pyc", "compiled")
    _write(home, "skills/keeper/.git/HEAD", "ref: refs/heads/main\n")
    _write(home, "data/empty.bin", "")
    # A BoltDB file: ends in .db, is not SQLite, and is nobody's reason to give up.
    _write_bytes(
        home, "plugins/diun/diun.db", struct.pack("<IIII", 0, 0, 0xED0CDAED, 2) + rng.randbytes(20_000)
    )
    _write_bytes(home, "data/zeros.db", bytes(8192))
    _write_bytes(home, "data/empty.db", b"")
    for name in (
        "what?.md",
        "100%.md",
        "a#b.md",
        "new\nline.md",
        "ünïcödé 日本.md",
        " lead and trail ",
        "-dash",
    ):
        with where_the_disk_can():
            _write(home, f"odd/{name}", f"odd: {name!r}\n")
    with where_the_disk_can():
        _write_bytes(
            os.fsdecode(os.path.join(os.fsencode(home), b"odd")), os.fsdecode(b"raw-\xff\xfe.md"), b"bytes\n"
        )
    os.makedirs(os.path.join(home, "workspace", "empty", "nested"))
    os.chmod(os.path.join(home, "workspace", "empty"), 0o700)
    for target, name in (
        ("SOUL.md", "persona.md"),
        ("../skills", "workspace/skills-link"),
        ("/nonexistent/place", "dangling"),
    ):
        with where_the_disk_can():
            os.symlink(target, os.path.join(home, name))
    _write(home, "old/cargo.crate", "from before zip could count\n")
    with open(os.path.join(home, "data", "sparse.img"), "wb") as file:
        file.truncate(3_000_000)
        file.seek(1_500_000)
        file.write(b"island")
    with where_the_disk_can():
        os.mkfifo(os.path.join(home, "pipe"))
    with where_the_disk_can():
        make_socket(os.path.join(home, "gateway.sock"))


def make_socket(path: str) -> None:
    """A unix socket at a path of any length (the kernel's limit is 108 bytes)."""
    here = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{here}/{os.path.basename(path)}")
    finally:
        os.close(here)


def make_chat_database(
    path: str, rng: random.Random, *, sessions: int = 4, messages: int = 40, hermes_python: str = ""
) -> None:
    """A closed `state.db` in write-ahead mode with sessions, messages and both full-text indexes."""
    if hermes_python:
        script = (
            "import sys, pathlib, hermes_state; hermes_state.SessionDB(pathlib.Path(sys.argv[1])).close()"
        )
        with tempfile.TemporaryDirectory() as nowhere:
            environment = {"PATH": os.environ["PATH"], "HOME": nowhere, "HERMES_HOME": nowhere}
            subprocess.run(
                [hermes_python, "-I", "-c", script, path], check=True, env=environment, capture_output=True
            )
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode=wal")
        if not hermes_python:
            connection.executescript(SCHEMA)
        connection.execute("begin")
        for number in range(sessions):
            connection.execute(
                "insert into sessions(id, source, model, title, started_at)"
                " values (?, 'cli', 'some/model', ?, ?)",
                (f"session-{number}", f"{prose(rng, 4)} {number}", 1_780_000_000 + number),
            )
        connection.executemany(
            "insert into messages(session_id, role, content, timestamp) values (?, ?, ?, ?)",
            [
                (f"session-{n % sessions}", ("user", "assistant")[n % 2], prose(rng, 40), 1_780_000_000 + n)
                for n in range(messages)
            ],
        )
        connection.execute("commit")
    os.chmod(path, 0o600)


def _write(home: str, name: str, text: str, mode: int = 0o644) -> None:
    _write_bytes(home, name, text.encode(), mode)


def _write_bytes(home: str, name: str, data: bytes, mode: int = 0o644) -> None:
    path = os.path.join(home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def _settle_times(home: str) -> None:
    """Every entry gets a time of its own with nanoseconds; one file is older than zip can say."""
    number = 0
    for directory, _, files in os.walk(home, topdown=False):
        for name in [*sorted(files), "."]:
            path = os.path.join(directory, name)
            number += 1
            moment = EPOCH_NS - number * 61_000_000_007
            if name == "cargo.crate":
                moment = 123_456_789  # 1970, as Rust's registry has it
            os.utime(path, ns=(moment, moment), follow_symlinks=False)


# ── comparing ──────────────────────────────────────────────────────────────────────────────────────

SIDECARS = ("-wal", "-shm", "-journal")


def is_sqlite(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(16) == b"SQLite format 3\x00"


def tree_facts(
    root: str, *, times: bool = True, databases: str = "rows", skip: tuple[str, ...] = ()
) -> dict[str, tuple[object, ...]]:
    """Everything there is to compare: name -> kind, mode, time, bytes or rows, link target.

    `databases="rows"` compares the content of SQLite files rather than their bytes, leaves their
    time out and passes over their sidecars; "bytes" treats them as any other file. `skip` names
    relative paths that are left out with everything below them.
    """
    facts: dict[str, tuple[object, ...]] = {}
    for directory, names, files in os.walk(root):
        relative = os.path.relpath(directory, root)
        names[:] = [name for name in names if os.path.normpath(os.path.join(relative, name)) not in skip]
        entries = [".", *files, *(name for name in names if os.path.islink(os.path.join(directory, name)))]
        for name in entries:
            path = os.path.join(directory, name)
            key = os.path.normpath(os.path.join(relative, name))
            if key not in skip:
                fact = _fact(path, times, databases)
                if fact:
                    facts[key] = fact
    return facts


def _fact(path: str, times: bool, databases: str) -> tuple[object, ...]:
    info = os.lstat(path)
    mode = stat.S_IMODE(info.st_mode)
    moment = info.st_mtime_ns if times else 0
    if stat.S_ISLNK(info.st_mode):
        return ("symlink", os.readlink(path))
    if stat.S_ISDIR(info.st_mode):
        return ("directory", mode, moment)
    if not stat.S_ISREG(info.st_mode):
        return ("special", stat.S_IFMT(info.st_mode))
    if databases == "rows":
        for suffix in SIDECARS:
            owner = path.removesuffix(suffix)
            if path.endswith(suffix) and os.path.exists(owner) and is_sqlite(owner):
                return ()
        if is_sqlite(path):
            return ("database", mode, _digest(database_rows(path)))
    with open(path, "rb") as file:
        return ("file", mode, moment, info.st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _digest(rows: dict[str, list[object]]) -> str:
    return hashlib.sha256(repr(sorted(rows.items())).encode("utf-8", "surrogateescape")).hexdigest()


def database_rows(path: str) -> dict[str, list[object]]:
    """Every row of every table of a database at rest, without touching it or its sidecars."""
    with tempfile.TemporaryDirectory(prefix="safekept-rows-") as scratch:
        copy = os.path.join(scratch, "copy.db")
        for suffix in ("", "-wal", "-journal"):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, copy + suffix)
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            connection.text_factory = bytes
            verdict = connection.execute("pragma integrity_check").fetchall()
            if verdict != [(b"ok",)]:
                raise AssertionError(f"{path} is not sound: {verdict[:5]}")
            names = connection.execute(
                "select name from sqlite_master where type = 'table' and rootpage > 0 order by 1"
            )
            return {
                name.decode(): sorted(
                    connection.execute(f'select * from "{name.decode()}"').fetchall(), key=repr
                )
                for (name,) in names.fetchall()
            }


def differences(before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]) -> list[str]:
    """What two trees do not share, one readable line each; empty means equal."""
    lines = [f"missing: {name} {before[name]}" for name in sorted(before.keys() - after.keys())]
    lines += [f"extra: {name} {after[name]}" for name in sorted(after.keys() - before.keys())]
    shared = sorted(before.keys() & after.keys())
    return lines + [
        f"differs: {name} {before[name]} -> {after[name]}" for name in shared if before[name] != after[name]
    ]


# ── a running agent ────────────────────────────────────────────────────────────────────────────────


class LiveWriter:
    """A process that commits whole turns to a chat database until it is stopped.

    `committed()` says how many turns are surely in; a copy taken later must hold them all, and
    `check_copy` fails if it does not, or if it holds half a turn.
    """

    def __init__(
        self,
        path: str,
        *,
        journal: str = "wal",
        pause: float = 0.002,
        words: int = 30,
        autocheckpoint: int = 100,
        checkpoints: float = 0.0,
        reopens: float = 0.0,
        seed: int = 1,
    ) -> None:
        self.path = path
        self.options = {
            "journal": journal,
            "pause": pause,
            "words": words,
            "autocheckpoint": autocheckpoint,
            "checkpoints": checkpoints,
            "reopens": reopens,
            "seed": seed,
        }
        self.latencies: list[float] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._progress = ""

    def __enter__(self) -> Self:
        descriptor, self._progress = tempfile.mkstemp(prefix="safekept-writer-")
        os.close(descriptor)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "live_writer.py")
        command = [sys.executable, "-I", script, self.path, self._progress, json.dumps(self.options)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.wait_for(1)
        return self

    def committed(self) -> int:
        with open(self._progress, "rb") as file:
            data = file.read(16)
        return int(struct.unpack("<qd", data)[0]) if len(data) == 16 else 0

    def wait_for(self, turns: int, seconds: float = 300.0) -> None:
        """Return once that many more turns than now (or than none, at the start) are committed."""
        goal = self.committed() + turns
        deadline = time.monotonic() + seconds
        while self.committed() < goal:
            if self._process is None or self._process.poll() is not None:
                raise AssertionError("the live writer died")
            if time.monotonic() > deadline:
                raise AssertionError("the live writer makes no progress")
            time.sleep(0.002)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            output, _ = process.communicate(timeout=300)  # closes its standard input, which ends it
            assert process.returncode == 0, "the live writer failed"
            self.latencies = json.loads(output)["latencies"]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._progress)


def check_copy(path: str, at_least: int) -> int:
    """Prove that a copy is one committed state with at least so many turns; returns how many it has."""
    rows = database_rows(path)
    turns: dict[bytes, int] = {}
    for row in rows["messages"]:
        session, content = row[1], row[3]  # type: ignore[index]
        if session == b"live":
            number = content.split()[1]
            turns[number] = turns.get(number, 0) + 1
    halves = [number for number, count in turns.items() if count != 2]
    assert not halves, f"half a transaction: turns {halves[:5]}"
    assert len(turns) >= at_least, f"{len(turns)} turns, but {at_least} were committed before"
    return len(turns)
