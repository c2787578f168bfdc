"""Recovery makes right what a killed landing left, keeps what was changed since, and asks nobody."""

import os
import sqlite3

import pytest

from safekept.core.errors import SafekeptError
from safekept.core.locks import AlreadyRunning
from safekept.home.landing import landings, recover
from safekept.home.landing.area import open_area
from support.restoring.landings import (
    TIME,
    database,
    database_bytes,
    directory,
    facts,
    file,
    killed_at,
    landed,
    read,
    texts,
    write,
)


@pytest.fixture
def home(tmp_path):
    home = str(tmp_path / "user" / ".hermes")
    write(f"{home}/config.yaml", "old: 1\n", 0o600)
    write(f"{home}/memories/MEMORY.md", "old memory")
    os.mkdir(tmp_path / "scratch")
    return home


def kill_before_commit(home, entries):
    """A landing that is killed when everything is in place and only the mark is missing."""
    from safekept.home.landing.swap import swap as swapping

    def die(*_):
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    def work():
        swapping.Swap._finish_directories = die
        landed(home, entries)

    assert killed_at(0, work) == -1


def test_a_home_that_never_saw_a_landing_is_not_touched(home, tmp_path):
    before = facts(str(tmp_path))
    assert recover(home) == []
    assert recover(str(tmp_path / "missing")) == []
    assert landings(home) == []
    assert facts(str(tmp_path)) == before


def test_everything_in_place_but_not_committed_is_taken_back(home):
    old = facts(home)
    kill_before_commit(home, [file("config.yaml", "new"), file("fresh/a", "b"), directory("memories", 0o700)])
    assert read(f"{home}/config.yaml") == b"new"
    found = recover(home)
    assert [(one.operation, one.outcome, one.set_aside) for one in found] == [("op-1", "taken-back", [])]
    assert facts(home) == old
    assert recover(home) == []
    assert os.listdir(f"{home}.safekept/landings") == []


def test_staged_leftovers_of_a_dead_process_are_swept(home):
    old = facts(home)
    directory = f"{home}.safekept/landings/20260101-000000-abcdef"
    write(f"{directory}/staged/0/1", "half")
    assert [(one.operation, one.outcome) for one in recover(home)] == [("20260101-000000-abcdef", "swept")]
    assert facts(home) == old
    assert os.listdir(f"{home}.safekept/landings") == []


def test_a_landing_whose_process_lives_is_waited_for_and_left_alone(home):
    write(f"{home}.safekept/landings/op-9/staged/0/1", "under way")
    with open_area(home).lock("import"), pytest.raises(AlreadyRunning, match=r"\(import\) is at work here"):
        recover(home, wait=0.1)
    assert os.path.exists(f"{home}.safekept/landings/op-9/staged/0/1")


def test_what_the_agent_wrote_after_the_crash_is_set_aside_and_not_lost(home):
    kill_before_commit(home, [file("config.yaml", "new"), file("fresh", "created"), file("gone", "created")])
    write(f"{home}/config.yaml", "written by the agent after the reboot", 0o600, TIME + 77)
    write(f"{home}/fresh", "this one too", 0o600, TIME + 78)
    os.unlink(f"{home}/gone")
    found = recover(home)
    assert read(f"{home}/config.yaml") == b"old: 1\n"
    assert not os.path.exists(f"{home}/fresh")
    assert sorted(found[0].set_aside) == ["config.yaml", "fresh"]
    assert read(f"{found[0].place}/home/.hermes/config.yaml") == b"written by the agent after the reboot"
    assert read(f"{found[0].place}/home/.hermes/fresh") == b"this one too"
    assert recover(home) == []
    assert os.path.exists(f"{found[0].place}/home/.hermes/fresh")


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_rows_written_into_a_database_after_the_crash_are_set_aside(home, tmp_path):
    database(f"{home}/state.db", 10, text="old", log=4)
    old = texts_of_copy(home, tmp_path)
    before = facts(home)
    kill_before_commit(home, [file("state.db", database_bytes(str(tmp_path / "scratch")))])
    connection = sqlite3.connect(f"{home}/state.db", isolation_level=None)
    connection.execute("insert into notes(text) values ('after the reboot')")
    connection.close()
    found = recover(home)
    assert facts(home) == before
    assert texts(f"{home}/state.db") == old
    assert found[0].set_aside == ["state.db"]
    assert texts(f"{found[0].place}/home/.hermes/state.db")[-1] == "after the reboot"


