"""What a restore stored by itself is never the way back that is advised, and excuses no loss."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import time
from contextlib import closing

import pytest

from safekept.core.sqlite.hold.unopened import fresh_for
from support.home.homes import make_hermes_home
from support.vault.snapshots import take


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"))


def messages(home):
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as database:
        return database.execute("SELECT count(*) FROM messages").fetchone()[0]


def delete_messages(home, left=4):
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as database:
        database.execute("DELETE FROM messages WHERE id > ?", (left,))
        database.commit()


def empty(home):
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        if os.path.exists(os.path.join(home, name)):
            os.unlink(os.path.join(home, name))
    open(os.path.join(home, "state.db"), "w").close()


def reasons(say):
    found = json.loads(say("status", "--json").out)["verdict"]["reasons"]
    return {one["code"]: (one["text"], one["fix"]) for one in found}


def findings(say):
    found = json.loads(say("doctor", "--json").out)["findings"]
    return {one["code"]: (one["text"], one["fix"]) for one in found}


def undo_point(say):
    """The id of the snapshot that the last restore stored."""
    every = json.loads(say("snapshot", "list", "--json").out)["snapshots"]
    return next(one["id"][:8] for one in every if one["kind"] == "pre-restore")


@pytest.fixture
def mended(here, home, say):
    """A loss that a restore undid: the id of the good snapshot, and of the one that holds the loss."""
    good = take(here, home).id[:8]
    assert messages(home) == 40
    delete_messages(home)
    assert say("restore", "state.db", "--yes").code == 0
    assert messages(home) == 40
    return good, undo_point(say)


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_damaged_database_comes_back_from_what_was_taken_and_not_from_what_a_restore_stored(
    here, home, say, mended
):
    good, _ = mended
    empty(home)
    for screen in (reasons(say), findings(say)):
        assert f"safekept snapshot restore {good} state.db" in str(screen["database-damaged"][1])
    stored = say("snapshot")
    assert re.findall(r"snapshot restore (\w{8}) state\.db", stored.out + stored.err) == [good]
    assert say("snapshot", "restore", good, "state.db", "--yes").code == 0
    assert messages(home) == 40


def test_a_snapshot_that_holds_the_loss_is_not_preferred_to_one_that_does_not(here, home, say):
    good = take(here, home).id[:8]
    delete_messages(home)
    take(here, home, check="always")
    empty(home)
    for screen in (reasons(say), findings(say)):
        assert f"safekept snapshot restore {good} state.db" in str(screen["database-damaged"][1])


def test_who_brings_a_mended_loss_back_hears_of_it_again(here, home, say, mended):
    good, lossy = mended
    assert say("snapshot", "restore", lossy, "state.db", "--yes").code == 0
    assert messages(home) == 4
    for screen in (reasons(say), findings(say)):
        text, fix = screen["lost-since"]
        assert "36 of 40 messages are gone" in text
        assert f"safekept snapshot restore {good} state.db" in str(fix)
    assert "36 of 40 messages are gone" in say("snapshot").err
    assert "alarm-loss" in reasons(say), "the next snapshot does not make it quiet"


def test_a_loss_that_was_heard_of_and_mended_is_one_again_when_it_comes_back(here, home, say):
    take(here, home)
    memories = os.path.join(home, "memories")
    assert say("guard", "--", "rm", "-rf", memories).code == 3
    assert say("restore", "memories", "--yes").code == 0
    assert "alarm-loss" not in reasons(say)
    shutil.rmtree(memories)
    assert "memories" in reasons(say)["lost-since"][0]
    say("snapshot")
    assert "alarm-loss" in reasons(say)


def test_an_older_state_that_was_left_again_excuses_nothing(here, home, say):
    old = take(here, home).id[:8]
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as database:
        columns = "session_id, role, content, timestamp"
        for _ in range(200):
            database.execute(f"INSERT INTO messages ({columns}) VALUES ('session-0', 'user', 'x', 1)")
        database.commit()
    new = take(here, home).id[:8]
    assert say("snapshot", "restore", old, "state.db", "--yes").code == 0
    assert "lost-since" not in reasons(say), "it was asked for, from the list"
    assert say("snapshot", "restore", new, "state.db", "--yes").code == 0
    assert messages(home) == 240
    delete_messages(home, left=40)
    # A quick look leaves what was written a moment ago, for as long as the disk's clock takes for a tick.
    time.sleep(fresh_for(os.lstat(os.path.join(home, "state.db"))))
    assert "200 of 240 messages are gone" in reasons(say)["lost-since"][0]


def test_a_file_that_the_newest_lacks_is_offered_from_what_was_taken(here, home, say):
    note = os.path.join(home, "memories", "notes.md")
    with open(note, "w") as file:
        file.write("as it was")
    good = take(here, home).id[:8]
    os.unlink(note)
    new = take(here, home).id[:8]
    with open(note, "w") as file:
        file.write("broken")
    assert say("snapshot", "restore", new, "memories", "--exact", "--yes").code == 0
    assert not os.path.exists(note), "what was broken is in the snapshot that the restore stored"
    said = say("snapshot", "restore", new, "memories/notes.md", "--yes")
    assert f"snapshot restore {good} memories/notes.md" in said.err
