"""A home that lays traps: pipes where settings belong, databases that never end, terabytes of nothing.

Snapshot and backup end in time, keep everything else, and say what they could not keep.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
from contextlib import closing

import pytest

from conftest import missing_part
from support.home.homes import make_chat_database

#: Names that somebody reads in a home to learn something about it, besides storing them.
READ = [
    "config.yaml",
    "profiles/coder/config.yaml",
    ".env",
    "SOUL.md",
    "active_profile",
    "cron/jobs.json",
    "memories/MEMORY.md",
    "plugins/greeter/plugin.yaml",
    "auth.json",
    "mem0.json",
    "honcho.json",
    "hermes-agent/pyproject.toml",
    "state.db",
    "state.db-wal",
    "profiles/coder/state.db",
]


@pytest.fixture
def home(tmp_path):
    """A plain small home with one database and a profile."""
    place = str(tmp_path / "user" / ".hermes")
    files = {
        "config.yaml": "model:\n  default: x\nmemory:\n  provider: mem0\n",
        "SOUL.md": "You are Iris.\n",
        "memories/MEMORY.md": "The cat is called Tom.\n",
        "profiles/coder/config.yaml": "model: {}\n",
        "profiles/coder/SOUL.md": "You are Cody.\n",
    }
    for name, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(place, name)), exist_ok=True)
        with open(os.path.join(place, name), "w") as file:
            file.write(text)
    make_chat_database(os.path.join(place, "state.db"), random.Random(1))
    return place


def replace_by_pipe(home, name):
    path = os.path.join(home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    os.mkfifo(path)


def stored_names(run, home):
    """What is in the newest snapshot."""
    shown = run("snapshot", "show", "latest", "--home", home, "--json")
    assert shown.code == 0, shown
    return shown.out


@pytest.mark.parametrize(
    "names",
    [READ, *(pytest.param([name], marks=pytest.mark.soak("hostile")) for name in READ)],
    ids=["everywhere", *READ],
)
def test_a_pipe_in_a_home_stops_neither_snapshot_nor_backup_nor_status(names, home, run, tmp_path):
    for name in names:
        replace_by_pipe(home, name)
    taken = run("snapshot", "--home", home, "--json")
    assert taken.code in (0, 3), taken
    archive = str(tmp_path / "a.zip")
    backed = run("backup", "--home", home, "-o", archive, "--json")
    assert backed.code in (0, 3), backed
    assert os.path.getsize(archive) > 500
    kept = "profiles/coder/SOUL.md"
    into = str(tmp_path / "out")
    back = run("snapshot", "restore", "latest", "--home", home, "--into", into, "--yes")
    assert back.code in (0, 3), back
    with open(os.path.join(into, kept)) as file:
        assert file.read() == "You are Cody.\n"
    for words in (("status",), ("doctor",), ("backup", "--quick", "-o", archive + ".q")):
        assert run(*words, "--home", home).code in (0, 1, 3, 4), words


def endless_view(connection):
    connection.execute("alter table messages rename to real_messages")
    connection.execute(
        "create view messages as with recursive n(id) as (select 1 union all select id + 1 from n) "
        "select id, 'x' as session_id, 'user' as role, 'y' as content from n"
    )


def endless_sessions(connection):
    connection.execute("alter table sessions rename to real_sessions")
    connection.execute(
        "create view sessions as with recursive n(id) as (select 1 union all select id + 1 from n) "
        "select id, 'x' as source, 0 as started_at from n"
    )


SLOW = "hex(zeroblob(100000000))"


def worded_otherwise(connection):
    """Put the slow words where quick ones stood when the rows went in."""
    connection.execute("pragma writable_schema = on")
    connection.execute("update sqlite_schema set sql = replace(sql, 'hex(1)', ?)", (SLOW,))


def slow_generated_column(connection):
    for (name,) in connection.execute("select name from sqlite_schema where type = 'trigger'").fetchall():
        connection.execute(f"drop trigger {name}")
    connection.execute("drop table if exists messages")
    connection.execute(
        "create table messages (id integer primary key, session_id text, role text, "
        "content text generated always as (hex(1)) virtual not null)"
    )
    connection.executemany("insert into messages (session_id, role) values (?, ?)", [("s", "user")] * 2000)
    worded_otherwise(connection)


def slow_check(connection):
    connection.execute("create table trap (x check (hex(1) > 'a' or x))")
    connection.executemany("insert into trap values (?)", [(1,)] * 2000)
    worded_otherwise(connection)


def slow_index(connection):
    connection.execute("create table trap (x)")
    connection.execute("create index slow on trap (x) where hex(1) > 'z'")
    connection.executemany("insert into trap values (?)", [(1,)] * 2000)
    worded_otherwise(connection)


DATABASES = {
    "messages are an endless view": endless_view,
    "sessions are an endless view": endless_sessions,
    "a column that takes a second to compute": slow_generated_column,
    "a check that takes a second": slow_check,
    "an index that takes a while": slow_index,
}


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_that_never_answers_stops_nothing(name, home, run, tmp_path):
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        DATABASES[name](connection)
        connection.commit()
    taken = run("snapshot", "--home", home, "--json", seconds=30)
    assert taken.code in (0, 3), taken
    archive = str(tmp_path / "a.zip")
    backed = run("backup", "--home", home, "-o", archive, "--json", seconds=30)
    assert backed.code in (0, 3), backed
    into = str(tmp_path / "out")
    back = run("snapshot", "restore", "latest", "--home", home, "--into", into, "--yes", seconds=30)
    assert back.code in (0, 3), back
    with open(os.path.join(home, "state.db"), "rb") as a, open(os.path.join(into, "state.db"), "rb") as b:
        assert len(a.read()) == len(b.read())
    assert run("status", "--home", home, seconds=30).code in (0, 3, 4)
    listed = run("sessions", "list", "--home", home, seconds=30)
    assert listed.code in (0, 1, 3), listed
    assert run("drill", "--home", home, seconds=60).code in (0, 1, 3)


def test_a_terabyte_of_holes_is_stored_and_comes_back_in_time(home, run, tmp_path):
    path = os.path.join(home, "memories", "huge.bin")
    size = 1 << 40
    with open(path, "wb") as file:
        file.write(b"first")
        file.seek(size // 2)
        file.write(b"middle")
        file.truncate(size)
    taken = run("snapshot", "--home", home, "--json", seconds=40)
    assert taken.code == 0, taken
    assert run("snapshot", "--home", home, "--json", seconds=40).code == 0
    into = str(tmp_path / "out")
    back = run(
        "snapshot", "restore", "latest", "memories", "--home", home, "--into", into, "--yes", seconds=60
    )
    assert back.code == 0, back
    restored = os.path.join(into, "memories", "huge.bin")
    status = os.stat(restored)
    assert status.st_size == size
    assert status.st_blocks * 512 < 50 << 20
    with open(restored, "rb") as file:
        assert file.read(5) == b"first"
        file.seek(size // 2)
        assert file.read(6) == b"middle"


def test_more_holes_than_anybody_keeps_are_named_and_stop_nothing(home, run, tmp_path):
    """An archive would have to hash every zero of it; a file of exabytes fits no list of pieces."""
    path = os.path.join(home, "memories", "huge.bin")
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    archive = str(tmp_path / "a.zip")
    backed = run("backup", "--home", home, "-o", archive, seconds=40)
    assert backed.code == 3, backed
    assert "memories/huge.bin" in backed.out + backed.err


#: A time, and what a snapshot makes of it: the dates of a vault have four digits for the year.
TIMES = {
    -(1 << 62): -(1 << 62),
    253402300800 * 10**9 + 1: 253402214399 * 10**9 + 1,
    -62135596801 * 10**9: -62135510400 * 10**9,
}


def test_times_that_no_calendar_has_are_kept(home, run, tmp_path):
    """Archives keep them to the nanosecond, snapshots the nearest date that can be written; nothing stops."""
    path, tried = os.path.join(home, "SOUL.md"), 0
    for number, (when, nearest) in enumerate(TIMES.items()):
        os.utime(path, ns=(when, when))
        if os.stat(path).st_mtime_ns != when:
            continue  # this filesystem has no such time
        tried += 1
        assert run("snapshot", "--home", home).code == 0, when
        into = str(tmp_path / f"out{number}")
        back = run("snapshot", "restore", "latest", "SOUL.md", "--home", home, "--into", into, "--yes")
        assert back.code == 0 and os.stat(f"{into}/SOUL.md").st_mtime_ns == nearest, (when, back)
        assert run("snapshot", "show", "latest", "--home", home).code == 0, when
        assert run("history", "SOUL.md", "--home", home).code == 0, when
        for form in ("zip", "tar.zst"):
            archive = str(tmp_path / f"{number}.{form}")
            assert run("backup", "--home", home, "-o", archive, "--format", form).code == 0, when
            assert run("import", archive, "--into", f"{into}.{form}", "--yes").code == 0, when
            assert os.stat(f"{into}.{form}/SOUL.md").st_mtime_ns == when, form
    if not tried:
        missing_part("a filesystem for temporary files that keeps such times, as one in memory does")


def test_hooks_for_a_path_of_any_length_answer_quickly(home, run, project):
    for part in ("a", "..", "."):
        event = {
            "session_id": "s",
            "cwd": project,
            "hook_event_name": "PreToolUse",
            "tool_name": "Write",
            "tool_input": {"file_path": project + f"/{part}" * 200_000, "content": "x"},
        }
        done = run("hook", "claude-code", data=json.dumps(event).encode(), cwd=project)
        assert done.code == 0, part
        assert not done.out or "is not kept" in json.loads(done.out)["systemMessage"], part
        event["tool_input"]["file_path"] = "x"
        event["cwd"] = project + f"/{part}" * 200_000
        done = run("hook", "claude-code", data=json.dumps(event).encode(), cwd=project)
        assert done.code == 0, part


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40)
)
DOCUMENTS = {
    "laughs": LAUGHS,
    "merged laughs": "a0: &a0 {x: 1}\n"
    + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}], b{n}: 1}}\n" for n in range(1, 40)),
    "deep": "[" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "long": "".join(f"key{n}: value\n" for n in range(300_000)),
    "long list": "[" + ",".join(["1"] * 2_000_000) + "]",
    "one huge word": "x" * 7_900_000,
    "huge number": "a: " + "9" * 1_000_000 + "\n",
    "itself": "a: &a [*a]\n",
    "tags": "a: !!python/object/apply:os.system ['touch /tmp/owned']\n",
    "zeros": "\0" * 100_000,
    "not text": "\udcff\udcfe" * 1000,
    "tabs": "\t" * 500_000,
    "anchors": "".join(f"a{n}: &a{n} x\n" for n in range(50_000)),
    "quotes": '"' * 500_001,
    "questions": "? " * 200_000,
    "dashes": "- " * 100_000,
}


#: Run every time; the others are relatives of theirs.
ALWAYS = {"merged laughs", "deep", "long", "not text"}


@pytest.mark.parametrize(
    "name",
    [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.soak("hostile")) for name in DOCUMENTS],
)
def test_no_document_in_a_home_costs_minutes_or_memory(name, home, run, tmp_path):
    for where in ("config.yaml", "profiles/coder/config.yaml", "cron/jobs.json", "memories/MEMORY.md"):
        os.makedirs(os.path.dirname(os.path.join(home, where)), exist_ok=True)
        with open(os.path.join(home, where), "w", errors="surrogateescape") as file:
            file.write(DOCUMENTS[name])
    taken = run("snapshot", "--home", home, "--json")
    assert taken.code in (0, 3), taken
    archive = str(tmp_path / "a.zip")
    assert run("backup", "--home", home, "-o", archive).code in (0, 3)
    assert run("status", "--home", home).code in (0, 3, 4)
    assert run("doctor", "--home", home).code in (0, 1, 3)
    into = str(tmp_path / "out")
    assert run("import", archive, "--into", into, "--yes").code in (0, 3)
    with open(os.path.join(into, "config.yaml"), errors="surrogateescape", newline="") as file:
        assert file.read() == DOCUMENTS[name]
