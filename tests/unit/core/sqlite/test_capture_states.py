"""Every state a database can be found in: the bytes are right and the source is as it was."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from safekept.core.entries import EntryLost, Outcome
from safekept.core.events import Event
from safekept.core.sqlite import CaptureOptions, is_database, verify
from safekept.core.sqlite.capture import capture
from safekept.core.sqlite.hold import locks as sqlite_locks
from safekept.core.sqlite.hold import pin as sqlite_pin
from safekept.core.sqlite.hold import unopened
from safekept.core.sqlite.hold.live import NotLive
from safekept.core.sqlite.hold.pin import pin
from safekept.core.sqlite.hold.through_sqlite import through_backup
from safekept.core.sqlite.hold.unopened import settled
from support.commands.waiting import PATIENT
from support.home.database_holder import held

ROWS = 2000
COUNT = {"rows": "SELECT count(*) FROM item", "absent": "SELECT count(*) FROM nowhere"}


def make(path: str | Path, mode: str = "wal", rows: int = ROWS, page_size: int = 4096) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size={page_size}")
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, body TEXT)")
        insert(connection, rows)


def insert(connection: sqlite3.Connection, rows: int) -> None:
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO item (body) VALUES (?)", ((f"body {n} " * 20,) for n in range(rows)))
    connection.execute("COMMIT")


def killed(path: str | Path, *statements: str) -> None:
    """Leave a database as a process does that is killed with it open."""
    with held(path, *statements) as holder:
        holder.kill()


ADD = "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < {0})"
ADD += " INSERT INTO item (body) SELECT hex(randomblob(100)) FROM n"


def add(rows: int) -> str:
    return ADD.format(rows)


class Taken:
    def __init__(self, path: str | Path, scratch: Path, **options) -> None:
        scratch.mkdir(exist_ok=True)
        options.setdefault("isolated", False)
        self.events: list[Event] = []
        settings = CaptureOptions(scratch=str(scratch), **options)
        with capture(str(path), "home/x.db", settings, COUNT, self.events.append) as content:
            self.bytes = b"".join(content.chunks())
        self.content, self.facts, self.remarks = content, content.database, content.remarks
        assert len(self.bytes) == content.size
        assert os.listdir(scratch) == []

    def query(self, directory: Path, statement: str):
        path = directory / "taken.db"
        path.write_bytes(self.bytes)
        with contextlib.closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
            return connection.execute(statement).fetchone()[0]


def long_untouched(path: Path) -> None:
    """As if nobody had written it for an hour; only then is a large one read where it lies."""
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))


def snapshot(directory: Path) -> dict[str, tuple]:
    """Names, inodes, sizes, times and bytes of everything in a directory."""
    found = {}
    for item in os.scandir(os.fsencode(directory)):
        status = item.stat(follow_symlinks=False)
        content = Path(os.fsdecode(item.path)).read_bytes()
        found[item.name] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode, content)
    return found


@pytest.fixture
def home(tmp_path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("method", ["pages", "backup"])
@pytest.mark.parametrize("page_size", [512, 4096, 65536])
@pytest.mark.needs("ofd_locks", "such locks hold a database still")
def test_a_live_log_is_laid_over_and_no_sidecar_is_touched(home, tmp_path, method, page_size, isolated):
    make(home / "x.db", page_size=page_size)
    with held(home / "x.db", "PRAGMA wal_autocheckpoint=0", add(500)):
        assert (home / "x.db-wal").stat().st_size > 50_000
        before = snapshot(home)
        taken = Taken(home / "x.db", tmp_path / "s", method=method, isolated=isolated)
        assert snapshot(home) == before
    assert taken.facts.state == "sound"
    assert taken.facts.method == method
    assert taken.facts.page_size == page_size
    assert taken.facts.counts == {"rows": ROWS + 500, "absent": None}
    assert taken.query(tmp_path, "SELECT count(*) FROM item") == ROWS + 500
    assert taken.remarks == []


@pytest.mark.needs("ofd_locks", "such locks hold a database still")
def test_a_log_of_many_index_blocks_is_laid_over(home, tmp_path):
    make(home / "x.db", page_size=512, rows=10)
    statements = [
        "PRAGMA wal_autocheckpoint=0",
        *(add(4000) for _ in range(3)),
        "UPDATE item SET body = body || 'x'",
    ]
    with held(home / "x.db", *statements):
        assert (home / "x.db-wal").stat().st_size > 9000 * 536  # beyond two blocks of the index
        taken = Taken(home / "x.db", tmp_path / "s")
        assert taken.facts.method == "pages"
    assert taken.query(tmp_path, "SELECT count(*) FROM item WHERE body LIKE '%x'") == 12010
    assert taken.query(tmp_path, "PRAGMA integrity_check") == "ok"


@pytest.mark.parametrize("checkpoint", ["PASSIVE", "TRUNCATE", "RESTART"])
@pytest.mark.needs("ofd_locks", "such locks hold a database still")
def test_a_log_that_was_checkpointed_is_not_laid_over_again(home, tmp_path, checkpoint):
    make(home / "x.db")
    statements = ["PRAGMA wal_autocheckpoint=0", add(500), f"PRAGMA wal_checkpoint({checkpoint})", add(7)]
    for count in (3, 4):
        with held(home / "x.db", *statements[:count]):
            taken = Taken(home / "x.db", tmp_path / "s")
            expected = ROWS + 500 + (7 if count == 4 else 0)
            assert taken.facts.counts["rows"] == expected
            assert taken.query(tmp_path, "SELECT count(*) FROM item") == expected
            assert taken.facts.method == "pages"
        with contextlib.closing(sqlite3.connect(home / "x.db", isolation_level=None)) as connection:
            connection.execute("DELETE FROM item WHERE id > ?", (ROWS,))


def test_a_capture_stays_on_its_state_while_others_commit_shrink_and_checkpoint(home, tmp_path):
    make(home / "x.db", rows=40_000)
    (tmp_path / "s").mkdir()
    with held(home / "x.db", add(300)) as writer:
        writer.run("PRAGMA busy_timeout=50")
        settings = CaptureOptions(scratch=str(tmp_path / "s"), isolated=False)
        content = capture(str(home / "x.db"), "x.db", settings, COUNT)
        chunks = content.chunks()
        taken = [next(chunks)]
        for step in range(3):
            writer.run(add(500))
            writer.run("DELETE FROM item WHERE id % 3 = 0")
            if step == 1:
                writer.run("VACUUM")
            for kind in ("PASSIVE", "RESTART", "TRUNCATE"):
                writer.run(f"PRAGMA wal_checkpoint({kind})")
        taken.extend(chunks)
        content.close()
    (tmp_path / "taken.db").write_bytes(b"".join(taken))
    assert verify(str(tmp_path / "taken.db"), thorough=True).state == "sound"
    assert content.database.counts["rows"] == 40_300


@pytest.mark.parametrize("size", ["small", "large"])
def test_at_rest_in_wal_mode_leaves_no_sidecar_and_gives_the_very_bytes(home, tmp_path, size, monkeypatch):
    if size == "large":
        monkeypatch.setattr(sqlite_pin, "COPY_AT_REST", 0)
    make(home / "x.db")
    long_untouched(home / "x.db")
    assert os.listdir(home) == ["x.db"]
    before = snapshot(home)
    taken = Taken(home / "x.db", tmp_path / "s")
    assert snapshot(home) == before
    assert taken.bytes == (home / "x.db").read_bytes()
    assert (taken.facts.state, taken.facts.method) == ("sound", "at-rest")
    assert taken.facts.counts["rows"] == ROWS


@pytest.mark.needs("ofd_locks", "such locks hold a database still")
def test_somebody_who_opens_a_database_that_is_read_at_rest_cannot_tear_it(home, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_pin, "COPY_AT_REST", 0)
    make(home / "x.db", rows=40_000)
    long_untouched(home / "x.db")
    whole = (home / "x.db").read_bytes()
    (tmp_path / "s").mkdir()
    settings = CaptureOptions(scratch=str(tmp_path / "s"), isolated=False)
    with capture(str(home / "x.db"), "x.db", settings, COUNT) as content:
        chunks = content.chunks()
        taken = [next(chunks)]
        changed = ["PRAGMA busy_timeout=50", "UPDATE item SET body = 'new' WHERE id < 900"]
        with held(home / "x.db", *changed) as newcomer:
            taken.append(next(chunks))  # here the newcomer is noticed
            [[busy, *_]] = newcomer.run("PRAGMA wal_checkpoint(FULL)")
            assert busy, "the checkpoint was not held back"
            taken.extend(chunks)
    assert b"".join(taken) == whole
    assert content.database.state == "sound"
    with contextlib.closing(sqlite3.connect(home / "x.db")) as connection:
        assert connection.execute("SELECT count(*) FROM item WHERE body = 'new'").fetchone()[0] == 899


def test_a_database_that_was_checkpointed_behind_our_back_is_reported_not_stored_torn(
    home, tmp_path, monkeypatch
):
    monkeypatch.setattr(sqlite_pin, "COPY_AT_REST", 0)
    make(home / "x.db", rows=40_000)
    long_untouched(home / "x.db")
    (tmp_path / "s").mkdir()
    settings = CaptureOptions(scratch=str(tmp_path / "s"), isolated=False)
    with capture(str(home / "x.db"), "home/x.db", settings) as content:
        chunks = content.chunks()
        next(chunks)
        with held(home / "x.db", "UPDATE item SET body = 'new'", "PRAGMA wal_checkpoint(FULL)"):
            with pytest.raises(EntryLost) as lost:
                list(chunks)
    assert lost.value.remark.outcome is Outcome.CHANGED
    assert lost.value.remark.reason == (
        "another program began to write it while it was read; back it up again"
    )


def test_a_large_database_that_was_just_closed_is_copied_not_read_in_place(home, tmp_path, monkeypatch):
    """Its owner may open it again the next moment; a copy survives that, a half-read file does not."""
    monkeypatch.setattr(sqlite_pin, "COPY_AT_REST", 0)
    make(home / "x.db", rows=40_000)
    whole = (home / "x.db").read_bytes()
    (tmp_path / "s").mkdir()
    settings = CaptureOptions(scratch=str(tmp_path / "s"), isolated=False)
    with capture(str(home / "x.db"), "x.db", settings, COUNT) as content:
        chunks = content.chunks()
        taken = next(chunks)
        with held(home / "x.db", "UPDATE item SET body = 'new'", "PRAGMA wal_checkpoint(TRUNCATE)"):
            assert taken + b"".join(chunks) == whole
    assert content.database.counts["rows"] == 40_000


class SlowClock:
    """A clock that moves only while somebody sleeps, and a writer who comes meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path, self.now, self.slept = path, 1_800_000_000.3, 0
        self.writes()

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept += 1
        self.now += seconds + 0.001
        self.writer()

    def writes(self) -> None:
        self.path.write_bytes(b"x")
        os.utime(self.path, ns=(int(self.now * 1000) * 1_000_000,) * 2)

    writer = writes


