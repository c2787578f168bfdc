"""Databases land whole: with their logs folded in, never beside a log that is not theirs, proven."""

import contextlib
import os
import shutil
import signal
import sqlite3

import pytest

from safekept.core.entries import BytesContent, DatabaseFacts, Entry, Kind
from safekept.core.errors import SafekeptError
from safekept.core.platform.open_files import Users
from safekept.home.landing import undo
from support.restoring.landings import (
    TIME,
    database,
    database_bytes,
    facts,
    file,
    holding,
    landed,
    plan,
    read,
    texts,
    write,
)


@pytest.fixture
def home(tmp_path):
    home = str(tmp_path / "user" / ".hermes")
    write(f"{home}/config.yaml", "old: 1\n", 0o600)
    return home


@pytest.fixture
def scratch(tmp_path):
    os.mkdir(tmp_path / "scratch")
    return str(tmp_path / "scratch")


class RecordedDamaged(BytesContent):
    """Content that its store knows to be a damaged database."""

    def __init__(self, data):
        super().__init__(data)
        self.database = DatabaseFacts("damaged", "raw", "page 2 is never used")


def damaged(scratch):
    data = bytearray(database_bytes(scratch, rows=400))
    data[4096:4196] = b"\xff" * 100
    return bytes(data)


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_old_sidecars_never_meet_the_new_database(home, scratch):
    # field failure V-08: after "Import complete" the database held the old rows
    database(f"{home}/state.db", 10, text="old", log=50)
    assert os.path.getsize(f"{home}/state.db-wal") > 0
    old = {name: read(f"{home}/{name}") for name in ("state.db", "state.db-wal", "state.db-shm")}
    result = landed(home, [file("state.db", database_bytes(scratch), database=True)])
    assert not os.path.exists(f"{home}/state.db-wal")
    assert texts(f"{home}/state.db") == [f"new {n}" for n in range(20)]
    kept = f"{result.replaced_in}/home/.hermes"
    assert {name: read(f"{kept}/{name}") for name in old} == old
    undo(home)
    assert len(texts(f"{home}/state.db")) == 60


def test_a_stray_log_without_a_database_does_not_meet_the_new_one(home, scratch):
    database(f"{scratch}/other.db", 10, text="other", log=5)
    shutil.copy(f"{scratch}/other.db-wal", f"{home}/state.db-wal")
    result = landed(home, [file("state.db", database_bytes(scratch), database=True)])
    assert texts(f"{home}/state.db")[0] == "new 0"
    assert os.path.exists(f"{result.replaced_in}/home/.hermes/state.db-wal")


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.needs("modes", "it looks at modes")
def test_a_log_that_travelled_with_its_database_is_folded_in(home, scratch, ordered):
    path = database(f"{scratch}/made.db", 10, text="main", log=7)
    entries = [
        file("state.db-wal", read(path + "-wal")),
        file("state.db-shm", read(path + "-shm")),
        file("state.db", read(path), 0o640),
    ]
    result = landed(home, entries, ordered=ordered)
    assert len(texts(f"{home}/state.db")) == 17
    assert sorted(name for name in os.listdir(home) if name.startswith("state")) == ["state.db"]
    assert os.stat(f"{home}/state.db").st_mtime_ns == TIME
    assert os.stat(f"{home}/state.db").st_mode & 0o777 == 0o600
    assert result.created == 1
    assert [(remark.path, remark.reason) for remark in result.remarks] == [
        ("state.db", "came with a write-ahead log or journal, which was folded in")
    ]


def test_a_hot_journal_that_travelled_rolls_the_database_back(home, scratch):
    path = f"{scratch}/made.db"
    database(path, 10, text="committed", journal="delete")
    child = os.fork()
    if not child:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("pragma cache_size=1")
        connection.execute("begin")
        connection.executemany("insert into notes(text) values (?)", [("x" * 500,)] * 2000)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert os.path.getsize(path + "-journal") > 0
    landed(home, [file("state.db", read(path)), file("state.db-journal", read(path + "-journal"))])
    assert texts(f"{home}/state.db") == [f"committed {n}" for n in range(10)]


