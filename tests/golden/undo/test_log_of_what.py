"""Each row of the log says of what it was: what was restored, which conversation, which profile."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.vault.snapshots import take


@pytest.fixture
def home(here):
    path = os.path.join(here.places.user_home, ".hermes")
    return make_hermes_home(path, profiles=("writer",), awkward=False)


def test_a_row_says_of_what_it_was(here, home, monkeypatch):
    say = spoken(monkeypatch, here.places.user_home)
    monkeypatch.setenv("COLUMNS", "120")
    short = take(here, home).id[:8]

    def about(*words: str) -> list[str]:
        """The last columns of the rows that this leaves, newest first."""
        before = len(say("log", "--all").out.splitlines())
        done = say(*words)
        assert done.code == 0, done.err
        rows = say("log", "--all").out.splitlines()
        head, new = rows[0], rows[1 : 1 + len(rows) - (before or 1)]
        return [row[head.index("ABOUT") :] for row in new]

    def change(*names: str) -> None:
        for name in names:
            with open(os.path.join(home, name), "a", encoding="utf-8") as file:
                file.write("changed")

    change("SOUL.md")
    restored, kept = about("restore", "SOUL.md", "--yes")
    assert restored == f"SOUL.md {short}"
    assert kept.endswith(" before restore") and kept.split()[0] != short
    operation = say("log", "-n", "1").out.splitlines()[1].split()[0]
    assert about("undo") == [f"restore {operation}"]
    change("SOUL.md", "config.yaml")
    assert about("restore", "SOUL.md", "config.yaml", "--yes")[0] == f"SOUL.md +1 {short}"
    assert about("restore", "--yes")[0] == f"all {short}"
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as database:
        database.execute("delete from messages where session_id = 'session-1'")
        database.execute("delete from sessions where id = 'session-1'")
        database.commit()
    assert about("sessions", "restore", "session-1", "--from", short)[0] == f"session-1 {short}"
    assert about("connect", "hermes", "--yes") == ["hermes"]
    profile = os.path.join(home, "profiles", "writer")
    assert about("connect", "hermes", "--home", profile, "--yes") == ["hermes writer"]
