"""The makers of homes make what they claim, the same way every time."""

from __future__ import annotations

import os
import sqlite3
import stat

import pytest

from support.home.homes import LiveWriter, check_copy, differences, is_sqlite, make_hermes_home, tree_facts


def test_the_same_seed_makes_the_same_home(tmp_path):
    one = make_hermes_home(str(tmp_path / "one"), seed=7)
    two = make_hermes_home(str(tmp_path / "two"), seed=7)
    assert differences(tree_facts(one), tree_facts(two)) == []
    other = make_hermes_home(str(tmp_path / "three"), seed=8)
    assert differences(tree_facts(one), tree_facts(other)) != []


def test_a_made_home_holds_what_goes_wrong_in_the_field(hermes_home):
    facts = tree_facts(hermes_home)
    kinds = {fact[0] for fact in facts.values()}
    assert kinds == {"file", "directory", "symlink", "special", "database"}
    assert stat.S_IFSOCK in {fact[1] for fact in facts.values() if fact[0] == "special"}
    assert os.lstat(os.path.join(hermes_home, "old/cargo.crate")).st_mtime_ns == 123_456_789
    assert is_sqlite(os.path.join(hermes_home, "profiles/coder/state.db"))
    assert not is_sqlite(os.path.join(hermes_home, "plugins/diun/diun.db"))
    with sqlite3.connect(os.path.join(hermes_home, "state.db")) as connection:
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
        found = connection.execute("select count(*) from messages_fts where messages_fts match 'garden'")
        assert found.fetchone()[0] > 0
    connection.close()


def test_differences_name_what_is_missing_extra_and_changed(hermes_home):
    before = tree_facts(hermes_home)
    os.unlink(os.path.join(hermes_home, "SOUL.md"))
    os.chmod(os.path.join(hermes_home, ".env"), 0o644)
    with sqlite3.connect(os.path.join(hermes_home, "state.db")) as connection:
        connection.execute("delete from messages where id = 3")
    connection.close()
    found = differences(before, tree_facts(hermes_home))
    assert [line.split()[:2] for line in found if ": ." not in line] == [
        ["missing:", "SOUL.md"],
        ["differs:", "state.db"],
    ]
    assert any(line.startswith("differs: .env") for line in found)


def test_a_copy_with_half_a_turn_is_caught(tmp_path, live_writer):
    home = make_hermes_home(str(tmp_path / "home"), profiles=())
    database = os.path.join(home, "state.db")
    writer: LiveWriter = live_writer(database)
    writer.wait_for(20)
    writer.stop()
    assert check_copy(database, 20) >= 20
    assert len(writer.latencies) >= 20
    with sqlite3.connect(database) as connection:
        connection.execute("delete from messages where id = (select max(id) from messages)")
    connection.close()
    with pytest.raises(AssertionError, match="half a transaction"):
        check_copy(database, 20)


@pytest.mark.real
def test_the_real_hermes_makes_the_databases_when_asked(tmp_path, hermes_python):
    home = make_hermes_home(str(tmp_path / "home"), profiles=(), hermes_python=hermes_python)
    with sqlite3.connect(os.path.join(home, "state.db")) as connection:
        assert connection.execute("select version from schema_version").fetchone() == (22,)
        assert connection.execute("select count(*) from messages").fetchone() == (40,)
    connection.close()