def test_orphan_sidecars_are_left_out_and_said_so(home, scratch):
    path = database(f"{scratch}/made.db", 10, text="main", log=7)
    database(f"{home}/state.db", 3, text="mine")
    result = landed(
        home,
        [
            file("state.db-wal", read(path + "-wal")),
            file("kanban.db-wal", b""),
            file("kanban.db-shm", read(path + "-shm")),
            file("notes-wal", "a plain file that only looks like one"),
            file("journal", "plain"),
            file("my-journal", "also plain"),
        ],
    )
    assert texts(f"{home}/state.db") == ["mine 0", "mine 1", "mine 2"]
    assert sorted(remark.path for remark in result.remarks) == [
        "kanban.db-shm",
        "kanban.db-wal",
        "state.db-wal",
    ]
    assert {remark.reason for remark in result.remarks} == {"a sidecar without its database; left out"}
    assert read(f"{home}/notes-wal") == b"a plain file that only looks like one"
    assert read(f"{home}/my-journal") == b"also plain"


def test_plain_files_named_like_sidecars_of_plain_files_land(home):
    landed(
        home, [file("notes", "plain"), file("notes-wal", "plain too"), file("notes-journal", "plain three")]
    )
    assert read(f"{home}/notes-wal") == b"plain too"
    assert read(f"{home}/notes-journal") == b"plain three"


def test_a_damaged_database_is_not_proven_and_nothing_changes(home, scratch):
    database(f"{home}/state.db", 3, text="mine")
    before = facts(home)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("config.yaml", "new"), file("state.db", damaged(scratch))])
    error = caught.value
    assert error.code == "restore-not-proven"
    assert error.what.startswith(
        "1 of 2 restored things could not be proven: `state.db`: the database is damaged: "
    )
    assert error.kept == "The home is as it was; what was staged has been removed"
    assert error.advice()[-1] == (
        "Take the damaged database all the same: `safekept import FILE --allow-damaged`"
    )
    assert facts(home) == before


def test_a_damaged_database_lands_when_it_is_asked_for_or_was_recorded_so(home, scratch):
    data = damaged(scratch)
    result = landed(home, [file("state.db", data)], allow_damaged=True)
    assert read(f"{home}/state.db") == data
    assert [(remark.path, remark.outcome.value) for remark in result.remarks] == [("state.db", "damaged")]
    recorded = Entry("kanban.db", Kind.FILE, 0o600, TIME, len(data), open=lambda: RecordedDamaged(data))
    result = landed(home, [recorded], operation="op-2")
    assert read(f"{home}/kanban.db") == data
    assert result.remarks[0].reason.startswith("was already damaged when it was stored: ")


NOT_DATABASES = [
    (b"", "is empty"),
    (bytes(95_000), "is 95,000 bytes of zeros"),
    (b"BoltDB" * 2000, "is not a database"),
]


@pytest.mark.parametrize(("data", "words"), NOT_DATABASES)
@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_what_is_no_database_never_silently_replaces_a_sound_one(home, data, words):
    database(f"{home}/state.db", 3, text="mine")
    before = facts(home)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("config.yaml", "new"), file("state.db", data)])
    assert caught.value.code == "restore-not-proven"
    assert f"`state.db`: the database is damaged: it {words}" in caught.value.what
    assert caught.value.advice()[-1] == (
        "Take the damaged database all the same: `safekept import FILE --allow-damaged`"
    )
    assert facts(home) == before
    result = landed(home, [file("state.db", data)], allow_damaged=True)
    assert read(f"{home}/state.db") == data
    assert [(remark.path, remark.outcome.value) for remark in result.remarks] == [("state.db", "damaged")]
    assert words in result.remarks[0].reason


@pytest.mark.parametrize(("data", "words"), NOT_DATABASES)
@pytest.mark.parametrize("there", [None, b"", b"text"])
def test_what_is_no_database_lands_with_a_remark_where_none_is_lost(home, data, words, there):
    if there is not None:
        write(f"{home}/state.db", there)
    result = landed(home, [file("state.db", data)])
    assert read(f"{home}/state.db") == data
    assert [(remark.path, remark.outcome.value) for remark in result.remarks] == [("state.db", "damaged")]
    assert result.remarks[0].reason == f"a database should be here, but what was stored {words}"


