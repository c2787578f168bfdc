"""The local storage writes as restic's does: durable, private, read-only, and leaves nothing half done."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import time

import pytest

from safekept.core.files import NoRoom
from safekept.core.processes.process import process_space
from safekept.vault.errors import VaultDamaged, VaultUnreachable
from safekept.vault.storage import FileKind, LocalStorage, NotStored

CONTENT = b"content" * 1000
NAME = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def storage(tmp_path):
    made = LocalStorage(str(tmp_path / "vault"))
    made.create()
    return made


@pytest.mark.needs("modes", "it looks at modes")
def test_files_are_read_only_and_directories_private(storage):
    storage.write(FileKind.PACK, NAME, CONTENT)
    storage.write(FileKind.CONFIG, "", b"config")
    for directory, _, names in os.walk(storage.path):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700, directory
        for name in names:
            assert stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode) == 0o400, name
    assert os.path.exists(os.path.join(storage.path, "data", NAME[:2], NAME))


def test_a_write_is_synced_before_it_has_its_name(storage, monkeypatch):
    events = []
    for name in ("fsync", "rename"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, _r=real, _n=name: (events.append(_n), _r(*a))[1])
    storage.write(FileKind.PACK, NAME, CONTENT)
    assert events[-3:] == ["fsync", "rename", "fsync"]


@pytest.mark.parametrize("alone", [True, False], ids=["own disk", "share"])
def test_a_lock_waits_for_no_disk_that_one_machine_has_to_itself(storage, monkeypatch, alone):
    """A power cut ends every process that such a lock could speak for; on a share others go on."""
    monkeypatch.setattr(LocalStorage, "only_here", alone)
    events = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append(descriptor), real(descriptor))[1])
    storage.write(FileKind.LOCK, NAME, CONTENT)
    assert len(events) == (0 if alone else 2) and storage.exists(FileKind.LOCK, NAME)


@pytest.mark.parametrize("name", ["fsync", "rename", "write", "fchmod"])
def test_a_full_disk_leaves_nothing_of_a_batch(storage, monkeypatch, name):
    real, left = getattr(os, name), [2]

    def fail(*given):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given)

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(NoRoom), storage.batch() as batch:
        for kind in (FileKind.PACK, FileKind.INDEX, FileKind.SNAPSHOT):
            batch.add(kind, NAME, CONTENT)
        for kind in (FileKind.PACK, FileKind.INDEX, FileKind.SNAPSHOT):
            batch.publish(kind)
    monkeypatch.undo()
    found = [name for _, _, names in os.walk(storage.path) for name in names]
    assert set(found) <= {NAME} and not storage.exists(FileKind.SNAPSHOT, NAME)


@pytest.mark.parametrize("name", ["fsync", "rename", "write", "fchmod"])
def test_a_full_disk_leaves_no_name_and_no_leftover(storage, monkeypatch, name):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    storage.write(FileKind.PACK, hashlib.sha256(b"x").hexdigest(), b"x")
    monkeypatch.setattr(os, name, fail)
    with pytest.raises(NoRoom) as caught:
        storage.write(FileKind.PACK, NAME, CONTENT)
    monkeypatch.undo()
    assert "no room left for the vault" in caught.value.what
    assert "whole" in caught.value.kept
    assert caught.value.advice()
    leftovers = [name for _, _, names in os.walk(storage.path) for name in names]
    assert leftovers == [hashlib.sha256(b"x").hexdigest()]


def test_a_really_full_disk_is_named(small_filesystem):
    storage = LocalStorage(os.path.join(small_filesystem(512), "vault"))
    storage.create()
    with pytest.raises(NoRoom):
        storage.write(FileKind.PACK, NAME, bytes(1 << 20))
    assert list(storage.list(FileKind.PACK)) == []


def test_a_vault_that_is_gone_is_not_made_anew_by_a_write(storage):
    os.rename(storage.path, storage.path + "-unmounted")
    with pytest.raises(VaultUnreachable) as caught:
        storage.write(FileKind.PACK, NAME, CONTENT)
    assert "mounted" in caught.value.advice()[0]
    assert not os.path.exists(storage.path)
    with pytest.raises(NotStored):
        storage.read(FileKind.CONFIG)


def test_a_config_that_may_not_survive_a_power_cut_is_taken_back(storage, monkeypatch):
    """Nobody else can have written it, and with it the place would count as a vault."""
    real, failed = os.fsync, []

    def fail(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) and not failed:
            failed.append(descriptor)
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(VaultUnreachable) as caught:
        storage.write(FileKind.CONFIG, "", b"config")
    assert caught.value.what == f"The vault at `{storage.path}` could not be written: Input/output error"
    assert failed and not storage.exists(FileKind.CONFIG)
    storage.write(FileKind.CONFIG, "", b"config")
    assert storage.read(FileKind.CONFIG) == b"config"


def test_a_directory_in_the_place_of_a_file_is_no_file(storage):
    os.makedirs(os.path.join(storage.path, "index", NAME))
    assert list(storage.list(FileKind.INDEX)) == [] and not storage.exists(FileKind.INDEX, NAME)
    for read in (storage.read, lambda kind, name: storage.read_into(bytearray(9), kind, name)):
        with pytest.raises(NotStored):
            read(FileKind.INDEX, NAME)


def test_a_bad_sector_is_damage_of_one_file(storage, monkeypatch):
    storage.write(FileKind.PACK, NAME, CONTENT)

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(VaultDamaged) as caught:
        storage.read(FileKind.PACK, NAME)
    assert caught.value.facts == {"file": f"data/{NAME[:2]}/{NAME}", "reason": "the disk cannot read it"}


def test_foreign_and_temporary_files_are_not_listed(storage):
    storage.write(FileKind.PACK, NAME, CONTENT)
    for path in ("data/README", f"data/{NAME[:2]}/{NAME}-tmp-123", "data/zz/" + NAME, "data/ab", "index/x"):
        os.makedirs(os.path.dirname(os.path.join(storage.path, path)), exist_ok=True)
        with open(os.path.join(storage.path, path), "wb"):
            pass
    assert [name for name, _ in storage.list(FileKind.PACK)] == [NAME]
    assert list(storage.list(FileKind.INDEX)) == []


def test_sweeping_takes_only_what_a_dead_process_of_this_machine_left(storage, tmp_path):
    child = subprocess.run(["true"], check=True)
    assert child.returncode == 0
    dead = subprocess.Popen(["true"])
    dead.wait()
    here = process_space()
    old = [f"{NAME}-tmp-{dead.pid}-{here}-aa", f"config-tmp-{dead.pid}-{here}-bb"]
    ancient = f"{NAME}-tmp-{dead.pid}-00000000-ab"  # of somebody else, two days ago
    stay = [
        f"{NAME}-tmp-{os.getpid()}-{here}-aa",  # alive
        f"{NAME}-tmp-{dead.pid}-00000000-aa",  # of another container, where it may be alive
        f"{NAME}-tmp-1234",  # restic's
        NAME,
    ]
    for name in [*old, ancient, *stay]:
        directory = storage.path if name.startswith("config") else os.path.join(storage.path, "index")
        path = os.path.join(directory, name)
        with open(path, "wb"):
            pass
        when = time.time() - (2 * 86_400 if name == ancient else 3600)
        os.utime(path, (when, when))
    fresh = os.path.join(storage.path, "index", f"{NAME}-tmp-{dead.pid}-{here}-cc")
    with open(fresh, "wb"):
        pass
    assert sorted(map(os.path.basename, storage.sweep())) == sorted([*old, ancient])
    assert sorted(os.listdir(os.path.join(storage.path, "index"))) == sorted([*stay, os.path.basename(fresh)])
