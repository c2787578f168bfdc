"""Undo brings the home back exactly, loses nothing that was changed since, and can be undone."""

import os
import time

import pytest

from safekept.core.errors import SafekeptError
from safekept.home.landing import expire, landings, undo
from support.platforms.needs import where_the_disk_can
from support.restoring.landings import TIME, directory, facts, file, landed, read, symlink, write


@pytest.fixture
def home(tmp_path):
    home = str(tmp_path / "user" / ".hermes")
    write(f"{home}/config.yaml", "old: 1\n", 0o600)
    write(f"{home}/memories/MEMORY.md", "old memory")
    write(f"{home}/tree/a/b", "whole tree")
    with where_the_disk_can():
        os.symlink("config.yaml", f"{home}/link")
    for path in ("memories", "tree/a", "tree", ""):
        os.utime(os.path.join(home, path), ns=(TIME, TIME))
    return home


NEW = [
    file("config.yaml", "new: 1\n", 0o644),
    directory("memories", 0o700, TIME + 1),
    file("memories/MEMORY.md", "new memory"),
    file("tree", "a file now"),
    symlink("link", "memories"),
    file("fresh/deep/er", "created"),
]


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_undo_and_undo_of_undo_are_exact(home):
    old = facts(home)
    landed(home, NEW)
    new = facts(home)
    taken = undo(home)
    assert facts(home) == old
    assert taken.undoes == "op-1"
    assert (taken.replaced, taken.removed) == (4, 1)
    again = undo(home)
    assert facts(home) == new
    assert again.undoes == taken.operation
    undo(home)
    assert facts(home) == old


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_undo_of_an_exact_landing_brings_back_what_it_removed(home):
    old = facts(home)
    result = landed(home, [file("SOUL.md", "x")], exact=True)
    assert sorted(facts(home)) == ["", "SOUL.md"]
    assert result.removed == 4
    undo(home)
    assert facts(home) == old


def test_undo_of_an_import_onto_a_fresh_machine_leaves_nothing(tmp_path):
    home = str(tmp_path / ".hermes")
    landed(home, NEW)
    undo(home)
    assert not os.path.exists(home)


def test_what_was_changed_since_is_kept_by_the_undo(home):
    landed(home, NEW)
    write(f"{home}/config.yaml", "edited by hand since")
    write(f"{home}/fresh/mine", "made since, beside what the import created")
    write(f"{home}/fresh/deep/er", "created, then edited")
    result = undo(home)
    assert read(f"{home}/config.yaml") == b"old: 1\n"
    assert read(f"{home}/fresh/mine") == b"made since, beside what the import created"
    kept = f"{result.replaced_in}/home/.hermes"
    assert read(f"{kept}/config.yaml") == b"edited by hand since"
    assert read(f"{kept}/fresh/deep/er") == b"created, then edited"


def test_the_last_landing_is_taken_back_first_and_others_by_name(home):
    old = facts(home)
    landed(home, [file("config.yaml", "one", 0o600, TIME + 1)], operation="first")
    landed(home, [file("memories/MEMORY.md", "two", 0o644, TIME + 2)], operation="second")
    assert undo(home).undoes == "second"
    assert read(f"{home}/config.yaml") == b"one"
    assert undo(home, "first").undoes == "first"
    assert facts(home) == old
    with pytest.raises(SafekeptError) as caught:
        undo(home, "first")
    assert caught.value.code == "undo-not-possible"
    assert caught.value.what.startswith("first cannot be taken back: it was taken back already, by ")


def test_nothing_to_undo_says_so(home, tmp_path):
    for place in (home, str(tmp_path / "missing")):
        with pytest.raises(SafekeptError) as caught:
            undo(place)
        error = caught.value
        assert error.code == "nothing-to-undo"
        assert error.what == f"There is no import or restore to take back in `{place}`"
        assert error.kept == "Nothing was changed"
        assert error.advice() == ("Import a backup instead: `safekept import FILE`",)
    assert not os.path.exists(tmp_path / "missing")


def test_what_expired_cannot_be_undone(home):
    landed(home, NEW)
    assert expire(home) == []
    record = f"{home}.safekept/landings/op-1/landed.jsonl"
    data = read(record)
    header = data.split(b"\n")[0]
    old = f'"time": {time.time() - 15 * 86400}'.encode()
    with open(record, "wb") as target:
        target.write(data.replace(header[header.index(b'"time"') : header.index(b', "process"')], old, 1))
    assert [past.operation for past in landings(home)] == ["op-1"]
    assert expire(home, days=16) == []
    assert expire(home, days=14) == ["op-1"]
    with pytest.raises(SafekeptError) as caught:
        undo(home, "op-1")
    error = caught.value
    assert error.code == "undo-not-possible"
    assert error.what == "op-1 cannot be taken back: it is not known here; it may have expired"
    assert error.advice() == ("Restore from a backup instead: `safekept import FILE`",)
    assert read(f"{home}/config.yaml") == b"new: 1\n"


def test_a_record_for_another_place_is_not_acted_on(home, tmp_path):
    landed(home, NEW)
    moved = str(tmp_path / "moved" / ".hermes")
    os.makedirs(tmp_path / "moved")
    os.rename(home, moved)
    os.rename(home + ".safekept", moved + ".safekept")
    with pytest.raises(SafekeptError) as caught:
        undo(moved)
    assert caught.value.code == "undo-not-possible"
    assert "it was made for other places than this home" in caught.value.what
    assert not os.path.exists(home)


@pytest.mark.needs("modes", "it looks at modes")
def test_an_import_that_changed_nothing_is_not_what_undo_takes_back(home):
    old = facts(home)
    landed(home, NEW)
    again = landed(home, NEW, operation="op-2")
    assert (again.created, again.replaced, again.same, again.replaced_in) == (0, 0, 5, "")
    assert [past.operation for past in landings(home)] == ["op-1"]
    assert undo(home).undoes == "op-1"
    assert facts(home) == old
