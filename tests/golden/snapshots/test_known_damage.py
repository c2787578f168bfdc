"""A damaged database: whatever learned of it, no later step that did not look makes the verdict green."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3

import pytest

from support.home.homes import make_hermes_home
from support.vault.snapshots import take


@pytest.fixture
def home(here):
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    with contextlib.closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        # An index that can be rebuilt: it is left out, and so every page of the rest is looked at.
        connection.execute(
            "CREATE VIRTUAL TABLE again USING fts5(content, content=messages, content_rowid=id)"
        )
        connection.execute("INSERT INTO again(again) VALUES('rebuild')")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return home


def pages_of(path, table):
    """The leaf pages of a table, by a text that only they hold."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        (text,) = connection.execute(f"SELECT content FROM {table} ORDER BY id LIMIT 1 OFFSET 10").fetchone()
    with open(path, "rb") as file:
        data = file.read()
    pages = [data[at : at + size] for at in range(0, len(data), size)]
    found = [number for number, page in enumerate(pages) if text.encode()[:40] in page and page[0] == 13]
    return size, found


def damage(home):
    """A page of the messages is overwritten; the times of the file are what they were."""
    path = os.path.join(home, "state.db")
    size, (number, *_) = pages_of(path, "messages")
    times = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(number * size)
        file.write(b"\xa5" * size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        with pytest.raises(sqlite3.DatabaseError, match="malformed"):
            connection.execute("SELECT sum(length(content)) FROM messages").fetchall()


def verdict(say):
    return say("status", "--check").code, json.loads(say("status", "--json").out)


def codes(document):
    return [one["code"] for one in document["verdict"]["reasons"]]


def test_a_snapshot_that_meets_damage_checks_at_once_and_is_not_complete(here, home, say):
    take(here, home)
    damage(home)
    said = say("snapshot")
    assert said.code == 3, said.out
    assert "so soon" not in said.out
    assert "damaged" in said.out
    code, document = verdict(say)
    assert code == 4
    assert "database-damaged" in codes(document)


def test_what_the_doctor_found_is_checked_by_the_next_snapshot_though_nothing_shows(here, home, say):
    assert say("settings", "databases", "full").code == 0
    take(here, home)
    damage(home)
    assert "is damaged" in say("doctor").out
    said = say("snapshot")
    assert said.code == 3, said.out
    assert verdict(say)[0] == 4


def test_a_snapshot_that_did_not_look_ends_no_alarm_of_the_doctor(here, home, say):
    take(here, home)
    damage(home)
    say("doctor")
    assert verdict(say)[0] == 4
    take(here, home, check="never")
    code, document = verdict(say)
    assert code == 4
    assert "database-damaged" in codes(document)


def test_damage_that_a_snapshot_found_is_not_forgotten_by_one_that_did_not_look(here, home, say):
    take(here, home)
    damage(home)
    assert say("snapshot").code == 3
    with open(os.path.join(home, "state.db"), "ab"):
        os.utime(os.path.join(home, "state.db"))
    take(here, home, check="never")
    assert verdict(say)[0] == 4


def test_once_it_is_brought_back_and_stored_it_is_over(here, home, say):
    sound = take(here, home).id[:8]
    damage(home)
    say("doctor")
    assert say("snapshot").code == 3
    assert say("snapshot", "restore", sound, "state.db", "--yes").code == 0
    assert verdict(say)[0] != 4
    said = say("snapshot")
    assert said.code == 0, said.out
    assert "checked and sound" in said.out
    code, document = verdict(say)
    assert code != 4
    assert "database-damaged" not in codes(document)
