"""The keeper's store: put once, get, list; manifests by its own clock; room given back by itself alone."""

from __future__ import annotations

import fcntl
import json
import os
import zlib

import pytest

from safekept.keeper.history import DAY, ManifestHistory, MissingObjects
from safekept.keeper.pages import BadManifest, Entry, packed_pages, read_page, read_root
from safekept.keeper.room import Put, Refused
from safekept.keeper.store import KeeperLimits, KeeperStore
from support.keeper.keepers import name_of, passed


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(tmp_path, clock) -> ManifestHistory:
    store = KeeperStore(str(tmp_path))
    store.make()
    return ManifestHistory(store.room(1000), clock)


def put(history: ManifestHistory, data: bytes, name: str = "") -> bool:
    one, descriptor = passed(data, name)
    try:
        return history.room.put(descriptor, one)
    finally:
        os.close(descriptor)


def commit(history: ManifestHistory, files: dict[str, bytes]):
    for data in files.values():
        put(history, data)
    pages, root = packed_pages(Entry(path, ((name_of(data), len(data)),)) for path, data in files.items())
    for data in pages.values():
        put(history, data)
    return history.commit(root)


def old(history: ManifestHistory, clock: Clock, days: float) -> None:
    """Everything that is there came so long ago."""
    clock.now += days * DAY
    for name, _, _ in history.room.each():
        os.utime(history.room.place(name), (clock.now - days * DAY,) * 2)


def snapshots(count: int, size: int = 5000) -> dict[str, bytes]:
    return {f"vault/snapshots/{number}": b"%d" % number * size for number in range(count)}


def test_an_object_is_put_once_and_given_back(history):
    assert put(history, b"hello") is True
    assert put(history, b"hello") is False
    assert history.room.read(name_of(b"hello"), 100) == b"hello"
    assert history.room.missing([name_of(b"hello"), name_of(b"other")]) == [name_of(b"other")]
    assert os.stat(history.room.place(name_of(b"hello"))).st_mode & 0o777 == 0o400


def test_a_part_of_a_file_is_an_object(history):
    _, descriptor = passed(b"0123456789")
    assert history.room.put(descriptor, Put(name_of(b"345"), 3, 3))
    os.close(descriptor)
    assert history.room.read(name_of(b"345"), 10) == b"345"


def test_bytes_that_do_not_match_their_name_leave_nothing(history):
    with pytest.raises(Refused, match="do not match their name"):
        put(history, b"other bytes", name_of(b"hello"))
    assert list(history.room.each()) == [] and os.listdir(history.room.incoming) == []
    assert history.room.used == 0, "what was reserved for it is free again"


def test_a_manifest_is_taken_only_when_everything_it_names_is_there(history):
    pages, root = packed_pages([Entry("vault/config", ((name_of(b"x"), 1),))])
    with pytest.raises(MissingObjects) as missing:
        history.commit(root)
    assert missing.value.names == [root]
    for data in pages.values():
        put(history, data)
    with pytest.raises(MissingObjects) as missing:
        history.commit(root)
    assert missing.value.names == [name_of(b"x")]
    put(history, b"x")
    assert history.commit(root).bytes == 1


def test_a_manifest_that_says_the_wrong_size_is_refused(history):
    put(history, b"x")
    pages, root = packed_pages([Entry("vault/config", ((name_of(b"x"), 1 << 30),))])
    for data in pages.values():
        put(history, data)
    with pytest.raises(Refused, match="has 1 bytes, not 1,073,741,824"):
        history.commit(root)
    assert history.numbers() == []


def test_the_same_manifest_again_is_the_same_one(history):
    first = commit(history, snapshots(3))
    assert commit(history, snapshots(3)) == first and history.numbers() == [1]


