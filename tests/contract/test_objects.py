"""What every place for objects promises; a new one is added to PLACES and passes or is not a place."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import threading
import time
from dataclasses import replace

import pytest

from safekept.core.objects import NotThere, Taken
from safekept.core.objects.base import Below, checked, checked_prefix
from safekept.core.objects.errors import PlaceMissing, PlaceRefused
from safekept.core.objects.local import LocalObjects
from safekept.core.objects.memory import MemoryObjects
from support.offsite.servers import Place
from support.users.unprivileged import NOBODY, as_nobody, nobodys, ssh_to_itself  # noqa: F401

#: Each makes a place on a server or on this machine.
PLACES = {
    "file": lambda ask: Place(f"file:{ask('server_root')}/file-{secrets.token_hex(4)}", ""),
    "sftp": lambda ask: ask("sftp_server").place(),
    "s3": lambda ask: ask("s3_server").place(),
    "rest": lambda ask: ask("rest_server").place(),
    "rclone-local": lambda ask: ask("rclone_remotes").local(),
    "rclone-s3": lambda ask: ask("rclone_remotes").s3(),
}
DATA = os.urandom(300_000)


@pytest.fixture(scope="module")
def opened(request):
    """Opens each place once, for all tests."""
    with contextlib.ExitStack() as stack:
        places = {"memory": MemoryObjects()}

        def open_place(name):
            if name not in places:
                places[name] = PLACES[name](request.getfixturevalue).open()
                stack.callback(places[name].close)
                places[name].create()
                if name == "rest":
                    places[name] = AsPacks(places[name])
            return places[name]

        yield open_place


class AsPacks(Below):
    """A place that keeps the files of vaults only: each name of a test stands for that of a pack."""

    def __init__(self, place):
        super().__init__(place, f"packs-{secrets.token_hex(4)}")
        self._names = {}

    def _pack(self, name):
        number = hashlib.sha256(checked(name).encode()).hexdigest()
        self._names[number] = name
        return f"data/{number[:2]}/{number}"

    def list(self, prefix=""):
        for stored in super().list():
            name = self._names[stored.name.rpartition("/")[2]]
            if name.startswith(checked_prefix(prefix)):
                yield replace(stored, name=name)

    def size(self, name):
        return super().size(self._pack(name))

    def read(self, name, offset=0, length=None):
        return super().read(self._pack(name), offset, length)

    def stream(self, name, offset=0):
        yield from super().stream(self._pack(name), offset)

    def write(self, name, content, *, replace=False):
        super().write(self._pack(name), content, replace=replace)

    def delete(self, name):
        super().delete(self._pack(name))


@pytest.fixture(params=["memory", *PLACES])
def objects(request, opened):
    """A directory of its own in each place."""
    return opened(request.param).below(f"test-{secrets.token_hex(6)}")


def names(objects, prefix=""):
    return sorted((stored.name, stored.size) for stored in objects.list(prefix))


def test_an_object_comes_back_whole_and_in_parts(objects):
    objects.write("data/ab/one", DATA)
    assert objects.read("data/ab/one") == DATA
    assert objects.read("data/ab/one", 1000, 2000) == DATA[1000:3000]
    assert objects.read("data/ab/one", 299_990, 500) == DATA[-10:]
    assert objects.read("data/ab/one", 300_000, 10) == b""
    assert objects.read("data/ab/one", 400_000) == b""
    assert b"".join(objects.stream("data/ab/one")) == DATA
    assert b"".join(objects.stream("data/ab/one", 299_000)) == DATA[299_000:]
    assert b"".join(objects.stream("data/ab/one", 300_000)) == b""
    assert objects.size("data/ab/one") == len(DATA)


def test_an_empty_object_is_an_object(objects):
    objects.write("empty", b"")
    assert objects.size("empty") == 0
    assert objects.read("empty") == b""
    assert list(objects.stream("empty")) == []
    assert names(objects) == [("empty", 0)]


def test_files_are_taken_from_where_they_stand_to_their_end(objects, tmp_path):
    path = tmp_path / "archive.zip"
    path.write_bytes(DATA)
    with open(path, "rb") as file:
        objects.write("from-the-start", file)
    with open(path, "rb") as file:
        file.seek(200_000)
        objects.write("from-the-middle", file)
    objects.write("without-a-path", io.BytesIO(DATA))
    assert objects.read("from-the-start") == DATA
    assert objects.read("from-the-middle") == DATA[200_000:]
    assert objects.read("without-a-path") == DATA


def test_bytes_in_every_shape_are_written(objects):
    objects.write("bytearray", bytearray(b"one"))
    objects.write("view", memoryview(b"one two")[4:])
    assert (objects.read("bytearray"), objects.read("view")) == (b"one", b"two")


def test_a_listing_is_deep_and_ends_at_its_directory(objects):
    for name in ("a/1", "a/b/2", "a/b/c/3", "ab/4", "5"):
        objects.write(name, b"x" * int(name[-1]))
    assert names(objects) == [("5", 5), ("a/1", 1), ("a/b/2", 2), ("a/b/c/3", 3), ("ab/4", 4)]
    assert names(objects, "a/") == [("a/1", 1), ("a/b/2", 2), ("a/b/c/3", 3)]
    assert names(objects, "a/b/") == [("a/b/2", 2), ("a/b/c/3", 3)]
    assert names(objects, "nothing/") == []


def test_a_listing_says_when(objects):
    objects.write("now", b"x")
    (stored,) = objects.list()
    if "rest:" in objects.location:
        assert stored.modified == 0  # the protocol has no times
        return
    assert abs(stored.modified - time.time()) < 600


def test_a_taken_name_is_refused_and_not_touched(objects):
    objects.write("config", b"one")
    with pytest.raises(Taken):
        objects.write("config", b"two")
    with pytest.raises(Taken):
        objects.write("config", io.BytesIO(b"two"))
    assert objects.read("config") == b"one"


def test_replacing_is_explicit(objects):
    objects.write("status", b"one", replace=True)
    objects.write("status", b"another", replace=True)
    assert objects.read("status") == b"another"
    assert objects.read("status", 2, 3) == b"oth"


def test_what_is_not_there_is_not_there(objects):
    objects.write("a/file", b"x")
    for look in (
        objects.read,
        objects.size,
        lambda name: list(objects.stream(name)),
        lambda name: objects.read(name, 5, 5),
    ):
        for name in ("nothing", "a", "a/file2", "b/c"):
            with pytest.raises(NotThere):
                look(name)
    assert not objects.exists("nothing")


def test_deleting_can_be_repeated(objects):
    objects.write("a/b", b"x")
    objects.delete("a/b")
    objects.delete("a/b")
    objects.delete("never/there")
    assert names(objects) == []
    objects.write("a/b", b"y")
    assert objects.read("a/b") == b"y"


@pytest.mark.parametrize(
    "name", ["Ümläut und Leerzeichen.zip", "a+b=c,(d)@e~f#g%20h?i&j", "-dash", ".hidden", "é"]
)
def test_names_of_all_kinds_come_back_as_they_went(objects, name):
    objects.write(f"archives/{name}", b"x")
    assert names(objects) == [(f"archives/{name}", 1)]
    assert objects.read(f"archives/{name}") == b"x"
    with pytest.raises(Taken):
        objects.write(f"archives/{name}", b"y")


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", "../a", "a/../b", ".", "a\nb", "a\\b", "a\udce9", "x" * 900]
)
def test_names_that_not_every_place_can_keep_are_refused(objects, name):
    for call in (lambda: objects.write(name, b"x"), lambda: objects.read(name), lambda: objects.delete(name)):
        with pytest.raises(ValueError, match="not a name"):
            call()


def race(objects, contents):
    """Write all of these under one name at once; what each writer was told."""
    outcomes = []

    def write(content):
        try:
            objects.write("race/config", content)
            outcomes.append(content)
        except Taken:
            outcomes.append(None)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == len(contents)
    return outcomes


def test_one_of_many_writers_of_a_name_wins_where_the_place_can_refuse(objects):
    if not objects.probe().write_once:
        return  # then only the next promise holds
    outcomes = race(objects, [bytes([65 + at]) * 50_000 for at in range(4)])
    assert [content for content in outcomes if content] == [objects.read("race/config")]
    assert names(objects) == [("race/config", 50_000)]


def test_many_writers_of_the_same_bytes_leave_them_whole(objects):
    outcomes = race(objects, [DATA] * 4)
    assert DATA in outcomes
    assert objects.read("race/config") == DATA
    assert names(objects) == [("race/config", len(DATA))]


def test_many_threads_write_read_and_list_at_once(objects):
    failures = []

    def work(lane):
        try:
            for at in range(4):
                data = f"{lane}-{at}".encode() * 3000
                objects.write(f"lane-{lane}/{at}", data)
                assert objects.read(f"lane-{lane}/{at}") == data
                assert len(list(objects.list(f"lane-{lane}/"))) == at + 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(names(objects)) == 24


def test_a_probe_tells_what_is_allowed_and_leaves_nothing(opened):
    for name in ("memory", *PLACES):
        place = opened(name)
        before = names(place)
        abilities = place.probe()
        assert (abilities.write, abilities.overwrite, abilities.delete, abilities.left) == (
            True,
            True,
            True,
            "",
        )
        assert names(place) == before


@pytest.mark.parametrize("kind", ["file", "sftp", "rclone-local"])
def test_a_missing_root_is_a_missing_place_and_never_made_by_a_write(request, kind):
    place = PLACES[kind](request.getfixturevalue)
    gone = Place(f"{place.url}/not-mounted", "", place.options, place.environment)
    with contextlib.closing(gone.open()) as objects:
        assert not objects.present()
        for call in (
            lambda: objects.write("data/ab/x", b"x"),
            lambda: objects.read("x"),
            lambda: objects.size("x"),
            lambda: list(objects.list()),
            lambda: list(objects.list("data/")),
            lambda: objects.delete("x"),
        ):
            with pytest.raises(PlaceMissing) as caught:
                call()
            assert "not-mounted" in caught.value.what
            assert "Nothing was made" in caught.value.kept
        objects.create()
        assert objects.present()
        objects.write("data/ab/x", b"x")
        assert objects.read("data/ab/x") == b"x"


def test_a_missing_bucket_is_a_missing_place(s3_server):
    place = s3_server.place()
    gone = Place("s3://no-such-bucket/agent", "", place.options, place.environment)
    with contextlib.closing(gone.open()) as objects:
        assert not objects.present()
        for call in (
            objects.create,
            lambda: objects.write("x", b"x"),
            lambda: objects.read("x"),
            lambda: list(objects.list()),
        ):
            with pytest.raises(PlaceMissing, match="There is no bucket for `s3://no-such-bucket/agent"):
                call()


@pytest.mark.parametrize("kind", ["file", "sftp"])
def test_leftovers_of_broken_writes_are_hidden_and_swept_when_old(request, kind):
    place = PLACES[kind](request.getfixturevalue)
    directory = place.directory or place.url.removeprefix("file:")
    with contextlib.closing(place.open()) as objects:
        objects.create()
        objects.write("data/ab/whole", b"x")
        left = os.path.join(directory, "data", "ab", ".safekept-tmp-99-abc")
        with open(left, "wb") as file:
            file.write(b"half")
        assert names(objects) == [("data/ab/whole", 1)]
        assert objects.sweep() == []  # it may be at work still
        os.utime(left, (1, 1))
        assert list(objects.sweep()) == ["data/ab/.safekept-tmp-99-abc"]
        assert not os.path.exists(left)
        assert names(objects) == [("data/ab/whole", 1)]


@pytest.mark.parametrize("kind", ["file", "sftp"])
def test_a_directory_that_is_closed_to_us_hides_no_other(nobodys, kind):  # noqa: F811
    disk = os.path.join(nobodys, "disk")
    for name in ("ours/data", "lost+found", "empty"):
        os.makedirs(os.path.join(disk, name))
    left = os.path.join(disk, "ours", "data", ".safekept-tmp-99-abc")
    for path in (left, os.path.join(disk, "ours", "data", "whole")):
        with open(path, "wb") as file:
            file.write(b"x")
    os.utime(left, (1, 1))
    os.chmod(os.path.join(disk, "lost+found"), 0o000)
    if os.getuid() == 0:
        os.chown(os.path.join(disk, "ours", "data"), NOBODY, NOBODY)
    environment = {"PATH": f"{ssh_to_itself(nobodys)}:/usr/bin:/bin", "HOME": nobodys}
    place = Place(f"sftp://disk{disk}" if kind == "sftp" else f"file:{disk}", "", environment=environment)

    def look():
        with contextlib.closing(place.open()) as objects:
            with pytest.raises(PlaceRefused) as caught:
                list(objects.list("lost+found/"))
            listed = [stored.name for stored in objects.list()]
            return list(objects.directories()), listed, list(objects.sweep()), caught.value.what

    found, listed, swept, what = as_nobody(look)
    assert listed == ["ours/data/whole"]
    assert found == ["lost+found", "ours"], "what is closed may hold something"
    assert swept == ["ours/data/.safekept-tmp-99-abc"] and not os.path.exists(left)
    shown = f"sftp://disk{disk}/lost+found" if kind == "sftp" else f"{disk}/lost+found"
    assert what == f"`{shown}` does not let us list it: Permission denied"


@pytest.mark.parametrize("kind", ["file", "sftp"])
def test_what_is_stored_is_for_its_owner_only(request, kind):
    place = PLACES[kind](request.getfixturevalue)
    directory = place.directory or place.url.removeprefix("file:")
    with contextlib.closing(place.open()) as objects:
        objects.create()
        objects.write("data/ab/whole", b"x")
    assert os.stat(os.path.join(directory, "data", "ab", "whole")).st_mode & 0o777 in (0o600, 0o400)
    assert os.stat(os.path.join(directory, "data", "ab")).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(os.path.join(directory, "data", "ab"))) == ["whole"]


def test_a_view_from_below_shows_only_what_is_below(opened):
    for name in ("memory", "file"):
        above = opened(name)
        view = above.below("0123abcd/").below("deeper")
        view.write("config", b"x")
        assert names(view) == [("config", 1)]
        assert above.read("0123abcd/deeper/config") == b"x"
        assert view.location.endswith("/0123abcd/deeper")
        with pytest.raises(NotThere) as caught:
            view.read("keys/none")
        assert caught.value.name == "keys/none"
        view.close()
        assert above.exists("0123abcd/deeper/config")


def test_a_stick_without_hard_links_keeps_the_contract(tmp_path, monkeypatch):
    """FAT has none."""

    def refuse(*arguments, **options):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    objects = LocalObjects(str(tmp_path))
    objects.write("config", b"one")
    with pytest.raises(Taken):
        objects.write("config", b"two")
    assert names(objects) == [("config", 3)]
