"""The trash keeps what it was given until its days are over, and puts it back without replacing anything."""

from __future__ import annotations

import os

import pytest

from safekept.core import trash
from safekept.core.trash import empty_trash, limit_trash, take_out, throw_away, trash_in
from support.restoring.landings import killed_at

DAY = 86400.0


@pytest.fixture(autouse=True)
def a_disk_with_room(monkeypatch):
    monkeypatch.setattr(trash, "free_bytes", lambda path: 1 << 40)


def write(path, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_what_was_thrown_away_comes_back_as_it_was(tmp_path):
    file, tree = write(tmp_path / "a.zip", "one"), str(tmp_path / "tree")
    write(tmp_path / "tree" / "deep" / "b", "two")
    os.chmod(file, 0o640)
    trashed = throw_away(str(tmp_path), "op-1", [file, tree], now=1000.0)
    assert not os.path.exists(file) and not os.path.exists(tree)
    assert (trashed.time, trashed.until) == (1000.0, 1000.0 + 3 * DAY)
    assert os.stat(os.path.dirname(trashed.path)).st_mode & 0o777 == 0o700
    assert trash_in(str(tmp_path)) == [trashed]
    assert take_out(trashed) == ([file, tree], [])
    assert (tmp_path / "a.zip").read_text() == "one" and (tmp_path / "tree/deep/b").read_text() == "two"
    assert os.stat(file).st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["a.zip", "tree"], "no trash is left behind"


def test_a_name_that_is_taken_meanwhile_is_not_replaced(tmp_path):
    file = write(tmp_path / "a.zip", "old")
    tree = str(tmp_path / "tree")
    write(tmp_path / "tree" / "b", "old")
    trashed = throw_away(str(tmp_path), "op-1", [file, tree])
    write(tmp_path / "a.zip", "new")
    write(tmp_path / "tree" / "b", "new")
    back, lost = take_out(trashed)
    assert back == [str(tmp_path / "a-2.zip"), str(tmp_path / "tree-2")] and lost == []
    assert (tmp_path / "a.zip").read_text() == "new" and (tmp_path / "a-2.zip").read_text() == "old"
    assert (tmp_path / "tree/b").read_text() == "new" and (tmp_path / "tree-2/b").read_text() == "old"


def test_it_goes_after_its_days_and_not_before_and_at_once_below_the_floor(tmp_path, monkeypatch):
    for number, moment in enumerate((0.0, DAY)):
        throw_away(str(tmp_path), f"op-{number}", [write(tmp_path / f"{number}", "x" * 1000)], now=moment)
    assert empty_trash(str(tmp_path), now=3 * DAY) == 0
    assert empty_trash(str(tmp_path), now=3 * DAY + 1) > 1000
    assert [one.operation for one in trash_in(str(tmp_path))] == ["op-1"]
    monkeypatch.setattr(trash, "free_bytes", lambda path: 0)
    assert empty_trash(str(tmp_path), now=DAY) > 1000
    assert os.listdir(tmp_path) == []


def test_no_more_things_are_kept_than_were_asked_for_and_the_oldest_go_first(tmp_path):
    for number in range(4):
        throw_away(str(tmp_path), f"op-{number}", [write(tmp_path / f"{number}")])
    limit_trash(str(tmp_path), 2)
    assert [one.operation for one in trash_in(str(tmp_path))] == ["op-2", "op-3"]


def test_a_directory_that_is_not_ours_is_neither_used_nor_emptied(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = tmp_path / "place"
    file = write(place / "a.zip")
    os.symlink(elsewhere, place / trash.NAME)
    with pytest.raises(OSError):
        throw_away(str(place), "op-1", [file])
    assert os.path.exists(file) and os.listdir(elsewhere) == []
    os.unlink(place / trash.NAME)
    foreign = write(place / trash.NAME / "somebody" / "mine.txt")
    throw_away(str(place), "op-1", [file])
    empty_trash(str(place), everything=True)
    assert os.path.exists(foreign)


def test_killed_at_any_instant_nothing_is_lost(tmp_path):
    """Whatever the instant, each thing is at its place or can be put back there."""

    def away(place):
        return lambda: throw_away(str(place), "op-1", [str(place / "a"), str(place / "b")])

    steps = 0
    for step in range(1, 100):
        place = tmp_path / f"away-{step}"
        for name in "ab":
            write(place / name, name)
        if killed_at(step, away(place)) != -1:
            break
        steps += 1
        for trashed in trash_in(str(place)):
            take_out(trashed)
        assert [(place / name).read_text() for name in "ab"] == ["a", "b"], step
    assert steps > 5
    for step in range(1, 100):
        place = tmp_path / f"back-{step}"
        for name in "ab":
            write(place / name, name)
        trashed = away(place)()
        if killed_at(step, lambda: take_out(trashed)) != -1:
            break
        for left in trash_in(str(place)):
            take_out(left)
        found = {name: (place / name).read_text() for name in os.listdir(place) if (place / name).is_file()}
        assert {"a": "a", "b": "b"}.items() <= found.items(), (step, found)
