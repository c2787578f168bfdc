"""A database that is ruined behind its header: the first look says so, or says that it did not look."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3

import pytest

from support.commands.in_process import spoken
from support.home.database_holder import held


@pytest.fixture
def say(state, monkeypatch):
    return spoken(monkeypatch, state.user)


def rest(state, name="state.db"):
    """As an agent leaves it that ended: no log beside it."""
    path = os.path.join(state.home, name)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("pragma wal_checkpoint(truncate)")
    return path


def zeros_into(path, start, end):
    """`start`, `end`: parts of the file."""
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(max(100, int(size * start)))
        file.write(bytes(int(size * (end - start))))


def damaged(say, command):
    document = json.loads(say(command, "--json").out)
    found = document["verdict"]["reasons"] if command == "status" else document["findings"]
    found = [one for one in found if one["code"] == "database-damaged"]
    return [(one["text"], one["alarm"], one["fix"]) for one in found]


def last_page(path):
    """Zeros in the last page that a table has its rows in: what is counted first may well not see it."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        (size,) = database.execute("pragma page_size").fetchone()
    with open(path, "rb") as file:
        data = file.read()
    leaves = [at for at in range(size, len(data), size) if data[at] == 13]
    return leaves[-1], size


@pytest.mark.parametrize("start, end", [(0.3, 0.7), (0.0, 1.0), (0.5, 0.6)])
def test_zeros_in_the_middle_of_a_database_are_an_alarm_before_any_doctor(state, say, start, end):
    zeros_into(rest(state), start, end)
    first = damaged(say, "status")
    assert [(text, alarm) for text, alarm, _ in first] == [(f"state.db in {state.home} is damaged", True)]
    shown = say("status")
    assert shown.out.startswith("ALARM") and "state.db" in shown.out.splitlines()[0]
    assert "snapshot restore" in shown.out
    assert say("status", "--check").code == 4 and "ALARM" in say("status", "--short").out
    assert first == damaged(say, "doctor") == damaged(say, "status"), "one ladder"


def test_a_page_that_no_count_reads_is_checked_too(state, say):
    path = rest(state)
    at, size = last_page(path)
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * size)
    assert damaged(say, "status") == damaged(say, "doctor") != []


def test_what_it_prints_ends_it(state, say):
    zeros_into(rest(state), 0.3, 0.7)
    found = json.loads(say("status", "--json").out)["verdict"]["reasons"]
    (one,) = [one for one in found if one["code"] == "database-damaged"]
    (command,) = one["commands"]
    assert say(*command["verb"].split(), *command["arguments"], "--yes").code == 0
    assert damaged(say, "status") == damaged(say, "doctor") == []
    assert say("status", "--check").code != 4


def test_beside_an_agent_that_has_it_open_it_is_checked_as_well(state, say):
    path = os.path.join(state.home, "state.db")
    with held(path, "insert into sessions (id, source, started_at) values ('new', 'cli', 1.0)"):
        assert damaged(say, "status") == []
        assert "not checked" not in say("status").out


def test_one_that_is_too_large_for_the_time_is_said_to_be_not_checked_in_the_first_lines(
    state, say, monkeypatch
):
    rest(state)
    os.utime(os.path.join(state.home, "state.db"))
    monkeypatch.setattr("safekept.home.health.live_counts._LARGEST_CHECKED", 4096)
    first = " ".join(say("status").out.partition("\n\n")[0].split())
    assert "of state.db in ~/.hermes not checked since it changed: `safekept doctor`" in first
    (home,) = json.loads(say("status", "--json").out)["homes"]
    assert home["not_checked"] == ["state.db"] and home["not_looked_at"] == []


def test_one_that_is_as_it_was_when_it_was_checked_is_not_opened(state, say, monkeypatch):
    def refused(*_, **__):
        raise AssertionError("opened")

    monkeypatch.setattr("safekept.home.health.live_counts.look_quickly", refused)
    monkeypatch.setattr("safekept.home.health.live_counts._UNSURE", -3600 * 10**9)
    shown = say("status").out
    assert "not checked" not in shown and "not looked at" not in shown


def test_settings_that_cannot_be_read_any_more_come_back_by_the_command_that_is_printed(state, say):
    def unreadable():
        found = json.loads(say("status", "--json").out)["verdict"]["reasons"]
        return [one["commands"] for one in found if one["code"] == "connection-unreadable"]

    assert say("connect", "hermes", "--yes").code == 0
    assert say("snapshot").code == 0
    assert unreadable() == []
    path = os.path.join(state.home, "config.yaml")
    with open(path, "rb") as file:
        before = file.read()
    with open(path, "wb") as file:
        file.write(b"model: [\n\0\0")
    ((back, connect),) = unreadable()
    assert connect["verb"] == "connect"
    assert say(*back["verb"].split(), *back["arguments"], "--yes").code == 0
    with open(path, "rb") as file:
        assert file.read() == before
    assert unreadable() == []