def recorded(path, data):
    return Entry(path, Kind.FILE, 0o600, TIME, len(data), open=lambda: RecordedDamaged(data))


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_recorded_damage_keeps_the_sound_database_of_the_home_and_blocks_nothing(home, scratch):
    database(f"{home}/state.db", 3, text="mine", log=2)
    before = {name: value for name, value in facts(home).items() if name.startswith("state.db")}
    result = landed(home, [file("config.yaml", "new"), recorded("state.db", damaged(scratch))])
    assert read(f"{home}/config.yaml") == b"new"
    assert {name: value for name, value in facts(home).items() if name.startswith("state.db")} == before
    assert [(remark.path, remark.outcome.value) for remark in result.remarks] == [("state.db", "damaged")]
    assert result.remarks[0].reason.startswith("was already damaged when it was stored: ")
    assert result.remarks[0].reason.endswith("; the sound one of the home was kept")
    assert (result.created, result.replaced) == (0, 1)


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_recorded_damage_lands_over_a_sound_database_only_when_asked_for(home, scratch):
    database(f"{home}/state.db", 3, text="mine")
    data = damaged(scratch)
    result = landed(home, [recorded("state.db", data)], allow_damaged=True)
    assert read(f"{home}/state.db") == data
    assert "kept" not in result.remarks[0].reason
    undo(home)
    assert texts(f"{home}/state.db")[0] == "mine 0"


def test_a_log_of_a_recorded_damage_never_meets_the_database_that_is_kept(home, scratch):
    database(f"{home}/state.db", 3, text="mine")
    log = read(database(f"{scratch}/other.db", 3, text="other", log=5) + "-wal")
    landed(home, [recorded("state.db", bytes(8192)), file("state.db-wal", log)])
    assert texts(f"{home}/state.db") == ["mine 0", "mine 1", "mine 2"]


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_recorded_damage_lands_over_one_that_is_damaged_too(home, scratch):
    other = bytearray(damaged(scratch))
    other[-10:] = b"otherbytes"
    write(f"{home}/state.db", bytes(other))
    data = damaged(scratch)
    result = landed(home, [recorded("state.db", data)])
    assert read(f"{home}/state.db") == data
    assert [remark.outcome.value for remark in result.remarks] == ["damaged"]


def test_a_recorded_damage_does_not_excuse_another_one(home, scratch):
    database(f"{home}/state.db", 3, text="mine")
    before = facts(home)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [recorded("state.db", damaged(scratch)), file("kanban.db", damaged(scratch))])
    assert caught.value.code == "restore-not-proven"
    assert "1 of 2 restored things could not be proven: `kanban.db`" in caught.value.what
    assert facts(home) == before


def test_a_file_that_only_carries_the_name_of_a_database_is_plain_bytes(home):
    landed(home, [file("diun.db", b"BoltDB" * 100), file("empty.db", b""), file("nul.db", bytes(8192))])
    assert read(f"{home}/diun.db") == b"BoltDB" * 100
    assert os.path.getsize(f"{home}/empty.db") == 0
    assert read(f"{home}/nul.db") == bytes(8192)


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_the_plan_names_who_has_a_database_open(home, scratch):
    database(f"{home}/state.db")
    with holding(f"{home}/state.db") as child:
        made = plan(home, [file("state.db", database_bytes(scratch))])
    assert made.held[0][0] == "state.db"
    assert f"process {child}" in made.held[0][1]


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_held_database_is_restored_into_the_same_inode_and_can_be_undone(home, scratch, journal):
    database(f"{home}/state.db", 10, journal=journal)
    inode = os.stat(f"{home}/state.db").st_ino
    with holding(f"{home}/state.db"):
        result = landed(home, [file("config.yaml", "new"), file("state.db", database_bytes(scratch))])
        assert os.stat(f"{home}/state.db").st_ino == inode
        assert texts(f"{home}/state.db") == [f"new {n}" for n in range(20)]
        assert texts(f"{result.replaced_in}/home/.hermes/state.db") == [f"old {n}" for n in range(10)]
        undo(home)
        assert os.stat(f"{home}/state.db").st_ino == inode
        assert texts(f"{home}/state.db") == [f"old {n}" for n in range(10)]
        assert read(f"{home}/config.yaml") == b"old: 1\n"
        undo(home)
        assert texts(f"{home}/state.db")[0] == "new 0"


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_database_that_stays_locked_is_refused_by_name_and_the_rest_is_taken_back(home, scratch):
    database(f"{home}/state.db", 10, journal="wal")
    database(f"{home}/kanban.db", 10, text="old kanban")
    before = texts(f"{home}/state.db")
    with holding(f"{home}/state.db", "begin immediate") as child:
        config = facts(home)["config.yaml"]
        with pytest.raises(SafekeptError) as caught:
            landed(
                home,
                [
                    file("config.yaml", "new"),
                    file("kanban.db", database_bytes(scratch)),
                    file("state.db", database_bytes(scratch)),
                ],
                deadline=0.3,
            )
        assert caught.value.code == "database-locked"
        assert f"pid {child}" in caught.value.what
        assert facts(home)["config.yaml"] == config
    assert texts(f"{home}/state.db") == before
    assert texts(f"{home}/kanban.db")[0] == "old kanban 0"


