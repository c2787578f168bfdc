"""The helper process: the caller's own locks survive a capture, and nothing of the helper does."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import safekept
from safekept.core.entries import EntryLost, Outcome
from safekept.core.processes.process import process_space
from safekept.core.sqlite import CaptureOptions, isolated
from safekept.core.sqlite.capture import capture
from support.commands.children import children
from support.commands.waiting import wait_until
from support.home.database_holder import HolderFailed, held

SOURCE = str(Path(safekept.__file__).parent.parent)


def make(path: Path, mode: str, megabytes: int = 0) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, body BLOB)")
        connection.execute("INSERT INTO item (body) VALUES ('first')")
        for _ in range(megabytes):
            connection.execute("INSERT INTO item (body) VALUES (randomblob(1000000))")


def take(path: Path, scratch: Path, **options) -> bytes:
    settings = CaptureOptions(scratch=str(scratch), deadline=2, **options)
    with capture(str(path), "x.db", settings) as content:
        return b"".join(content.chunks())


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("apart", [True, False])
def test_only_an_isolated_capture_keeps_the_locks_of_a_caller_that_writes(tmp_path, mode, apart):
    """The control is the same capture in the caller's process: it drops the caller's lock."""
    make(tmp_path / "x.db", mode)
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as caller:
        with held(tmp_path / "x.db", "PRAGMA busy_timeout=0") as other:
            caller.execute("BEGIN IMMEDIATE")
            caller.execute("INSERT INTO item (body) VALUES ('mine')")
            take(tmp_path / "x.db", tmp_path, isolated=apart, check=False)
            if apart:
                with pytest.raises(HolderFailed, match="database is locked"):
                    other.run("BEGIN IMMEDIATE")
                caller.execute("COMMIT")
            else:
                other.run("BEGIN IMMEDIATE")
                other.run("ROLLBACK")
                with contextlib.suppress(sqlite3.Error):
                    caller.execute("ROLLBACK")


def test_an_isolated_capture_keeps_the_read_transaction_of_its_caller(tmp_path):
    make(tmp_path / "x.db", "wal")
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as caller:
        caller.execute("BEGIN")
        assert caller.execute("SELECT count(*) FROM item").fetchone()[0] == 1
        with held(tmp_path / "x.db", "PRAGMA busy_timeout=0") as other:
            other.run("INSERT INTO item (body) VALUES ('theirs')")
            take(tmp_path / "x.db", tmp_path)
            assert other.run("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] == 1, "the caller's lock was dropped"
        assert caller.execute("SELECT count(*) FROM item").fetchone()[0] == 1


def test_a_helper_that_is_killed_is_one_lost_entry_with_its_reason(tmp_path):
    make(tmp_path / "x.db", "wal", megabytes=12)
    with capture(str(tmp_path / "x.db"), "home/x.db", CaptureOptions(scratch=str(tmp_path))) as content:
        chunks = content.chunks()
        next(chunks)
        os.kill(content._child.pid, signal.SIGKILL)
        with pytest.raises(EntryLost) as lost:
            list(chunks)
    assert lost.value.remark.outcome is Outcome.UNREADABLE
    assert lost.value.remark.reason == "the capture process was killed by signal 9"
    assert lost.value.remark.path == "home/x.db"


def test_a_helper_that_cannot_start_is_one_lost_entry(tmp_path, monkeypatch):
    make(tmp_path / "x.db", "wal")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-such-python"))
    with pytest.raises(EntryLost) as lost:
        capture(str(tmp_path / "x.db"), "x.db", CaptureOptions(scratch=str(tmp_path)))
    assert lost.value.remark.reason == "the capture process could not be started: No such file or directory"
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(EntryLost) as lost:
        capture(str(tmp_path / "x.db"), "x.db", CaptureOptions(scratch=str(tmp_path)))
    assert lost.value.remark.reason == "the capture process ended early with status 1"


def test_a_surprise_in_the_helper_is_told(tmp_path):
    request = {"path": 5, "name": "x.db", "scratch": str(tmp_path), "deadline": 1, "check": True}
    request |= {"method": "auto", "queries": {}, "lean": None}
    helper = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", isolated._START, SOURCE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with pytest.raises(EntryLost) as lost:
        isolated.IsolatedContent(helper, request, "x.db", 30.0, lambda event: None)
    assert lost.value.remark.outcome is Outcome.UNREADABLE
    assert lost.value.remark.reason.startswith("the capture failed: TypeError: ")


def test_no_descriptor_and_no_process_is_left_behind(tmp_path):
    make(tmp_path / "x.db", "wal", megabytes=6)
    (tmp_path / "s").mkdir()
    gc.collect()  # what earlier tests left may not go in the middle of this one
    before, processes = set(os.listdir("/proc/self/fd")), children()
    started = []
    for number in range(6):
        with contextlib.suppress(EntryLost):
            path = tmp_path / ("x.db" if number % 3 else "absent.db")
            content = capture(str(path), "x.db", CaptureOptions(scratch=str(tmp_path / "s")))
            started.append(content._child.pid)
            chunks = content.chunks()
            next(chunks)
            if number % 2:
                list(chunks)
            content.close()
    assert set(os.listdir("/proc/self/fd")) == before
    assert len(started) == 4
    assert children() <= processes
    assert os.listdir(tmp_path / "s") == []


def test_content_that_is_forgotten_ends_its_helper(tmp_path):
    make(tmp_path / "x.db", "wal", megabytes=6)
    content = capture(str(tmp_path / "x.db"), "x.db", CaptureOptions(scratch=str(tmp_path)))
    pid = content._child.pid
    del content
    assert not os.path.exists(f"/proc/{pid}")


def test_the_helper_ends_with_its_parent_even_while_it_waits_for_a_lock(tmp_path):
    make(tmp_path / "x.db", "delete")
    program = "import sys; sys.path.insert(0, sys.argv[1])\n"
    program += "from safekept.core.sqlite.capture import CaptureOptions, capture\n"
    program += "tell = lambda event: print('waiting', flush=True)\n"
    program += "capture(sys.argv[2], 'x', CaptureOptions(scratch=sys.argv[3], deadline=300), {}, tell)\n"
    with held(tmp_path / "x.db", "BEGIN EXCLUSIVE"):
        parent = subprocess.Popen(
            [sys.executable, "-c", program, SOURCE, tmp_path / "x.db", tmp_path], stdout=subprocess.PIPE
        )
        assert parent.stdout.readline() == b"waiting\n"
        [helper] = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        parent.kill()
        parent.communicate()
        wait_until(lambda: not alive(helper), "the end of the helper, whose parent is gone,")


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_copies_of_a_helper_that_was_killed_early_are_swept(tmp_path, monkeypatch):
    """Killed while its copy still has a name: the next look at the scratch directory takes it away."""
    make(tmp_path / "x.db", "delete")
    scratch = tmp_path / "s"
    scratch.mkdir()
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    leftover = scratch / f".safekept-tmp-{int(dead.stdout)}-{process_space()}-abcdef"
    leftover.write_bytes(b"half a copy")
    with held(tmp_path / "x.db", "BEGIN EXCLUSIVE"):
        with pytest.raises(EntryLost):
            capture(str(tmp_path / "x.db"), "x.db", CaptureOptions(scratch=str(scratch), deadline=0.1))
    assert not leftover.exists()