def test_a_file_that_somebody_keeps_writing_is_not_waited_for(tmp_path, monkeypatch):
    """Deciding anew takes a moment; waiting for a busy file to grow old takes for ever."""
    clock = SlowClock(tmp_path / "busy")
    monkeypatch.setattr(unopened, "time", clock)
    descriptor = os.open(clock.path, os.O_RDONLY)
    try:
        with pytest.raises(NotLive):
            settled(descriptor)
        assert clock.slept == 1
        clock.writer = lambda: None  # nobody comes any more
        assert settled(descriptor).st_size == 1
        assert clock.slept == 2
        assert settled(descriptor).st_size == 1
        assert clock.slept == 2, "what is old already is not waited for"
    finally:
        os.close(descriptor)


@pytest.mark.needs("ofd_locks", "such locks hold a database still")
def test_a_stranded_log_is_folded_into_the_copy_and_left_where_it_is(home, tmp_path):
    make(home / "x.db")
    killed(home / "x.db", "PRAGMA wal_autocheckpoint=0", add(321))
    before = snapshot(home)
    assert len(before[b"x.db-wal"][4]) > 0
    taken = Taken(home / "x.db", tmp_path / "s")
    assert snapshot(home) == before
    assert taken.facts.counts["rows"] == ROWS + 321
    assert taken.query(tmp_path, "SELECT count(*) FROM item") == ROWS + 321
    assert taken.query(tmp_path, "PRAGMA integrity_check") == "ok"


