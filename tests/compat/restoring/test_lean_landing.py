"""Lean databases and bad luck: kills, full disks, damage, odd schemas. All comes back, or it says why."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from safekept.actions.archives.backup import BackupRequest, backup
from safekept.actions.restoring.import_ import ImportRequest, prepare_import
from safekept.actions.restoring.restore import RestoreRequest, prepare_restore
from safekept.core.entries import CHUNK
from safekept.core.events import Event
from safekept.core.files import NoRoom
from safekept.core.sqlite.lean import lean
from safekept.home.landing import landing
from support.commands.in_process import spoken
from support.home.homes import differences, tree_facts
from support.home.lean_homes import make_lean_home, rows
from support.restoring.drills import drilled
from support.vault.snapshots import manifest_of, stored_files, take

INDEXES = ["messages_fts", "messages_fts_trigram"]
EVERYTHING = (
    "messages",
    "sessions",
    "messages_fts_docsize",
    "messages_fts_content",
    "messages_fts_trigram_content",
)


@pytest.fixture(scope="module")
def small(tmp_path_factory, hermes_python):
    return make_lean_home(str(tmp_path_factory.mktemp("small") / ".hermes"), hermes_python, 400, spoken=10)


@pytest.fixture
def home(here, small):
    home = os.path.join(here.places.user_home, ".hermes")
    shutil.copytree(small, home)
    return home


def database_of(home):
    return os.path.join(home, "state.db")


def change(home, *statements):
    with closing(sqlite3.connect(database_of(home), isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def restore(here, listener=lambda _: None, **options):
    with prepare_restore(here, RestoreRequest("latest", **options)) as prepared:
        return prepared.carry_out(listener).landed


def left_out(result):
    return [one["table"] for one in result.databases["state.db"].get("lean", {}).get("tables", ())]


def test_a_restore_tells_of_the_rebuild_and_replaces_the_home_with_a_searchable_one(here, home):
    before = rows(database_of(home), *EVERYTHING)
    take(here, home)
    change(home, "delete from messages where id > 5")
    events: list[Event] = []
    landed = restore(here, events.append)
    assert landed.replaced == 1 and landed.timings["rebuild"] > 0
    told = [event for event in events if event.phase == "rebuild"]
    assert told and told[-1].path == "state.db" and told[-1].total > 0
    assert rows(database_of(home), *EVERYTHING) == before
    with open(database_of(home), "rb") as file:
        assert file.read(20)[18:20] == b"\2\2", "in the journal mode that it had"
    assert os.stat(database_of(home)).st_mode & 0o777 == 0o600


def test_a_restore_that_changes_nothing_in_a_database_rebuilds_nothing(here, home, monkeypatch):
    monkeypatch.setattr("safekept.vault.write.memory.RACY_NS", 0)
    take(here, home)
    os.unlink(os.path.join(home, "SOUL.md"))
    before, events = os.stat(database_of(home)), list[Event]()
    landed = restore(here, events.append)
    assert (landed.created, landed.replaced) == (1, 0)
    assert "rebuild" not in landed.timings and "rebuild" not in {event.phase for event in events}
    assert os.stat(database_of(home)) == before, "it was not even opened for writing"
    change(home, "delete from messages where id = 5", "pragma wal_checkpoint(truncate)")
    assert restore(here, events.append).timings["rebuild"] > 0, "and one that does rebuilds it"


KILLED = """
import os, signal, sys
from safekept.core.sqlite.lean import lean
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
lean._prove = die
from safekept.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def test_a_kill_during_the_rebuild_leaves_the_old_home(here, home, launcher_environment):
    take(here, home)
    change(home, "delete from messages where id > 5", "pragma wal_checkpoint(truncate)")
    before = tree_facts(home)
    command = [sys.executable, "-c", KILLED, "snapshot", "restore", "latest", "--yes", "--home", home]
    done = subprocess.run(command, env=launcher_environment, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert differences(before, tree_facts(home)) == []
    assert restore(here).replaced == 1, "and the next restore just goes on"
    assert rows(database_of(home), "messages")["messages"][-1][0] > 300
    beside = [name for name in os.listdir(here.places.user_home) if "landing" in name]
    for name in beside:
        for directory, _, names in os.walk(os.path.join(here.places.user_home, name)):
            assert "staged" not in os.path.relpath(directory, here.places.user_home).split("/") or not names


def test_ctrl_c_during_the_rebuild_ends_it_and_leaves_the_old_home(here, home):
    take(here, home)
    change(home, "delete from messages where id > 5", "pragma wal_checkpoint(truncate)")
    before = tree_facts(home)

    def interrupt(event):
        if event.phase == "rebuild":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(here, interrupt)
    assert differences(before, tree_facts(home)) == []
    assert restore(here).replaced == 1


def test_a_disk_too_small_for_the_rebuild_is_told_before_anything_is_staged(here, home, small_filesystem):
    take(here, home)
    size = os.path.getsize(database_of(home))
    place = small_filesystem((size + (2 << 20) + 65536) // 1024)
    target = os.path.join(place, "restored")
    with pytest.raises(NoRoom, match=r"There is not enough room beside .*: [\d,]+ bytes are needed"):
        restore(here, into=target)
    assert not os.path.exists(target)


def test_a_disk_that_fills_up_during_the_rebuild_leaves_the_target_as_it_was(
    here, home, small_filesystem, monkeypatch
):
    long = " ".join(f"word{number}" for number in range(250_000))
    with closing(sqlite3.connect(database_of(home), isolation_level=None)) as connection:
        connection.execute(
            "insert into messages(session_id, role, content, timestamp) values ('said', 'user', ?, 1)",
            (long,),
        )
    result = take(here, home)
    stored = stored_files(here, result.snapshot)["state.db"]
    # What is left out reads as zeros, and those take no room before they are filled.
    pieces = [stored[at : at + CHUNK] for at in range(0, len(stored), CHUNK)]
    staged = sum(len(piece) for piece in pieces if piece.strip(b"\0"))
    assert staged + (3 << 20) < len(stored)
    place = small_filesystem((staged + (1 << 20)) // 1024)
    target = os.path.join(place, "restored")
    monkeypatch.setattr(landing, "_check_room", lambda _: None)
    with pytest.raises(NoRoom) as caught:
        restore(here, into=target)
    assert "the search index of `state.db` could not be rebuilt" in caught.value.what
    assert caught.value.kept == "The home is as it was; what was staged has been removed"
    assert any("--without-search`" in step and "snapshot restore" in step for step in caught.value.advice())
    assert not os.path.exists(target)
    landed = restore(here, into=target, without_search=True)
    assert "to fill it, with the agent stopped: INSERT INTO" in landed.remarks[0].reason
    assert rows(os.path.join(target, "state.db"), "messages") == rows(database_of(home), "messages")


def test_an_index_that_does_not_give_what_was_recorded_refuses_and_names_the_way_out(here, home, say):
    take(here, home)
    change(home, "delete from messages where id > 5", "pragma wal_checkpoint(truncate)")
    before = tree_facts(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lean, "_search", lambda *_: (12345, 0))
        refused = say("snapshot", "restore", "latest", "--yes")
    assert refused.code == 1
    assert "search-not-rebuilt" in refused.err and "finds 12345 rows after the rebuild" in refused.err
    assert "The home is as it was; what was staged has been removed" in refused.err
    assert "--without-search`" in refused.err
    assert differences(before, tree_facts(home)) == []
    done = say("snapshot", "restore", "latest", "--yes", "--without-search")
    assert done.code == 0, done.err
    assert "restored without its search index" in done.out
    assert rows(database_of(home), "messages_fts_docsize") == {"messages_fts_docsize": []}
    assert restore(here).replaced == 1, "the same once more, and with its search"
    assert len(rows(database_of(home), "messages_fts_docsize")["messages_fts_docsize"]) > 300


def test_an_index_damaged_in_the_home_is_told_and_repaired_by_the_restore(here, home):
    before = rows(database_of(home), *EVERYTHING)
    with closing(sqlite3.connect(database_of(home))) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
        pages = connection.execute(
            "select pageno from dbstat where name = 'messages_fts_trigram_data' and pagetype = 'leaf'"
        ).fetchall()
    with open(database_of(home), "r+b") as file:
        for (page,) in pages[3:6]:
            file.seek((page - 1) * 4096)
            file.write(b"\xff" * 4096)
    result = take(here, home, check="always")
    assert left_out(result) == INDEXES
    assert result.complete and result.databases["state.db"]["state"] == "sound", "what is stored is"
    (remark,) = [one for one in result.remarks if one.path == "state.db"]
    assert "a search index is damaged in the home" in remark.reason
    assert "it is left out here, and a restore rebuilds it" in remark.reason
    restore(here)
    assert rows(database_of(home), *EVERYTHING) == before


def test_an_index_out_of_step_is_told_and_repaired_by_the_restore(here, home):
    before = rows(database_of(home), *EVERYTHING)
    change(home, "update messages_fts_docsize set sz = x'01'")
    result = take(here, home)
    assert left_out(result) == INDEXES and result.complete
    (remark,) = [one for one in result.remarks if one.path == "state.db"]
    assert "the search index `messages_fts` is damaged or out of step in the home" in remark.reason
    restore(here)
    assert rows(database_of(home), *EVERYTHING) == before


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (
            ["drop trigger messages_fts_insert"],
            "messages_fts in full: a trigger that feeds it is missing or was changed",
        ),
        (
            ["insert into messages_fts(rowid, content) values (99999, 'typed by hand')"],
            "messages_fts in full: 1 row is in it or in `messages`, but not in both",
        ),
        (
            ["update messages_fts set content = 'other words' where rowid = 3"],
            "messages_fts in full: the text of 1 rows is not what `messages` would give",
        ),
    ],
)
def test_a_table_that_is_not_exactly_derived_is_stored_in_full_and_snapshot_show_says_why(
    here, home, say, statements, reason
):
    change(home, *statements)
    done = say("snapshot")
    assert done.code == 0, done.err
    assert "in full" not in done.out + say("status").out, "nothing that a person has to do anything about"
    snapshot, shown = (" ".join(text.split()) for text in (done.out, say("snapshot", "show", "latest").out))
    assert reason in shown
    assert "search indexes left out (" in snapshot and "a restore rebuilds them" in snapshot
    assert "stored without messages_fts_trigram" in shown
    before = rows(database_of(home), *EVERYTHING)
    change(home, "delete from messages")
    restore(here)
    assert rows(database_of(home), *EVERYTHING) == before, "what was typed by hand is there too"


def test_a_schema_of_another_hermes_is_stored_in_full(here, home):
    change(
        home,
        "drop trigger messages_fts_update",
        "drop trigger messages_fts_trigram_update",
    )
    result = take(here, home)
    assert left_out(result) == []
    kept = dict(manifest_of(here, result.snapshot)["databases"]["state.db"]["lean"]["kept"])
    assert kept == dict.fromkeys(INDEXES, "a trigger that feeds it is missing or was changed")
    assert stored_files(here, result.snapshot)["state.db"][:16] == b"SQLite format 3\0"


def test_full_and_lean_snapshots_in_turn_share_every_other_page(here, home, say, tmp_path):
    first = take(here, home)
    full = take(here, home, full=True)
    assert left_out(first) == INDEXES and "lean" not in full.databases["state.db"]
    stored = stored_files(here, full.snapshot)["state.db"]
    assert rows_in(stored, tmp_path) == rows(database_of(home), *EVERYTHING)
    again = take(here, home)
    assert left_out(again) == INDEXES
    assert again.added < 40_000, "nothing but the account of it is new"
    assert full.added < len(stored), "pages that both hold are stored once"
    assert left_out(take(here.changed(databases="full"), home)) == []
    assert left_out(take(here.changed(full_homes=(home,)), home)) == []
    done = json.loads(say("snapshot", "--full", "--json").out)
    assert "lean" not in done["databases"]["state.db"]
    for result in (first, full, again):
        target = str(tmp_path / result.id[:8])
        with prepare_restore(here, RestoreRequest(result.id, into=target)) as prepared:
            prepared.carry_out()
        assert rows(os.path.join(target, "state.db"), *EVERYTHING) == rows(database_of(home), *EVERYTHING)


def rows_in(data, tmp_path):
    path = str(tmp_path / "judged.db")
    with open(path, "wb") as file:
        file.write(data)
    return rows(path, *EVERYTHING)


def test_text_is_compared_at_the_first_lean_snapshot_and_when_the_schema_changed(here, home):
    def compared():
        return take(here, home).databases["state.db"]["lean"]["compared"]

    assert compared()
    change(home, "update messages set token_count = 9 where id = 3")
    assert not compared()
    change(home, "create table more(x)")
    assert compared()
    change(home, "update messages set token_count = 10 where id = 3")
    assert not compared()


def test_snapshot_diff_compares_a_lean_database_with_what_would_be_stored_now(here, home, say):
    take(here, home)
    os.utime(database_of(home))
    same = json.loads(say("snapshot", "diff", "latest", "--json").out)
    assert [one["path"] for one in same["changes"]] == []
    change(home, "delete from messages where id in (2, 4)")
    told = json.loads(say("snapshot", "diff", "latest", "--json").out)
    assert [one["path"] for one in told["changes"]] == ["state.db"]
    counts = told["databases"]["state.db"]["messages"]
    assert counts["after"] == counts["before"] - 2


def test_a_drill_proves_lean_and_full_snapshots(here, home):
    for options in ({}, {"full": True}):
        change(home, "update messages set token_count = token_count + 1 where id = 3")
        take(here, home, **options)
        receipt = drilled(here, home=home).receipt
        assert receipt.ok, [row for row in receipt.rows if row.state == "failed"]
        (row,) = [row for row in receipt.rows if row.check == "full-text"]
        assert row.state == "passed" and row.count == 2


def test_a_conversation_comes_back_out_of_a_lean_snapshot(here, home, say):
    take(here, home)
    change(home, "delete from messages where session_id = 'said'", "delete from sessions where id = 'said'")
    assert say("sessions", "show", "said").code == 0
    done = say("sessions", "restore", "said")
    assert done.code == 0, done.err
    with closing(sqlite3.connect(database_of(home))) as connection:
        found = connection.execute(
            "select count(*) from messages_fts_docsize"
            " where id in (select id from messages where session_id = 'said')"
        ).fetchone()
    assert found == (10,)


@pytest.mark.parametrize("form", ["zip", "tar.zst"])
def test_an_archive_is_full_unless_asked_and_a_lean_one_is_rebuilt_by_its_import(here, home, tmp_path, form):
    place = here.locate(home)
    before = rows(database_of(home), *EVERYTHING)
    sizes = {}
    for lean_one in (False, True):
        output = str(tmp_path / f"{lean_one}.{form}")
        written = backup(here, BackupRequest(place, output=output, form=form, lean=lean_one)).written
        assert written.complete
        sizes[lean_one] = os.path.getsize(output)
        target = str(tmp_path / f"from-{lean_one}")
        with prepare_import(here, ImportRequest(output, into=target)) as prepared:
            landed = prepared.carry_out().landed
        assert ("rebuild" in landed.timings) is lean_one
        assert rows(os.path.join(target, "state.db"), *EVERYTHING) == before
    assert sizes[True] < sizes[False] / 2
    assert drilled(here, str(tmp_path / f"True.{form}")).receipt.ok


def test_a_bare_machine_is_rebuilt_from_a_lean_snapshot(here, home, tmp_path, monkeypatch):
    before = rows(database_of(home), *EVERYTHING)
    assert left_out(take(here, home)) == INDEXES
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    answer = spoken(monkeypatch, str(bare))(
        "rebuild", here.places.vault, "--key-file", here.places.vault_key_file, "--json"
    )
    document = json.loads(answer.out)
    wrong = [row for row in document.get("rows", ()) if row["state"] == "failed"]
    assert (answer.code, wrong) == (0, []), answer.out
    assert document["proven"] is True
    assert rows(database_of(str(bare / ".hermes")), *EVERYTHING) == before
