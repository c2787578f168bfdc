"""What every storage promises; a new one is added to STORAGES and passes or is not a storage."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading

import pytest

from safekept.core.objects.local import LocalObjects
from safekept.core.objects.memory import MemoryObjects
from safekept.vault.storage import AlreadyStored, FileKind, LocalStorage, NotStored
from safekept.vault.storage.objects import ObjectStorage
from support.vault.faulty_storage import FaultyStorage
from support.vault.memory_storage import MemoryStorage

STORAGES = {
    "local": lambda path: LocalStorage(os.path.join(str(path), "vault")),
    "memory": lambda path: MemoryStorage(),
    "faulty": lambda path: FaultyStorage(MemoryStorage()),
    "remote-memory": lambda path: ObjectStorage(MemoryObjects().below("4d2f00aa")),
    "remote-file": lambda path: ObjectStorage(LocalObjects(os.path.join(str(path), "stick"))),
}
#: Places on real servers: one connection for all tests, and a vault of its own for each.
SERVERS = {
    "sftp": lambda ask: ask("sftp_server").place(),
    "s3": lambda ask: ask("s3_server").place(),
    "rest": lambda ask: ask("rest_server").place(),
    "rclone-local": lambda ask: ask("rclone_remotes").local(),
    "rclone-s3": lambda ask: ask("rclone_remotes").s3(),
}
CONTENT = bytes(range(256)) * 40
NAME = hashlib.sha256(CONTENT).hexdigest()
KINDS = [kind for kind in FileKind if kind is not FileKind.CONFIG]


@pytest.fixture(scope="module")
def opened(request):
    """Opens each server's place once."""
    with contextlib.ExitStack() as stack:
        places = {}

        def open_place(name):
            if name not in places:
                places[name] = SERVERS[name](request.getfixturevalue).open()
                stack.callback(places[name].close)
            return places[name]

        yield open_place


@pytest.fixture(params=[*STORAGES, *SERVERS])
def storage(request, tmp_path, opened):
    if request.param in STORAGES:
        made = STORAGES[request.param](tmp_path)
    else:
        made = ObjectStorage(opened(request.param).below(secrets.token_hex(8)))
    made.create()
    yield made
    made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_is_listed_and_read(storage, kind):
    storage.write(kind, NAME, CONTENT)
    assert list(storage.list(kind)) == [(NAME, len(CONTENT))]
    assert storage.names(kind) == {NAME}
    assert storage.read(kind, NAME) == CONTENT
    assert storage.size(kind, NAME) == len(CONTENT)
    assert [other for other in KINDS if other is not kind and list(storage.list(other))] == []


def test_sizes_are_those_of_what_is_there(storage):
    storage.write(FileKind.PACK, NAME, CONTENT)
    assert storage.sizes(FileKind.PACK, [NAME, "ab" * 32]) == {NAME: len(CONTENT)}
    assert storage.sizes(FileKind.PACK, []) == {}


def test_parts_are_read_exactly_and_end_with_the_file(storage):
    storage.write(FileKind.PACK, NAME, bytearray(CONTENT))
    assert storage.read(FileKind.PACK, NAME, 100, 50) == CONTENT[100:150]
    assert storage.read(FileKind.PACK, NAME, 100) == CONTENT[100:]
    assert storage.read(FileKind.PACK, NAME, len(CONTENT) - 5, 100) == CONTENT[-5:]
    assert storage.read(FileKind.PACK, NAME, len(CONTENT) + 5, 100) == b""
    assert storage.read(FileKind.PACK, NAME, 5, 0) == b""


def test_a_taken_name_is_refused_and_never_replaced(storage):
    storage.write(FileKind.PACK, NAME, CONTENT)
    with pytest.raises(AlreadyStored):
        storage.write(FileKind.PACK, NAME, b"other")
    assert storage.read(FileKind.PACK, NAME) == CONTENT


def test_the_config_has_no_name_and_is_written_once(storage):
    assert not storage.exists(FileKind.CONFIG)
    assert list(storage.list(FileKind.CONFIG)) == []
    storage.write(FileKind.CONFIG, "", b"one")
    with pytest.raises(AlreadyStored):
        storage.write(FileKind.CONFIG, "", b"two")
    assert storage.read(FileKind.CONFIG) == b"one"
    assert list(storage.list(FileKind.CONFIG)) == [("", 3)] and storage.names(FileKind.CONFIG) == {""}


def test_what_is_not_there_is_not_stored(storage):
    for look in (storage.read, storage.size):
        with pytest.raises(NotStored):
            look(FileKind.SNAPSHOT, NAME)
    assert not storage.exists(FileKind.SNAPSHOT, NAME)