@pytest.mark.needs("ofd_locks", "such locks hold a database still")
def test_a_stranded_log_without_room_for_a_copy_is_reported(home, tmp_path, monkeypatch):
    make(home / "x.db")
    killed(home / "x.db", "PRAGMA wal_autocheckpoint=0", add(321))
    monkeypatch.setattr("safekept.core.sqlite.hold.spool.free_bytes", lambda directory: 0)
    with pytest.raises(EntryLost) as lost:
        Taken(home / "x.db", tmp_path / "s")
    assert lost.value.remark.outcome is Outcome.UNREADABLE
    assert "its log must be folded in, and there is no room in" in lost.value.remark.reason


def test_a_hot_journal_is_rolled_back_in_the_copy_only(home, tmp_path):
    make(home / "x.db", mode="delete")
    killed(
        home / "x.db",
        "PRAGMA cache_size=5",
        "PRAGMA cache_spill=1",
        "BEGIN",
        "UPDATE item SET body = 'half'",
        add(3000),
    )
    before = snapshot(home)
    assert b"x.db-journal" in before
    taken = Taken(home / "x.db", tmp_path / "s")
    assert snapshot(home) == before
    assert taken.facts.counts["rows"] == ROWS
    assert taken.query(tmp_path, "SELECT count(*) FROM item WHERE body = 'half'") == 0
    assert taken.query(tmp_path, "PRAGMA integrity_check") == "ok"


