"""`create_snapshot`: what a home's databases may be in, what is checked when, and what is said about it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import pytest

import safekept.actions.snapshots.create as action
import safekept.vault.write.intake
import safekept.vault.write.memory
from safekept.core.entries import Outcome
from safekept.core.sqlite.check import Check
from safekept.home.scan.scanning import Selection
from safekept.vault.errors import VaultLocked
from safekept.vault.snapshots import list_snapshots
from safekept.vault.tags import forgotten_at
from support.home.scanned import plant, plant_database
from support.vault.snapshots import home_tree, is_whole, manifest_of, opened, rows, stored_files, take

HOUR = 3600 * 1_000_000_000


@pytest.fixture
def home(tmp_path):
    path = os.path.join(tmp_path, "user", ".hermes")
    plant(
        path,
        {
            "SOUL.md": "be kind\n",
            "config.yaml": "a: 1\n",
            "memories/MEMORY.md": "one\n§\ntwo\n",
            "skills/x/SKILL.md": "x",
        },
    )
    plant_database(os.path.join(path, "state.db"), rows=200, journal="wal")
    return path


@pytest.fixture
def trusting(monkeypatch):
    monkeypatch.setattr(safekept.vault.write.memory, "RACY_NS", 0)
    monkeypatch.setattr(safekept.vault.write.intake, "RACY_NS", 0)


@pytest.fixture
def checks(monkeypatch):
    """How often databases are really checked."""
    ran: list[str] = []
    real = Check.__init__

    def counted(self, connection, check, queries, size):
        if check:
            ran.append("checked")
        real(self, connection, check, queries, size)

    monkeypatch.setattr(Check, "__init__", counted)
    return ran


def execute(home: str, *statements: str, name: str = "state.db") -> None:
    with closing(sqlite3.connect(os.path.join(home, name), isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def set_clock(monkeypatch, hours: float) -> None:
    real = time.time_ns
    monkeypatch.setattr(action.time, "time_ns", lambda: real() + int(hours * HOUR))


def test_a_snapshot_says_what_it_is(here, home):
    result = take(here, home, kind="quick", label="before, 100% sure", selection=Selection(quick=True))
    snapshot = result.snapshot
    assert snapshot.tags == ("kind:quick", "layout:hermes", "label:before%2C 100%25 sure", "state:sound")
    assert snapshot.paths == (os.path.realpath(home),)
    assert result.id == snapshot.id
    manifest = manifest_of(here, snapshot)
    assert manifest["label"] == "before, 100% sure"
    assert manifest["home"] == os.path.realpath(home)
    assert manifest["scope"]["quick"] is True
    assert manifest["census"] == result.census
    assert manifest["databases"]["state.db"]["state"] == "sound"
    assert manifest["databases"]["state.db"]["counts"] == {"sessions": 200, "messages": 400}
    assert manifest["databases"]["state.db"]["checked"]
    assert manifest["complete"] is True
    assert sorted(stored_files(here, snapshot)) == [
        "SOUL.md",
        "config.yaml",
        "memories/MEMORY.md",
        "state.db",
    ]
    assert snapshot.summary["total_files_processed"] == result.files == 4
    assert snapshot.extra["safekept"]["databases"] == {"state.db": "sound"}
    assert snapshot.extra["safekept"]["added"] == result.added
    (line,) = [record for record in here.journal.read() if record.verb == "snapshot"]
    assert (line.state, line.facts["snapshot"]) == ("done", result.id)


def test_every_profile_and_what_lies_outside_the_home_is_included(here, home):
    plant(home, {"profiles/coder/config.yaml": "b: 2\n", "profiles/coder/SOUL.md": "code\n"})
    plant(home, {"config.yaml": "memory:\n  provider: honcho\n"})
    plant(os.path.join(here.places.user_home, ".honcho"), {"config.json": "{}"})
    result = take(here, home)
    found = stored_files(here, result.snapshot)
    assert found["profiles/coder/SOUL.md"] == b"code\n"
    assert found["_external/.honcho/config.json"] == b"{}"
    assert manifest_of(here, result.snapshot)["external"] == {
        "_external/.honcho": os.path.join(os.path.realpath(here.places.user_home), ".honcho")
    }
    assert set(result.census) == {"default", "profiles/coder"}


def test_a_database_is_checked_when_it_changed_and_not_more_than_once_in_six_hours(
    here, home, trusting, checks, monkeypatch
):
    assert take(here, home).databases["state.db"]["state"] == "sound"
    assert len(checks) == 1
    assert take(here, home).databases["state.db"]["state"] == "sound", "the very bytes that were checked"
    assert len(checks) == 1
    execute(home, "insert into messages(text) values ('new')")
    changed = take(here, home)
    assert changed.databases["state.db"]["state"] == "unverified"
    assert changed.databases["state.db"]["checked"] is None
    assert "state:unverified" in changed.snapshot.tags
    assert changed.census["default"]["messages"] == 401
    assert len(checks) == 1
    set_clock(monkeypatch, 6.1)
    assert take(here, home).databases["state.db"]["state"] == "sound", "unchanged since, and due"
    assert len(checks) == 2
    assert take(here, home).databases["state.db"]["state"] == "sound"
    assert len(checks) == 2


def test_a_database_that_was_replaced_is_checked_whatever_was_found_of_the_one_before(
    here, home, trusting, checks
):
    take(here, home)
    path = os.path.join(home, "state.db")
    shutil.copy(path, path + ".new")
    with closing(sqlite3.connect(path + ".new")) as database, database:
        database.execute("insert into messages(text) values ('of another')")
    os.rename(path + ".new", path)
    replaced = take(here, home)
    assert replaced.databases["state.db"]["state"] == "sound" and len(checks) == 2


@pytest.mark.parametrize("kind", ["pre-update", "pre-migration", "pre-import", "pre-restore"])
def test_before_what_is_risky_every_database_is_checked(here, home, trusting, checks, kind):
    take(here, home)
    take(here, home, kind=kind)
    assert len(checks) == 2
    take(here, home, check="never")
    take(here, home, check="always")
    assert len(checks) == 3


def test_a_clock_set_back_does_not_put_checks_off(here, home, trusting, checks, monkeypatch):
    set_clock(monkeypatch, 1000)
    take(here, home)
    monkeypatch.undo()
    execute(home, "insert into messages(text) values ('new')")
    assert take(here, home).databases["state.db"]["state"] == "sound"


def test_bytes_that_come_back_are_as_sound_as_they_were(here, home, trusting, checks):
    take(here, home)
    status = os.stat(os.path.join(home, "state.db"))
    os.utime(os.path.join(home, "state.db"), ns=(1, status.st_mtime_ns + 5_000_000_000))
    again = take(here, home)
    assert again.databases["state.db"]["state"] == "sound"
    assert len(checks) == 1


def vacuumed(home: str) -> None:
    execute(home, "delete from messages where id % 2", "vacuum")


def other_page_size(home: str) -> None:
    execute(home, "pragma journal_mode=delete", "pragma page_size=16384", "vacuum", "pragma journal_mode=wal")


def in_delete_mode(home: str) -> None:
    execute(home, "pragma journal_mode=delete", "insert into messages(text) values ('d')")


def truncated_table(home: str) -> None:
    execute(home, "delete from messages", "pragma wal_checkpoint(truncate)", "vacuum")


def replaced(home: str) -> None:
    os.unlink(os.path.join(home, "state.db"))
    plant_database(os.path.join(home, "state.db"), rows=7, journal="delete")


def grown(home: str) -> None:
    execute(home, "insert into messages(text) select hex(randomblob(2000)) from messages")


def put_in_place(home: str) -> None:
    other = os.path.join(os.path.dirname(home), "other.db")
    plant_database(other, rows=9, journal="wal")
    with open(other, "rb") as source, open(os.path.join(home, "state.db"), "r+b") as target:
        data = source.read()
        target.write(data)
        target.truncate(len(data))
    os.unlink(other)


@pytest.mark.parametrize(
    "change", [vacuumed, other_page_size, in_delete_mode, truncated_table, replaced, grown, put_in_place]
)
def test_whatever_becomes_of_a_database_its_committed_state_is_stored(here, home, trusting, tmp_path, change):
    take(here, home)
    change(home)
    with closing(sqlite3.connect(os.path.join(home, "state.db"))) as connection:
        expected = connection.execute("select count(*) from messages").fetchone()[0]
    result = take(here, home)
    assert result.complete, result.remarks
    assert rows(stored_files(here, result.snapshot)["state.db"], str(tmp_path)) == expected
    assert result.census["default"]["messages"] == expected
    again = take(here, home)
    assert again.census == result.census
    assert home_tree(here, again.snapshot) == home_tree(here, result.snapshot)
    is_whole(here)


def test_rows_that_are_only_in_the_log_are_stored_and_a_new_one_is_seen(here, home, trusting, tmp_path):
    with closing(sqlite3.connect(os.path.join(home, "state.db"), isolation_level=None)) as writer:
        writer.execute("pragma wal_autocheckpoint=0")
        for number in range(3):
            writer.execute("insert into messages(text) values ('in the log')")
            result = take(here, home, isolated=True)
            assert rows(stored_files(here, result.snapshot)["state.db"], str(tmp_path)) == 401 + number
        before = len(list_after(here))
        quiet = take(here, home, isolated=True)
        assert quiet.reused >= 2
        assert len(list_after(here)) == before + 1
        assert quiet.census["default"]["messages"] == 403


def list_after(here):
    with opened(here) as repository:
        return list_snapshots(repository)[0]


LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma journal_mode=delete")
connection.execute("begin exclusive")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_locked_database_is_given_up_by_name_and_the_rest_is_stored(here, home):
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", LOCKER, os.path.join(home, "state.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout.readline() == b"locked\n"
        result = take(here, home, kind="quick", deadline=0.3)
    finally:
        process.communicate()
    assert not result.complete
    (remark,) = [remark for remark in result.remarks if remark.outcome is Outcome.LOCKED]
    assert remark.path == "state.db"
    assert "locked for 0.3 s" in remark.reason
    assert "incomplete" in result.snapshot.tags
    assert result.forgotten == ()
    assert "state.db" not in stored_files(here, result.snapshot)
    assert stored_files(here, result.snapshot)["SOUL.md"] == b"be kind\n"
    assert result.census["default"]["messages"] is None, "unknown, not zero"
    whole = take(here, home)
    assert whole.complete
    assert whole.census["default"]["messages"] == 400


@pytest.mark.needs("ofd_locks", "such locks hold a database still")
def test_a_damaged_database_is_stored_and_said_each_time(here, home, trusting):
    path = os.path.join(home, "state.db")
    execute(home, "pragma journal_mode=delete")
    with open(path, "r+b") as file:
        file.seek(4096 + 100)
        file.write(b"\xff" * 3000)
    for turn in range(2):
        result = take(here, home)
        assert not result.complete
        (remark,) = [remark for remark in result.remarks if remark.incomplete]
        assert remark.outcome is Outcome.DAMAGED
        assert "stored exactly as it is, but the database is damaged" in remark.reason
        assert {"state:damaged", "incomplete"} <= set(result.snapshot.tags), turn
        with open(path, "rb") as file:
            assert stored_files(here, result.snapshot)["state.db"] == file.read()


def test_a_database_that_vanishes_is_no_error(here, home, monkeypatch):
    from safekept.home.scan.opener import Opener

    real = Opener.database

    def gone(self, path, profile, counts):
        os.unlink(os.path.join(home, path))
        return real(self, path, profile, counts)

    monkeypatch.setattr(Opener, "database", gone)
    result = take(here, home)
    assert result.complete
    assert [remark.outcome for remark in result.remarks if remark.path == "state.db"] == [Outcome.GONE]
    assert result.databases == {}


def test_quick_and_full_snapshots_share_what_is_known_and_do_not_push_each_other_out(here, home, trusting):
    take(here, home)
    first = take(here, home, kind="quick", selection=Selection(quick=True))
    assert first.databases["state.db"]["state"] == "sound"
    assert first.reused == 1, "the database: known from the full one"
    for _ in range(2):
        assert take(here, home).reused == 3
        assert take(here, home, kind="quick", selection=Selection(quick=True)).reused == 2


def test_what_safekept_keeps_inside_a_home_is_left_out(here, home):
    inside = here.changed(
        data_directory=os.path.join(home, "hf-data"), cache_directory=os.path.join(home, "hf-cache")
    )
    inside = inside.changed(vault=os.path.join(here.places.user_home, "vault"))
    for _ in range(2):
        result = take(inside, home)
        assert not [path for path in stored_files(inside, result.snapshot) if path.startswith("hf-")]
    reasons = {remark.path: remark.reason for remark in result.remarks}
    assert "where this backup or a store of safekept's is kept" in reasons["hf-data"]


def test_older_quick_snapshots_go_only_after_a_complete_one(here, home, trusting):
    taken = [take(here, home, kind="quick", selection=Selection(quick=True)) for _ in range(20)]
    assert not any(result.forgotten for result in taken)
    newer = take(here, home, kind="quick", selection=Selection(quick=True))
    assert newer.forgotten == (taken[0].id,)
    assert [one for one in list_after(here) if forgotten_at(one) is not None]
    kept = take(here, home, kind="quick", selection=Selection(quick=True), retention=False)
    assert kept.forgotten == ()


def test_a_vault_that_somebody_has_to_himself_is_waited_for_and_then_named(here, home):
    take(here, home)
    with opened(here) as repository, repository.lock(exclusive=True), pytest.raises(VaultLocked):
        take(here, home, wait=0.2)
    states = [record.state for record in here.journal.read() if record.verb == "snapshot"]
    assert states == ["done", "failed"]


def test_a_cache_that_cannot_be_written_is_no_error(here, home, tmp_path):
    blocked = os.path.join(tmp_path, "not a directory")
    plant(str(tmp_path), {"not a directory": "x"})
    odd = here.changed(cache_directory="")
    first = take(odd, home)
    second = take(odd, home)
    assert second.reused == 0
    assert home_tree(odd, first.snapshot) == home_tree(odd, second.snapshot)
    assert os.path.isfile(blocked)
    shutil.rmtree(here.places.vault)


def test_the_manifest_of_an_unchanged_home_is_stored_once(here, home, trusting):
    first, second = take(here, home), take(here, home)
    assert manifest_of(here, first.snapshot) == manifest_of(here, second.snapshot)
    third = take(here, home, label="named")
    assert manifest_of(here, third.snapshot)["label"] == "named"


def test_a_layout_that_asks_something_else_gets_its_own_answer(here, home, trusting):
    take(here, home)
    layout = here.choices.layouts["hermes"]
    counts = tuple(
        replace(count, query="SELECT 7") if count.name == "messages" else count for count in layout.counts
    )
    other = here.changed(layouts={**here.choices.layouts, "hermes": replace(layout, counts=counts)})
    assert take(other, home).census["default"]["messages"] == 7
    assert take(here, home).census["default"]["messages"] == 400
