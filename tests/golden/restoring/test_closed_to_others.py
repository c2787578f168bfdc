"""Secrets and conversations come back readable by their owner alone, and the plan says so."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing

import pytest

from support.vault.snapshots import take


def mode(home, name):
    return stat.S_IMODE(os.stat(os.path.join(home, name)).st_mode)


@pytest.mark.parametrize("how", ["snapshot", "archive"])
@pytest.mark.needs("modes", "it looks at modes")
def test_the_plan_says_what_it_closes_and_everything_else_keeps_its_mode(here, home, say, tmp_path, how):
    for name, wanted in (("state.db", 0o644), (".env", 0o640), ("SOUL.md", 0o664)):
        os.chmod(os.path.join(home, name), wanted)
    into = str(tmp_path / "look")
    if how == "snapshot":
        words = ("snapshot", "restore", take(here, home).id[:8], "--into", into)
        only = ("state.db", ".env")
    else:
        archive = str(tmp_path / "home.zip")
        say("backup", "-o", archive)
        words = ("import", archive, "--into", into)
        only = ("--only", "state.db", "--only", ".env")
    line = "  Closes     2 files to others: secrets and conversations come back as 0600\n"
    assert line in say(*words, *only, "--dry-run").out
    assert say(*words, "--yes").code == 0
    assert (mode(into, "state.db"), mode(into, ".env"), mode(into, "SOUL.md")) == (0o600, 0o600, 0o664)


@pytest.mark.needs("modes", "it looks at modes")
def test_what_is_closed_already_is_not_said_to_be_closed(here, home, say):
    database = os.path.join(home, "state.db")
    os.chmod(database, 0o644)
    short = take(here, home).id[:8]
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("delete from messages")
    assert "Closes" in say("restore", short, "state.db", "--dry-run").out
    os.chmod(database, 0o600)
    assert "Closes" not in say("restore", short, "state.db", "--dry-run").out


def test_a_plan_that_closes_nothing_says_nothing_of_it(here, home, say):
    short = take(here, home).id[:8]
    with open(os.path.join(home, "SOUL.md"), "a") as file:
        file.write("more\n")
    assert "Closes" not in say("restore", short, "SOUL.md", "--dry-run").out