@pytest.mark.parametrize("mode", ["delete", "truncate", "persist"])
@pytest.mark.parametrize("threshold", [0, 1 << 30])
@pytest.mark.needs("ofd_locks", "such locks hold a database still")
def test_a_rollback_database_in_use_is_copied_and_its_writer_goes_on(
    home, tmp_path, mode, threshold, monkeypatch
):
    monkeypatch.setattr(sqlite_pin, "COPY_UNDER_LOCK", threshold)
    make(home / "x.db", mode=mode)
    (tmp_path / "s").mkdir()
    with held(home / "x.db", f"PRAGMA journal_mode={mode}", add(5)):
        before = snapshot(home)
        settings = CaptureOptions(scratch=str(tmp_path / "s"), isolated=False)
        with capture(str(home / "x.db"), "x.db", settings, COUNT) as content:
            # The lock is gone before the first byte was asked for.
            with contextlib.closing(sqlite3.connect(home / "x.db", timeout=0)) as writer:
                writer.execute("DELETE FROM item")
                assert snapshot(home)[b"x.db"][0] == before[b"x.db"][0]
                writer.rollback()
                writer.execute("DELETE FROM item")
                writer.commit()
            taken = b"".join(content.chunks())
    assert taken == before[b"x.db"][4]
    assert content.database.counts["rows"] == ROWS + 5
    assert content.database.state == "sound"