def damaged_in_use(home, scratch, journal):
    """The bytes of a damaged database of the home, as a program has it open."""
    path = f"{home}/state.db"
    database(path, 400, text="mine", journal=journal)
    with open(path, "r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 100)
    return read(path)


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_damaged_copy_is_not_written_into_a_damaged_database_in_use(home, scratch, journal):
    mine = damaged_in_use(home, scratch, journal)
    entries = [file("config.yaml", "new"), recorded("state.db", damaged(scratch))]
    with holding(f"{home}/state.db") as child:
        with pytest.raises(SafekeptError) as caught:
            landed(home, entries)
        assert caught.value.code == "held-database"
        assert f"process {child}" in caught.value.what
        assert caught.value.what.endswith(
            "what would replace it is damaged, and so cannot be written into it"
        )
        assert read(f"{home}/config.yaml") == b"old: 1\n"
        assert read(f"{home}/state.db") == mine
    result = landed(home, entries, operation="op-2")
    assert [remark.outcome.value for remark in result.remarks] == ["damaged"]
    assert read(f"{home}/config.yaml") == b"new"


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_damaged_database_in_use_is_taken_back_as_it_was(home, scratch, journal, monkeypatch):
    from safekept.home.landing.swap import swap as swapping

    mine = damaged_in_use(home, scratch, journal)

    def fail(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(swapping.Swap, "_check_holders", fail)
    with holding(f"{home}/state.db"):
        with pytest.raises(SafekeptError) as caught:
            landed(home, [file("config.yaml", "new"), file("state.db", database_bytes(scratch))])
        assert caught.value.code == "no-room", caught.value.what
        assert read(f"{home}/config.yaml") == b"old: 1\n"
    connection = sqlite3.connect(f"{home}/state.db")
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    now = read(f"{home}/state.db")
    assert now[100:4096] == mine[100:4096] and now[4096:] == mine[4096:], "not the pages that were there"


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_held_database_is_not_replaced_by_something_else_nor_removed(home, scratch):
    database(f"{home}/own.db", 10)
    with holding(f"{home}/own.db") as child:
        before = facts(home)
        for entries, exact, why in (
            ([file("own.db", "not a database")], False, "what would replace it is not a database"),
            ([file("config.yaml", "new")], True, "it cannot be taken away from under that program"),
        ):
            with pytest.raises(SafekeptError) as caught:
                landed(home, entries, exact=exact)
            assert caught.value.code == "held-database"
            assert caught.value.what.endswith(why) and f"process {child}" in caught.value.what
            assert caught.value.kept == "The home is as it was"
            assert facts(home) == before


def test_where_the_system_does_not_say_who_has_a_database_open_that_is_said(home, scratch, monkeypatch):
    unknown = Users([], [], unknown=True)
    monkeypatch.setattr("safekept.core.sqlite.holders.users_of", lambda files: unknown)
    database(f"{home}/own.db", 10)
    before = facts(home)
    with pytest.raises(SafekeptError) as caught:
        landed(home, [file("own.db", "not a database")])
    used = "`own.db` may be in use, and this system does not say by what"
    assert caught.value.what == f"{used}: what would replace it is not a database"
    assert "Install `lsof`" in str(caught.value.next_steps[0]) and facts(home) == before
    made = plan(home, [file("own.db", database_bytes(scratch))])
    assert made.held == [("own.db", "another process, perhaps")]


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_database_opened_in_the_last_instant_is_noticed(home, scratch, monkeypatch):
    from safekept.home.landing.swap import swap as swapping

    database(f"{home}/state.db", 10, journal="delete")
    before = facts(home)
    real = swapping.Swap._check_holders
    with contextlib.ExitStack() as stack:
        # The other program opened the old file just before the rename: it now has the kept one open.
        kept = f"{home}.safekept/landings/op-1/replaced/home/.hermes/state.db"
        monkeypatch.setattr(
            swapping.Swap, "_check_holders", lambda self: (stack.enter_context(holding(kept)), real(self))[1]
        )
        with pytest.raises(SafekeptError) as caught:
            landed(home, [file("state.db", database_bytes(scratch))])
    assert caught.value.code == "held-database"
    assert "it was opened while the landing was under way" in caught.value.what
    assert facts(home) == before