def test_names_are_found_without_a_look_at_any_file(tmp_path):
    storage = STORAGES["local"](tmp_path)
    storage.create()
    storage.write(FileKind.SNAPSHOT, NAME, CONTENT)
    place = os.path.join(storage.path, FileKind.SNAPSHOT.value)
    os.mkdir(os.path.join(place, "d" * 64))
    os.symlink("nowhere", os.path.join(place, "e" * 64))  # a look would find that it leads nowhere
    os.symlink("nowhere", os.path.join(place, f"{NAME}-tmp-1"))
    assert storage.names(FileKind.SNAPSHOT) == {NAME, "e" * 64}
    assert storage.names(FileKind.MARK) == frozenset(), "that directory is made with the first mark"


def test_a_delete_can_be_repeated(storage):
    storage.write(FileKind.INDEX, NAME, CONTENT)
    storage.delete(FileKind.INDEX, NAME)
    storage.delete(FileKind.INDEX, NAME)
    assert list(storage.list(FileKind.INDEX)) == []
    storage.write(FileKind.INDEX, NAME, CONTENT)
    assert storage.exists(FileKind.INDEX, NAME)


def test_create_can_be_repeated_and_loses_nothing(storage):
    storage.write(FileKind.KEY, NAME, CONTENT)
    storage.create()
    assert storage.read(FileKind.KEY, NAME) == CONTENT


@pytest.mark.parametrize("name", ["", "abc", "../../etc/passwd", NAME.upper(), NAME + "0", NAME[:-1] + "/"])
def test_names_of_another_shape_are_refused(storage, name):
    for call in (
        lambda: storage.write(FileKind.PACK, name, b"x"),
        lambda: storage.read(FileKind.PACK, name),
        lambda: storage.delete(FileKind.PACK, name),
    ):
        with pytest.raises(ValueError, match="not a name"):
            call()


def test_a_batch_is_seen_kind_after_kind_and_what_is_not_published_never(storage):
    other = hashlib.sha256(b"other").hexdigest()
    with storage.batch() as batch:
        batch.add(FileKind.PACK, NAME, CONTENT)
        batch.add(FileKind.PACK, other, bytearray(b"other"))
        batch.add(FileKind.INDEX, NAME, CONTENT)
        batch.add(FileKind.SNAPSHOT, NAME, CONTENT)
        assert not any(list(storage.list(kind)) for kind in KINDS)
        batch.publish(FileKind.PACK)
        assert storage.names(FileKind.PACK) == {NAME, other} and not storage.names(FileKind.INDEX)
        batch.publish(FileKind.INDEX)
        assert storage.names(FileKind.INDEX) == {NAME} and not storage.names(FileKind.SNAPSHOT)
    assert not storage.names(FileKind.SNAPSHOT)
    assert storage.read(FileKind.PACK, NAME) == storage.read(FileKind.INDEX, NAME) == CONTENT
    assert storage.read(FileKind.PACK, other) == b"other"


def test_a_batch_replaces_nothing(storage):
    storage.write(FileKind.PACK, NAME, CONTENT)
    with pytest.raises(AlreadyStored), storage.batch() as batch:
        batch.add(FileKind.PACK, NAME, b"other")
        batch.publish(FileKind.PACK)
    assert storage.read(FileKind.PACK, NAME) == CONTENT


def test_many_threads_may_write_at_once(storage):
    contents = [os.urandom(2000) for _ in range(40)]
    names = [hashlib.sha256(content).hexdigest() for content in contents]

    def write(part):
        for name, content in part:
            storage.write(FileKind.PACK, name, content)

    pairs = list(zip(names, contents, strict=True))
    threads = [threading.Thread(target=write, args=(pairs[at::4],)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(storage.list(FileKind.PACK)) == sorted((name, 2000) for name in names)
    assert all(storage.read(FileKind.PACK, name) == content for name, content in pairs)


def test_a_remote_listing_shows_only_names_of_the_vaults_own_shape():
    objects = MemoryObjects()
    storage = ObjectStorage(objects)
    storage.write(FileKind.PACK, NAME, CONTENT)
    wrong = (
        "data/ab/ab12",
        f"data/{NAME}",
        f"data/zz/{NAME}",
        f"data/{NAME[:2]}/deeper/{NAME}",
        "data/README",
    )
    for name in (*wrong, "keys/thumbs.db", f"keys/{NAME}.old", "config.bak", "locks/x"):
        objects.write(name, b"x")
    assert list(storage.list(FileKind.PACK)) == [(NAME, len(CONTENT))]
    assert [kind for kind in FileKind if kind is not FileKind.PACK and list(storage.list(kind))] == []


def test_a_remote_vault_lies_as_restic_lays_it_out():
    objects = MemoryObjects()
    storage = ObjectStorage(objects)
    for kind in KINDS:
        storage.write(kind, NAME, CONTENT)
    storage.write(FileKind.CONFIG, "", b"x")
    places = [f"{kind}/{NAME}" for kind in ("index", "keys", "locks", "snapshots", "safekept/marks")]
    assert sorted(objects.objects) == sorted(["config", f"data/{NAME[:2]}/{NAME}", *places])