def texts_of_copy(home, tmp_path):
    import shutil

    place = tmp_path / "copy"
    os.makedirs(place, exist_ok=True)
    for suffix in ("", "-wal"):
        shutil.copy(f"{home}/state.db{suffix}", place)
    return texts(str(place / "state.db"))


def test_a_new_database_that_is_open_now_gets_the_old_rows_back(home, tmp_path):
    database(f"{home}/state.db", 10, text="old", log=4)
    old = texts_of_copy(home, tmp_path)
    kill_before_commit(home, [file("state.db", database_bytes(str(tmp_path / "scratch")))])
    ready, tell = os.pipe()
    wait, stop = os.pipe()
    child = os.fork()
    if not child:
        connection = sqlite3.connect(f"{home}/state.db", isolation_level=None)
        connection.execute("insert into notes(text) values ('written by the holder')")
        os.write(tell, b"x")
        os.close(stop)
        os.read(wait, 1)
        seen = connection.execute("select count(*) from notes").fetchone()[0]
        connection.close()
        os._exit(0 if seen == 14 else 1)
    os.read(ready, 1)
    found = recover(home)
    for descriptor in (ready, tell, wait, stop):
        os.close(descriptor)
    assert os.waitpid(child, 0)[1] == 0, "the holder does not see the old rows"
    assert texts(f"{home}/state.db") == old
    assert texts(f"{found[0].place}/home/.hermes/state.db")[-1] == "written by the holder"


def test_a_recovery_that_cannot_finish_says_what_is_kept_and_goes_on_later(home, monkeypatch):
    old = facts(home)
    kill_before_commit(home, [file("config.yaml", "new"), file("memories/MEMORY.md", "new")])
    real = os.rename

    def failing(source, *arguments, **options):
        if source == "MEMORY.md":
            raise OSError(5, "Input/output error")
        return real(source, *arguments, **options)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(SafekeptError) as caught:
        recover(home)
    monkeypatch.undo()
    error = caught.value
    assert error.code == "landing-not-taken-back" and error.retry
    assert "`memories/MEMORY.md`: [Errno 5] Input/output error" in error.what
    kept = f"{home}.safekept/landings/op-1/replaced"
    assert error.kept == f"Everything it replaced is kept in `{kept}`"
    assert error.advice()[1] == f"Then take the rest back: `safekept doctor --fix --home {home}`"
    assert read(f"{home}/config.yaml") == b"old: 1\n", "it stopped at the first failure"
    assert read(f"{kept}/home/.hermes/memories/MEMORY.md") == b"old memory"
    assert recover(home)[0].outcome == "taken-back"
    assert facts(home) == old


def test_a_record_that_names_other_places_is_refused(home, tmp_path):
    kill_before_commit(home, [file("config.yaml", "new")])
    record = f"{home}.safekept/landings/op-1/plan.jsonl"
    text = read(record).decode().replace(f'"name": "{os.path.basename(home)}"', '"name": "other"')
    with open(record, "w") as target:
        target.write(text)
    with pytest.raises(SafekeptError) as caught:
        recover(home)
    assert caught.value.code == "landing-not-taken-back"
    assert "was made for other places than this home" in caught.value.what
    assert read(f"{home}/config.yaml") == b"new"


def test_the_next_landing_recovers_first(home):
    kill_before_commit(home, [file("config.yaml", "half")])
    landed(home, [file("SOUL.md", "x")], operation="op-2")
    assert read(f"{home}/config.yaml") == b"old: 1\n"
    assert [past.operation for past in landings(home)] == ["op-2"]


def test_a_record_that_cannot_be_read_stops_with_everything_kept(home):
    kill_before_commit(home, [file("config.yaml", "new")])
    record = f"{home}.safekept/landings/op-1/plan.jsonl"
    write(record, read(record).replace(b'"version": 1', b'"version": 9'), 0o600)
    with pytest.raises(SafekeptError) as caught:
        recover(home)
    error = caught.value
    assert error.code == "landing-not-taken-back"
    assert error.what == f"The record of an interrupted landing, `{record}`, cannot be read"
    kept = f"{home}.safekept/landings/op-1/replaced"
    assert error.kept == f"Nothing was changed; everything that landing replaced is kept in `{kept}`"
    assert read(f"{kept}/home/.hermes/config.yaml") == b"old: 1\n"


def test_a_torn_note_at_the_end_of_a_record_is_passed_over(home):
    old = facts(home)
    kill_before_commit(home, [file("config.yaml", "new")])
    with open(f"{home}.safekept/landings/op-1/plan.jsonl", "ab") as record:
        record.write(b'{"note": "pour')
    recover(home)
    assert facts(home) == old
