"""A program that has the home's database open itself calls `import safekept`, and loses neither lock nor row.

Closing any descriptor of a file drops the locks that the process has on it, and a database that is replaced
under its own handle takes every later row with it. So what opens or replaces databases runs elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
from collections.abc import Iterator

import pytest

import safekept
from support.home.database_holder import Holder, HolderFailed
from support.home.homes import make_hermes_home

MARK = "safekept_test"


@pytest.fixture
def home(tmp_path, monkeypatch) -> pathlib.Path:
    place = tmp_path / "user"
    monkeypatch.setenv("HOME", str(place))
    make_hermes_home(str(place / ".hermes"), profiles=(), awkward=False)
    monkeypatch.chdir(place)
    return place / ".hermes"


@pytest.fixture
def own(home) -> Iterator[sqlite3.Connection]:
    """Our own handle, as an agent has one; with a table of ours, in a snapshot."""
    connection = sqlite3.connect(home / "state.db", isolation_level=None, timeout=0)
    connection.execute(f"CREATE TABLE {MARK} (word TEXT)")
    connection.execute(f"INSERT INTO {MARK} VALUES ('first')")
    safekept.snapshot()
    yield connection
    connection.close()


def words(home: pathlib.Path) -> list[str]:
    """What is in the file under its name, for anybody else."""
    other = Holder(home / "state.db")
    try:
        return [row[0] for row in other.run(f"SELECT word FROM {MARK} ORDER BY rowid")]
    finally:
        other.close()


def still_locked(home: pathlib.Path) -> bool:
    other = Holder(home / "state.db")
    try:
        other.run("PRAGMA busy_timeout = 0")
        other.run(f"INSERT INTO {MARK} VALUES ('thief')")
    except HolderFailed:
        return True
    finally:
        other.close()
    return False


def guarded() -> None:
    with safekept.guard(raises=False):
        pass


def restored() -> None:
    pathlib.Path(".hermes/SOUL.md").write_text("Somebody else.")
    safekept.restore(paths=["SOUL.md"], yes=True)


def undone() -> None:
    restored()
    safekept.undo()


@pytest.mark.parametrize(
    "call",
    [
        lambda: safekept.restore(dry_run=True),
        lambda: safekept.restore(exact=True, dry_run=True),
        restored,
        undone,
        lambda: safekept.history("state.db"),
        lambda: safekept.import_archive(safekept.backup("a.zip").path, dry_run=True),
        guarded,
    ],
    ids=["plan", "exact", "restore", "undo", "history", "import", "guard"],
)
def test_a_lock_of_the_program_itself_outlasts_the_call(home, own, call):
    own.execute("PRAGMA journal_mode = DELETE")
    own.execute("BEGIN IMMEDIATE")
    own.execute(f"INSERT INTO {MARK} VALUES ('in a transaction')")
    # A database that is locked for long may be refused; what counts is the lock.
    with contextlib.suppress(safekept.SafekeptError):
        call()
    assert still_locked(home)
    own.execute("COMMIT")
    assert words(home)[-1] == "in a transaction"


def test_a_database_that_the_program_has_open_is_restored_under_its_hands(home, own):
    own.execute(f"DELETE FROM {MARK}")
    assert safekept.restore(paths=["state.db"], yes=True).done
    assert [row[0] for row in own.execute(f"SELECT word FROM {MARK}")] == ["first"]
    own.execute(f"INSERT INTO {MARK} VALUES ('later')")
    assert words(home) == ["first", "later"]
    assert own.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_guard_puts_no_other_file_under_the_programs_hands(home, own):
    """An emptied database has nothing to be poured into: it is left for when the program let go of it."""
    own.execute("PRAGMA journal_mode = DELETE")
    inode = os.stat(home / "state.db").st_ino
    with safekept.guard(auto_restore=True, raises=False) as told:
        os.truncate(home / "state.db", 0)
    assert (told.findings, told.restored) == (("state.db was a database and is empty (0 bytes)",), ())
    assert os.stat(home / "state.db").st_ino == inode
    own.close()
    assert safekept.restore(told.snapshot, ["state.db"], yes=True).done
    assert words(home) == ["first"]


def test_a_loss_in_a_database_is_found_without_opening_it_here(home, own):
    own.execute("PRAGMA journal_mode = DELETE")
    with pytest.raises(safekept.LossFound, match=r"state\.db"), safekept.guard():
        own.execute("DELETE FROM messages")
        own.execute("BEGIN IMMEDIATE")
    assert still_locked(home)


def test_errors_values_and_odd_paths_come_back_as_they_are(home, own):
    with pytest.raises(safekept.SafekeptError) as found:
        safekept.restore("no-such-snapshot")
    assert found.value.code and found.value.kept and found.value.advice()
    odd = home / "skills" / os.fsdecode(b"odd\xff")
    odd.mkdir(parents=True)
    (odd / "SKILL.md").write_text("x")
    safekept.snapshot()
    (odd / "SKILL.md").unlink()
    done = safekept.restore(paths=(path for path in [odd / "SKILL.md"]), yes=True)
    assert done.created == 1 and (odd / "SKILL.md").read_text() == "x"
    with pytest.raises((TypeError, AttributeError)):
        safekept.restore(5)  # type: ignore[arg-type]