@pytest.mark.needs("ofd_locks", "such locks hold a database still")
def test_without_room_a_rollback_database_is_read_under_the_lock_and_that_is_said(
    home, tmp_path, monkeypatch
):
    make(home / "x.db", mode="delete")
    monkeypatch.setattr("safekept.core.sqlite.hold.spool.free_bytes", lambda directory: 0)
    taken = Taken(home / "x.db", tmp_path / "s")
    assert taken.bytes == (home / "x.db").read_bytes()
    assert taken.facts.state == "sound"
    [remark] = taken.remarks
    assert remark.outcome is Outcome.NOTED
    assert remark.reason.startswith("stored whole, but its writers had to wait while it was read: no room in")
    with contextlib.closing(sqlite3.connect(home / "x.db", timeout=0)) as writer:
        writer.execute("DELETE FROM item")  # and the lock is gone
        writer.commit()


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.needs("ofd_locks", "such locks hold a database still", only={"delete"})
def test_where_the_scratch_refuses_a_copy_the_database_is_read_where_it_lies(
    home, tmp_path, mode, monkeypatch
):
    """So a broken scratch costs nothing, and only writers who had to wait for it are worth a word."""
    make(home / "x.db", mode=mode)
    opened = os.open

    def refusing(path, *arguments, **options):
        if str(path).startswith(str(tmp_path / "s")):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return opened(path, *arguments, **options)

    before = snapshot(home)
    monkeypatch.setattr(os, "open", refusing)
    taken = Taken(home / "x.db", tmp_path / "s")
    monkeypatch.undo()
    assert snapshot(home) == before
    assert taken.bytes == before[b"x.db"][4]
    assert (taken.facts.state, taken.facts.counts["rows"]) == ("sound", ROWS)
    waited = "stored whole, but its writers had to wait while it was read: no copy can be made in"
    refusal = f"{waited} {tmp_path / 's'}: Input/output error"
    assert [remark.reason for remark in taken.remarks] == ([refusal] if mode == "delete" else [])


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_database_locked_for_ever_is_given_up_by_name(home, tmp_path, mode, isolated):
    make(home / "x.db", mode=mode)
    exclusive = ["PRAGMA locking_mode=EXCLUSIVE", add(1)] if mode == "wal" else ["BEGIN EXCLUSIVE"]
    with held(home / "x.db", *exclusive) as holder:
        before = snapshot(home)
        settings = CaptureOptions(scratch=str(tmp_path), deadline=1.6, isolated=isolated)
        for _ in range(5):  # who is not let for the last 0.6 s of it gives up without a word on the way
            events: list[Event] = []
            start = time.monotonic()
            with pytest.raises(EntryLost) as lost:
                capture(str(home / "x.db"), "home/x.db", settings, COUNT, events.append)
            assert 1.5 < time.monotonic() - start < PATIENT
            if events:
                break
        assert snapshot(home) == before
    remark = lost.value.remark
    assert remark.outcome is Outcome.LOCKED
    assert remark.incomplete
    assert remark.reason.startswith(f"locked for 1.6 s by pid {holder.pid} ({sys.executable} ")
    waits = [event for event in events if event.phase == "wait"]
    assert len(waits) == 1
    assert waits[0].text.startswith(f"waiting for home/x.db, locked by pid {holder.pid} (")


def test_a_lock_that_is_let_go_in_time_is_waited_for(home, tmp_path):
    make(home / "x.db", mode="delete")
    with held(home / "x.db", "BEGIN EXCLUSIVE", "UPDATE item SET body = 'done'") as holder:
        timer = threading.Timer(0.5, holder.kill)
        timer.start()
        taken = Taken(home / "x.db", tmp_path / "s", deadline=PATIENT)
        timer.join()
    assert taken.facts.counts["rows"] == ROWS
    assert taken.query(tmp_path, "SELECT count(*) FROM item WHERE body = 'done'") == 0


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.needs(
    "ofd_locks", "such locks hold a database still", only={"True-wal", "False-delete", "True-delete"}
)
def test_a_damaged_source_is_stored_and_marked(home, tmp_path, mode, live):
    make(home / "x.db", mode=mode)
    with open(home / "x.db", "r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xa5" * 4096 * 4)
    with held(home / "x.db", "SELECT 1 FROM sqlite_schema") if live else contextlib.nullcontext():
        taken = Taken(home / "x.db", tmp_path / "s")
    assert taken.bytes == (home / "x.db").read_bytes()
    assert taken.facts.state == "damaged"
    assert taken.facts.detail
    [remark] = taken.remarks
    assert remark.outcome is Outcome.DAMAGED
    assert remark.incomplete
    first = taken.facts.detail.splitlines()[0]
    assert remark.reason.startswith(f"stored exactly as it is, but the database is damaged: {first}")