def test_one_new_file_changes_one_page():
    many = [Entry(f"vault/data/{number}", inline=b"%d" % number) for number in range(5000)]
    before, _ = packed_pages(many)
    after, root = packed_pages([*many, Entry("vault/data/new", inline=b"new")])
    assert len(after.keys() - before.keys()) == 2, "that page, and the list of pages"
    back = [one for name in read_root(after[root]) for one in read_page(after[name])]
    assert sorted(one.path for one in back) == sorted([*(one.path for one in many), "vault/data/new"])


def test_what_no_manifest_of_the_last_days_names_goes_and_nothing_else(history, clock):
    commit(history, {"vault/a": b"a" * 9000, "vault/b": b"b" * 9000})
    old(history, clock, 31)
    for number in range(3):
        commit(history, {"vault/b": b"b" * 9000, "vault/c": b"%d" % number * 9000})
    put(history, b"on its way")
    os.utime(history.room.place(name_of(b"on its way")), (clock.now,) * 2)
    assert history.give_back(30) >= 9000
    there = {name for name, _, _ in history.room.each()}
    assert name_of(b"a" * 9000) not in there
    assert {name_of(b"b" * 9000), name_of(b"on its way")} <= there
    assert history.numbers() == [2, 3, 4]
    for manifest in history.manifests():
        list(history.entries(history.pages(manifest)))
    assert history.room.used == history.room.counted_again()


