"""Homes that plain restic stored, and restic on what safekept stored: both come back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from conftest import program
from support.home.homes import differences, make_hermes_home, tree_facts
from support.vault.snapshots import take

ROOT = (".",)


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=())


def make_vault(say):
    """One that restic writes into, as the guide says it."""
    for verb in ("init", "open"):
        assert say("vault", verb).code == 0


def restic(here, *words, cwd=None):
    environment = {
        **os.environ,
        "RESTIC_REPOSITORY": here.places.vault,
        "RESTIC_PASSWORD_FILE": here.places.vault_key_file,
        "RESTIC_CACHE_DIR": os.path.join(here.places.user_home, ".restic-cache"),
    }
    done = subprocess.run(
        [program("restic"), *words], env=environment, capture_output=True, text=True, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def damage(home):
    shutil.rmtree(os.path.join(home, "memories"))
    with open(os.path.join(home, "SOUL.md"), "w") as file:
        file.write("hijacked")


@pytest.mark.parametrize("given", ["the home", "the user's directory", "a relative path"])
def test_a_home_that_restic_stored_is_found_and_restored(here, home, say, given):
    make_vault(say)
    before = tree_facts(home, skip=ROOT)
    if given == "the home":
        restic(here, "backup", home)
    elif given == "the user's directory":
        restic(here, "backup", here.places.user_home, "--exclude", here.places.data_directory)
    else:
        restic(here, "backup", ".hermes", cwd=here.places.user_home)
    damage(home)
    assert json.loads(say("snapshot", "list", "--json").out)["snapshots"][0]["kind"] == "other"
    done = say("snapshot", "restore", "latest", "--yes")
    assert done.code == 0, done.err
    assert differences(before, tree_facts(home, skip=ROOT)) == []
    # Two snapshots by now: the undo point of the restore has no memories, and so no version of this one.
    assert say("history", "memories/MEMORY.md").out.startswith(
        "memories/MEMORY.md: 1 version in 2 snapshots\n"
    )


def test_a_live_database_that_restic_copied_with_its_log_is_folded(here, home, say):
    import sqlite3
    from contextlib import closing

    make_vault(say)
    state = os.path.join(home, "state.db")
    with closing(sqlite3.connect(state)) as connection:
        connection.execute("pragma wal_autocheckpoint=0")
        connection.execute("insert into state_meta values ('only', 'in the log')")
        connection.commit()
        restic(here, "backup", home)
    with closing(sqlite3.connect(state)) as connection:
        connection.execute("delete from state_meta")
        connection.commit()
    assert say("snapshot", "restore", "latest", "state.db", "--yes").code == 0
    with closing(sqlite3.connect(state)) as connection:
        assert connection.execute("select value from state_meta").fetchall() == [("in the log",)]
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_snapshot_without_a_home_is_refused_and_can_be_restored_by_saying_so(here, home, say, tmp_path):
    make_vault(say)
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.txt").write_text("meow")
    restic(here, "backup", str(other))
    short = json.loads(say("snapshot", "list", "--all", "--json").out)["snapshots"][0]["id"][:8]
    done = say("snapshot", "restore", short, "--yes")
    assert done.code == 1
    assert done.err == (
        f"Snapshot {short} was not made by safekept, and no agent's home that it knows is in it\n"
        "\n"
        "  Kept       Nothing was changed\n"
        f"  Next       See what it holds: `restic ls {short}`\n"
        "             If you know what it is, say so: "
        f"`safekept snapshot restore {short} --layout generic --into DIR`\n"
        "  Error      not-a-home\n"
    )
    target = str(tmp_path / "out")
    done = say("snapshot", "restore", short, "--layout", "generic", "--into", target)
    assert done.code == 0, done.err
    with open(os.path.join(target, "cat.txt")) as file:
        assert file.read() == "meow"


def test_tags_that_restic_changed_do_not_change_the_id_that_people_know(here, home, say):
    short = take(here, home).id[:8]
    restic(here, "tag", "--add", "mine", short)
    assert json.loads(say("snapshot", "list", "--json").out)["snapshots"][0]["id"][:8] == short
    damage(home)
    assert say("snapshot", "restore", short, "--yes").code == 0


def test_restic_restores_what_safekept_restores(here, home, say, tmp_path):
    take(here, home)
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    assert say("snapshot", "restore", "latest", "--into", ours).code == 0
    restic(here, "restore", "latest", "--target", theirs)
    theirs += home
    bound = ("gateway_state.json", "processes.json", ".")
    found = tree_facts(ours, databases="bytes", skip=bound)
    assert differences(tree_facts(theirs, databases="bytes", skip=bound), found) == []


# What a snapshot of restic's speaks for


def planned(say, short, *words):
    done = say("snapshot", "restore", short, "--exact", "--dry-run", "--json", *words)
    assert done.code == 0, done.err
    return json.loads(done.out)


def stored(here, *words):
    """The id of a snapshot that restic takes with these words."""
    for line in restic(here, "backup", "--json", *words).splitlines():
        told = json.loads(line)
        if told["message_type"] == "summary":
            return told["snapshot_id"][:8]
    raise AssertionError("restic took no snapshot")


def test_an_exact_restore_of_one_file_that_restic_stored_removes_nothing_else(here, home, say):
    make_vault(say)
    short = stored(here, os.path.join(home, "state.db"))
    before = tree_facts(home, skip=ROOT)
    done = say("snapshot", "restore", short, "--exact", "--yes")
    assert done.code == 0, done.err
    assert differences(before, tree_facts(home, skip=ROOT)) == []
    assert f"  Only for   {os.path.join(home, 'state.db')}: nothing else is removed\n" in done.out
    assert " 0 removed\n" in done.out


def test_an_exact_restore_removes_only_below_what_restic_was_given(here, home, say):
    make_vault(say)
    short = stored(here, os.path.join(home, "memories"), os.path.join(home, "state.db"))
    for name in ("memories/later.md", "later.md"):
        with open(os.path.join(home, name), "w") as file:
            file.write("written since")
    assert planned(say, short)["plan"]["remove"] == ["memories/later.md"]


def test_an_exact_restore_of_the_whole_home_that_restic_stored_removes_what_came_later(here, home, say):
    make_vault(say)
    short = stored(here, home)
    with open(os.path.join(home, "later.md"), "w") as file:
        file.write("written since")
    document = planned(say, short)
    assert document["plan"]["remove"] == ["later.md"]
    assert document["speaks_for"] is None


def test_an_exact_restore_removes_nothing_where_restic_left_things_out(here, home, say):
    make_vault(say)
    short = stored(here, home, "--exclude", "*.md")
    with open(os.path.join(home, "later.txt"), "w") as file:
        file.write("written since")
    before = tree_facts(home, skip=ROOT)
    done = say("snapshot", "restore", short, "--exact", "--yes")
    assert done.code == 0, done.err
    assert differences(before, tree_facts(home, skip=ROOT)) == []
    assert "  Only for   what it holds (restic was told to leave out *.md): nothing is removed\n" in done.out


def test_a_vault_in_which_restic_takes_snapshots_is_not_closed_to_it_unasked(here, home, say, monkeypatch):
    monkeypatch.setenv("SAFEKEPT_SEAT_BELT", "false")  # as before there was one
    assert say("vault", "init").code == 0
    restic(here, "backup", home)
    monkeypatch.delenv("SAFEKEPT_SEAT_BELT")
    said = say("snapshot", "--home", home)
    assert said.code == 0, said.err
    note = "Note: restic takes snapshots in this vault, too, so it stays open to an `rm -rf`."
    assert f"{note} Close it: `safekept vault close`" in said.err
    restic(here, "backup", home)
    assert note not in say("snapshot", "--home", home).err  # said once
    restic(here, "forget", "latest", "--prune")
    assert say("vault", "close").code == 0
    failed = subprocess.run(["rm", "-rf", here.places.vault], capture_output=True, text=True)
    assert failed.returncode != 0 and os.path.exists(os.path.join(here.places.vault, "config"))