def test_a_damaged_source_with_a_log_names_the_log_that_is_not_stored(home, tmp_path):
    make(home / "x.db")
    killed(home / "x.db", "PRAGMA wal_autocheckpoint=0", add(50))
    content = bytearray((home / "x.db").read_bytes())
    content[16:18] = b"\x03\x07"  # an impossible page size: SQLite refuses to open it
    (home / "x.db").write_bytes(content)
    (home / "x.db-wal").write_bytes(b"\0" * 700)
    taken = Taken(home / "x.db", tmp_path / "s")
    assert taken.bytes == bytes(content)
    assert (taken.facts.state, taken.facts.method) == ("damaged", "raw")
    assert "file is not a database" in taken.facts.detail
    assert f"its log `{home}/x.db-wal` (700 bytes) is not part of this copy" in taken.remarks[0].reason


@pytest.mark.parametrize("content", [b"", b"\0" * 9000, b"BoltDB" * 99], ids=["empty", "nuls", "foreign"])
def test_a_file_that_is_no_database_any_more_is_stored_raw_and_marked(home, tmp_path, content):
    (home / "x.db").write_bytes(content)
    taken = Taken(home / "x.db", tmp_path / "s")
    assert taken.bytes == content
    assert (taken.facts.state, taken.facts.method) == ("damaged", "raw")
    assert taken.facts.detail == "the file is not a SQLite database any more"
    assert taken.facts.counts == {"rows": None, "absent": None}
    assert taken.remarks[0].outcome is Outcome.DAMAGED


def test_a_foreign_file_that_shrinks_while_it_is_read_keeps_its_promised_size_and_says_so(home, tmp_path):
    (home / "x.db").write_bytes(b"BoltDB" * 500_000)
    settings = CaptureOptions(scratch=str(tmp_path), isolated=False)
    with capture(str(home / "x.db"), "x.db", settings) as content:
        chunks = content.chunks()
        taken = next(chunks)
        os.truncate(home / "x.db", 1_500_000)
        taken += b"".join(chunks)
    assert len(taken) == content.size == 3_000_000
    assert [remark.outcome for remark in content.remarks] == [Outcome.CHANGED, Outcome.DAMAGED]


NAMES = ["a?b.db", "a#b.db", "a%41b.db", "a b.db", "a\nb.db", "äöü.db", "\udcff\udcfe.db", "a&mode=rw.db"]


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.needs(
    "names",
    "it makes names that not every disk holds",
    only={
        "\\udcff\\udcfe.db-delete",
        "a?b.db-wal",
        "\\udcff\\udcfe.db-wal",
        "a?b.db-delete",
        "a\\nb.db-wal",
        "a\\nb.db-delete",
    },
)
@pytest.mark.needs(
    "ofd_locks",
    "such locks hold a database still",
    only={
        "a&mode=rw.db-wal",
        "\\udcff\\udcfe.db-wal",
        "a b.db-wal",
        "a?b.db-wal",
        "a%41b.db-wal",
        "\\xe4\\xf6\\xfc.db-wal",
        "a#b.db-wal",
        "a\\nb.db-wal",
    },
)
def test_any_name_is_captured_and_none_is_made(home, tmp_path, name, mode):
    path = os.path.join(home, name)
    make(path, mode=mode, rows=5)
    with held(path, add(2)):
        before = snapshot(home)
        taken = Taken(path, tmp_path / "s")
        assert snapshot(home) == before
    assert taken.facts.counts["rows"] == 7
    taken = Taken(path, tmp_path / "s", isolated=True)
    assert taken.facts.counts["rows"] == 7
    assert os.listdir(home) == [name]


def test_a_path_that_begins_with_two_slashes_and_a_relative_one(home, tmp_path, monkeypatch):
    make(home / "x.db", rows=5)
    assert Taken(f"/{home}/x.db", tmp_path / "s").facts.counts["rows"] == 5
    monkeypatch.chdir(home)
    for isolated in (False, True):
        assert Taken("x.db", tmp_path / "s", isolated=isolated).facts.counts["rows"] == 5


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_what_is_not_there_is_gone_and_what_is_no_file_is_unreadable(home, tmp_path, isolated):
    settings = CaptureOptions(scratch=str(tmp_path), isolated=isolated)
    make(home / "x.db", rows=1)
    (home / "link.db").symlink_to("x.db")
    (home / "directory.db").mkdir()
    os.mkfifo(home / "pipe.db")
    for name, outcome, reason in [
        ("absent.db", Outcome.GONE, "vanished before it was read"),
        ("x.db/below.db", Outcome.GONE, "vanished before it was read"),
        ("link.db", Outcome.UNREADABLE, "Too many levels of symbolic links"),
        ("directory.db", Outcome.UNREADABLE, "not a regular file"),
        ("pipe.db", Outcome.UNREADABLE, "not a regular file"),
    ]:
        with pytest.raises(EntryLost) as lost:
            capture(str(home / name), name, settings)
        assert lost.value.remark.outcome is outcome, name
        assert lost.value.remark.reason.startswith(reason)
        assert lost.value.remark.path == name


