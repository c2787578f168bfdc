"""The scratch directory fails: the database is stored all the same, or lost by name; nothing else is hurt."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3

import pytest

from safekept.core.entries import EntryLost, Outcome
from safekept.core.sqlite import CaptureOptions
from safekept.core.sqlite import check as sqlite_check
from safekept.core.sqlite.capture import capture
from safekept.core.sqlite.check import verify
from safekept.core.sqlite.hold import pinned as sqlite_pinned


@pytest.fixture
def database(tmp_path):
    path = str(tmp_path / "x.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=wal")
        connection.execute("CREATE TABLE item (body TEXT)")
        connection.execute("INSERT INTO item VALUES ('bread')")
        connection.commit()
    return path


@pytest.fixture
def options(tmp_path):
    (tmp_path / "scratch").mkdir()
    return CaptureOptions(scratch=str(tmp_path / "scratch"), isolated=False)


def test_a_copy_that_cannot_be_removed_costs_nobody_the_database(database, options, monkeypatch):
    def refuse(path, **more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(os, "unlink", refuse)
    with capture(database, "x.db", options) as content:
        data = b"".join(content.chunks())
    monkeypatch.undo()
    with open(database, "rb") as file:
        assert data == file.read()
    assert content.database is not None and content.database.state == "sound"
    # What is left has the name of a temporary file, which the next sweep takes away.
    assert all(name.startswith(".safekept-tmp-") for name in os.listdir(options.scratch))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (sqlite3.OperationalError("unable to open database file"), "SQLite: unable to open database file"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "Too many open files"),
    ],
)
def test_a_copy_that_cannot_be_opened_is_a_database_lost_by_name(
    database, options, monkeypatch, error, reason
):
    def refuse(*arguments, **more):
        raise error

    monkeypatch.setattr(sqlite_pinned, "connect", refuse)
    with pytest.raises(EntryLost) as lost:
        capture(database, "home/x.db", options)
    assert (lost.value.remark.path, lost.value.remark.outcome) == ("home/x.db", Outcome.UNREADABLE)
    assert lost.value.remark.reason == reason
    assert os.listdir(options.scratch) == []


def test_trouble_while_a_database_is_judged_is_a_database_lost_by_name(database, options, monkeypatch):
    def fail(*arguments):
        raise sqlite3.OperationalError("disk I/O error")

    content = capture(database, "home/x.db", options)
    monkeypatch.setattr(content, "_conclude", fail)
    with pytest.raises(EntryLost) as lost:
        b"".join(content.chunks())
    assert lost.value.remark.reason == "SQLite: disk I/O error"


def test_a_database_that_cannot_be_opened_to_be_judged_is_trouble_of_the_disk(database, monkeypatch):
    def refuse(*arguments, **more):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(sqlite_check, "connect", refuse)
    with pytest.raises(OSError, match="SQLite: disk I/O error") as raised:
        verify(database)
    assert raised.value.errno == errno.EIO and raised.value.filename == database