def test_giving_room_back_reads_each_page_once_and_holds_nobody_up(history, clock, monkeypatch):
    """A month of turns: thousands of manifests, which share all but a few of their pages."""
    files = {f"vault/data/{number}": b"%d" % number for number in range(300)}
    for number in range(20):
        files[f"checkpoints/{number}"] = b"turn %d" % number
        commit(history, files)
        clock.now += 60
    read: list[str] = []
    really = history.room.read

    def noted(name: str, most: int) -> bytes:
        with open(os.path.join(history.room.directory, "lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError where it is held
        read.append(name)
        return really(name, most)

    monkeypatch.setattr(history.room, "read", noted)
    history.give_back(30)
    assert len(read) == len(set(read)) < 150, "20 lists of pages, and every page once"
    assert history.numbers() == list(range(1, 21))
    there = {name for name, _, _ in history.room.each()}
    assert {name_of(data) for data in files.values()} <= there


def test_a_manifest_that_comes_while_room_is_given_back_loses_nothing(history, clock, monkeypatch):
    """It names an object that no other manifest named any more."""
    commit(history, {"vault/old": b"old" * 3000, "vault/a": b"a" * 9000})
    old(history, clock, 31)
    for number in range(3):
        commit(history, {"vault/a": b"a" * 9000, "vault/b": b"%d" % number * 9000})
    really = history.room.locked

    def locked():
        monkeypatch.setattr(history.room, "locked", really)
        commit(history, {"vault/old": b"old" * 3000, "vault/a": b"a" * 9000})
        return really()

    monkeypatch.setattr(history.room, "locked", locked)
    history.give_back(30)
    assert name_of(b"old" * 3000) in {name for name, _, _ in history.room.each()}
    for manifest in history.manifests():
        list(history.entries(history.pages(manifest)))


def test_the_newest_three_stay_whatever_the_clock_says(history, clock):
    for number in range(5):
        commit(history, {"vault/a": b"%d" % number * 9000})
        clock.now += 60
    for years in (40, -80):
        old(history, clock, years * 365)
        history.give_back(30)
        assert history.numbers() == [3, 4, 5]
        there = {name for name, _, _ in history.room.each()}
        assert {name_of(b"%d" % number * 9000) for number in (2, 3, 4)} <= there


def test_a_manifest_of_less_than_half_is_an_alarm_and_pins_the_largest(history, clock):
    commit(history, snapshots(10))
    assert history.alarm.pinned == 0
    clock.now += 60
    shrunk = commit(history, snapshots(4))
    assert shrunk.shrunk and history.alarm.pinned == 1 and history.alarm.since == clock.now
    for number in range(5):
        clock.now += 60
        commit(history, {"vault/rubbish": b"%d" % number * 9000})
    old(history, clock, 400)
    history.give_back(30)
    assert history.numbers() == [1, 5, 6, 7], "pinned, and the newest three"
    back = {one.path for one in history.entries(history.pages(history.get(1)))}
    assert back == set(snapshots(10))
    assert history.acknowledge().pinned == 1
    history.give_back(30)
    assert history.numbers() == [5, 6, 7] and history.alarm.pinned == 0


def test_fewer_points_of_the_same_size_are_an_alarm_too(history, clock):
    commit(history, snapshots(10, 100) | {"vault/data/big": b"x" * 50_000})
    clock.now += 60
    shrunk = commit(history, snapshots(2, 100) | {"vault/data/big": b"x" * 50_000})
    assert shrunk.shrunk and history.alarm.pinned == 1


def test_half_is_no_alarm_and_less_than_half_is(history, clock):
    commit(history, snapshots(10))
    clock.now += 60
    assert not commit(history, snapshots(5)).shrunk and history.alarm.pinned == 0


def test_who_shrinks_slowly_is_compared_with_the_largest_and_not_with_the_last(history, clock):
    """Each state is a little smaller than the one before, over the days that states are kept."""
    for left in range(10, 4, -1):
        assert not commit(history, snapshots(left)).shrunk
        clock.now += 4 * DAY
        history.give_back(30)
    shrunk = commit(history, snapshots(4))
    assert shrunk.shrunk and history.alarm.pinned == 1, "compared with the first, and that one stays"
    for number in range(6):
        clock.now += 10 * DAY
        commit(history, snapshots(3) | {f"own/{number}": b"%d" % number * 10})
        history.give_back(30)
    back = {one.path for one in history.entries(history.pages(history.get(1)))}
    assert back == set(snapshots(10))


def test_what_was_long_before_the_days_that_are_kept_is_no_measure(history, clock):
    """Who lets a vault shrink over months is right to: the largest of the last days is what counts."""
    for left in range(10, 1, -1):
        for _ in range(4):  # the newest three always stay, so the measure is one of the same size
            assert not commit(history, snapshots(left) | {"own/at": str(clock.now).encode()}).shrunk
            clock.now += 11 * DAY
            history.give_back(30)


def test_one_object_under_many_names_counts_once(history):
    commit(history, snapshots(10))
    put(history, b"1" * 5000)
    entries = [Entry(f"vault/snapshots/x{n}", ((name_of(b"1" * 5000), 5000),)) for n in range(100)]
    pages, root = packed_pages(entries)
    for data in pages.values():
        put(history, data)
    assert history.commit(root).shrunk and history.alarm.pinned == 1


def test_after_an_acknowledgement_the_smaller_state_is_the_measure(history, clock):
    commit(history, snapshots(10))
    commit(history, snapshots(4))
    history.acknowledge()
    assert not commit(history, snapshots(3)).shrunk
    assert commit(history, snapshots(1)).shrunk


def test_a_full_quota_refuses_and_deletes_nothing(tmp_path, clock):
    store = KeeperStore(str(tmp_path))
    store.make()
    store.set_limits(KeeperLimits(40_000))
    history = ManifestHistory(store.room(1000), clock)
    commit(history, {"vault/a": b"a" * 5000})
    before = sorted(history.room.each())
    with pytest.raises(Refused, match="quota of 40,000 bytes is used up"):
        put(history, b"b" * 50_000)
    assert sorted(history.room.each()) == before


BAD_PATHS = ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\0b", "x" * 5000, 7, None]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_leads_elsewhere_is_no_manifest(path):
    page = zlib.compress(json.dumps([[path, ""]]).encode())
    with pytest.raises(BadManifest):
        list(read_page(page))


def test_a_page_that_unpacks_without_end_is_refused():
    with pytest.raises(BadManifest, match="too large"):
        list(read_page(zlib.compress(b"[" + b" " * (200 << 20))))