@pytest.mark.needs("modes", "it looks at modes")
def test_a_file_we_may_not_read_is_unreadable(home, tmp_path, monkeypatch):
    make(home / "x.db", rows=1)
    (home / "x.db").chmod(0)
    if os.access(home / "x.db", os.R_OK):  # root reads everything: let the kernel's answer be made up
        original = os.open

        def refuse(path, *arguments, **options):
            if path == str(home / "x.db"):
                raise PermissionError(13, "Permission denied", path)
            return original(path, *arguments, **options)

        monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(EntryLost) as lost:
        capture(str(home / "x.db"), "x.db", CaptureOptions(scratch=str(tmp_path), isolated=False))
    assert lost.value.remark.outcome is Outcome.UNREADABLE
    assert lost.value.remark.reason == "Permission denied"
    assert (home / "x.db").stat().st_mode & 0o777 == 0


@contextlib.contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """A directory nobody can write to: a read-only bind mount as root, else permission bits."""
    if os.geteuid() == 0:
        subprocess.run(["mount", "--bind", directory, directory], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", directory], check=True)
            yield
        finally:
            subprocess.run(["umount", directory], check=True)
    else:
        directory.chmod(0o500)
        try:
            yield
        finally:
            directory.chmod(0o700)


@pytest.mark.parametrize("state", ["rest", "stranded", "journal", "hot"])
def test_a_read_only_filesystem_is_no_obstacle(home, tmp_path, state):
    expected = ROWS
    make(home / "x.db", mode="delete" if state in ("journal", "hot") else "wal")
    if state == "stranded":
        killed(home / "x.db", add(9))
        expected += 9
    elif state == "hot":
        killed(home / "x.db", "PRAGMA cache_size=5", "BEGIN", "UPDATE item SET body = 'half'", add(3000))
    before = snapshot(home)
    with read_only(home):
        with pytest.raises(OSError):
            (home / "probe").touch()
        taken = Taken(home / "x.db", tmp_path / "s")
    assert snapshot(home) == before
    assert taken.facts.counts["rows"] == expected
    assert taken.facts.state == "sound"


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("live", [False, True])
def test_where_there_are_no_locks_to_take_sqlite_itself_holds_the_database(
    home, tmp_path, mode, live, monkeypatch
):
    """Other platforms have no open file description locks: the backup API does the work there."""
    monkeypatch.setattr(sqlite_locks, "AVAILABLE", False)
    make(home / "x.db", mode=mode)
    with held(home / "x.db", add(3)) if live else contextlib.nullcontext():
        before = snapshot(home)
        taken = Taken(home / "x.db", tmp_path / "s")
        after = snapshot(home)
        for each in (before, after):
            each.pop(b"x.db-shm", None)  # a reader's mark in the shared memory
        assert after == before
    assert taken.facts.counts["rows"] == ROWS + 3 * live
    assert taken.facts.method == ("at-rest" if mode == "wal" and not live else "backup")
    assert taken.query(tmp_path, "PRAGMA integrity_check") == "ok"


def test_the_backup_of_a_pinned_source_does_not_begin_anew_with_every_commit(home, tmp_path, monkeypatch):
    make(home / "x.db", rows=20_000)
    (tmp_path / "s").mkdir()
    monkeypatch.setattr("safekept.core.sqlite.hold.through_sqlite._STEP", 10)
    left: list[int] = []
    with held(home / "x.db", "SELECT 1 FROM item") as writer:
        pinned = pin(str(home / "x.db"), "x.db", str(tmp_path / "s"), 5.0, lambda event: None)

        class Committing:
            """The connection of the pin, with a commit of somebody else after every step."""

            def backup(self, target, pages, progress, sleep):
                def watched(status, remaining, total):
                    left.append(remaining)
                    writer.run("INSERT INTO item (body) VALUES ('meanwhile')")
                    progress(status, remaining, total)

                connection.backup(target, pages=pages, progress=watched, sleep=sleep)

            def close(self):
                connection.close()

        connection, pinned.connection = pinned.connection, Committing()
        copy = through_backup(pinned, str(tmp_path / "s"), 5.0, lambda event: None)
        count = copy.connection.execute("SELECT count(*) FROM item").fetchone()[0]
        copy.close()
    assert len(left) > 100
    assert left == sorted(left, reverse=True), "the copy began anew"
    assert count == 20_000


def test_a_backup_that_makes_no_progress_is_given_up(home, tmp_path):
    make(home / "x.db", mode="delete")
    (tmp_path / "s").mkdir()
    pinned = pin(str(home / "x.db"), "home/x.db", str(tmp_path / "s"), 5.0, lambda event: None)

    class Stuck:
        def backup(self, target, pages, progress, sleep):
            while True:
                progress(sqlite3.SQLITE_BUSY, 100, 100)
                time.sleep(sleep)

    connection, pinned.connection = pinned.connection, Stuck()
    with pytest.raises(EntryLost) as lost:
        through_backup(pinned, str(tmp_path / "s"), 0.2, lambda event: None)
    pinned.connection = connection
    pinned.close()
    assert lost.value.remark.outcome is Outcome.LOCKED
    assert lost.value.remark.reason == "locked: the copy made no progress for 0.2 s"
    assert os.listdir(tmp_path / "s") == []


def test_a_capture_that_is_not_read_to_its_end_lets_go(home, tmp_path):
    make(home / "x.db", rows=40_000)
    (tmp_path / "s").mkdir()
    gc.collect()  # what earlier tests left may not go in the middle of this one
    open_before = len(os.listdir("/proc/self/fd"))
    threads = set(threading.enumerate())
    with held(home / "x.db", "SELECT 1 FROM item"):
        for isolated in (False, True):
            settings = CaptureOptions(scratch=str(tmp_path / "s"), isolated=isolated)
            content = capture(str(home / "x.db"), "x.db", settings, COUNT)
            next(content.chunks())
            content.close()
            content.close()
            del content
    assert len(os.listdir("/proc/self/fd")) == open_before
    assert set(threading.enumerate()) <= threads
    assert list(sqlite_descriptors()) == []
    # The holder could fold its log away: nobody else had a lock.
    assert os.listdir(home) == ["x.db"]


def sqlite_descriptors():
    from safekept.core.sqlite import descriptors

    return descriptors._users


@pytest.mark.needs("ofd_locks", "such locks hold a database still")
def test_two_captures_of_one_database_in_one_process_do_not_cut_each_other_loose(home, tmp_path):
    make(home / "x.db", rows=30_000)
    (tmp_path / "s").mkdir()
    settings = CaptureOptions(scratch=str(tmp_path / "s"), isolated=False)
    with held(home / "x.db", "PRAGMA busy_timeout=50", add(10)) as holder:
        first = capture(str(home / "x.db"), "x.db", settings, COUNT)
        second = capture(str(home / "x.db"), "x.db", settings, COUNT)
        head = second.chunks()
        part = next(head)
        whole = b"".join(first.chunks())
        first.close()
        # The first one closed its descriptors of the same inode; the second still holds its locks.
        [[busy, *_]] = holder.run("PRAGMA wal_checkpoint(TRUNCATE)")
        assert busy
        assert part + b"".join(head) == whole
        second.close()
    assert sqlite_descriptors() == {}


def test_a_header_makes_a_database_not_a_name(home):
    make(home / "x.txt", rows=1)
    assert is_database((home / "x.txt").read_bytes()[:16])
    assert not is_database(b"SQLite format 2\0")
    assert not is_database(b"")
