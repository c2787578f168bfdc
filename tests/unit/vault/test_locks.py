"""Locks: restic's rules, names of holders, nothing left behind, and no writing without one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from safekept.core.platform.processes import uptime
from safekept.core.processes.process import boot, process_space
from safekept.vault.care.checking import check
from safekept.vault.errors import LockLost, VaultLocked, VaultUnreachable
from safekept.vault.format.blobs import BlobKind
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.repo import locks as locks_module
from safekept.vault.repo.lock_file import LockFile, read_locks
from safekept.vault.repo.locks import unlock
from safekept.vault.repo.repository import Repository
from safekept.vault.repo.sealed_files import save_file
from safekept.vault.storage import FileKind, LocalStorage, stored_name
from support.commands.waiting import PATIENT, wait_until
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import SECRET, new_vault, save_files, save_tree, some_files


@pytest.mark.parametrize("left", [b"", bytes(300)], ids=["empty", "zeros"])
def test_a_lock_that_a_power_cut_left_without_its_bytes_stops_nobody(vault, left):
    vault.storage.write(FileKind.LOCK, "ab" * 32, left)
    with vault.lock(exclusive=True) as lock:
        lock.prove()


def foreign(vault, **changes):
    """A lock that somebody else wrote, as old by the clock of its place as by its own word."""
    fields = {
        "id": "", "time_ns": time.time_ns(), "exclusive": False, "hostname": "kasimir", "username": "u",
        "pid": 4121,
    } | changes  # fmt: skip
    name = save_file(vault.storage, vault.key, FileKind.LOCK, LockFile(**fields).to_json())
    if isinstance(vault.storage, MemoryStorage):
        vault.storage.times[stored_name(FileKind.LOCK, name)] = fields["time_ns"] / 1e9
    return name


#: Stands for the number of a process that is gone.
DEAD = -1


def dead_pid():
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def names(vault):
    return [name for name, _ in vault.storage.list(FileKind.LOCK)]


def test_a_lock_is_a_file_that_goes_away_again(vault):
    with vault.lock() as lock:
        assert names(vault) == [lock.name]
        (found,) = read_locks(vault.storage, vault.key)
        assert (found.pid, found.hostname, found.exclusive) == (os.getpid(), os.uname().nodename, False)
        assert not found.stale
    assert names(vault) == []
    lock.release()


def test_many_may_share_and_only_one_may_have_it_alone(vault):
    with vault.lock(), vault.lock():
        with pytest.raises(VaultLocked):
            vault.lock(exclusive=True)
        assert len(names(vault)) == 2
    with vault.lock(exclusive=True):
        for exclusive in (True, False):
            with pytest.raises(VaultLocked):
                vault.lock(exclusive=exclusive)
        assert len(names(vault)) == 1


def test_the_error_names_the_holder_and_what_to_do(vault):
    foreign(vault, exclusive=True)
    with pytest.raises(VaultLocked) as caught:
        vault.lock()
    assert caught.value.exit_code == 11
    assert caught.value.retry
    assert "by pid 4121 on `kasimir` since " in caught.value.what
    assert "Nothing was written" in caught.value.kept
    assert "`safekept vault unlock --all`" in caught.value.advice()[1]
    assert len(names(vault)) == 1


@pytest.mark.parametrize(
    ("changes", "stale"),
    [
        ({}, False),
        ({"minutes": 29}, False),
        ({"minutes": 31}, True),
        ({"minutes": -60}, False),  # our clock was set back
        ({"hostname": os.uname().nodename, "pid": os.getpid()}, False),
        # The number alone says nothing: it may be one of another PID namespace, where it is alive.
        ({"hostname": os.uname().nodename, "pid": DEAD}, False),
        ({"pid": DEAD, "boot": boot(), "space": "a container", "up": 0}, False),
        ({"pid": DEAD, "boot": boot(), "space": process_space(), "up": 0}, True),
        ({"pid": os.getpid(), "boot": boot(), "space": process_space(), "up": 0}, False),
        # Of this boot only the clock counts that nobody sets.
        ({"minutes": 31, "boot": boot(), "space": "a container", "up": 0}, False),
        ({"boot": boot(), "space": "a container", "up": 31}, True),
    ],
)
def test_a_lock_left_behind_wedges_nothing(vault, changes, stale):
    if changes.get("pid") == DEAD:  # a number that was free when the run began may be somebody's by now
        changes = {**changes, "pid": dead_pid()}
    if "minutes" in changes:  # counted from now: the list above was made when the run began
        minutes, changes = changes["minutes"], {**changes}
        del changes["minutes"]
        changes["time_ns"] = time.time_ns() - minutes * 60 * 10**9
    if "up" in changes:
        changes = {**changes, "uptime": uptime() - changes["up"] * 60}
        del changes["up"]
    foreign(vault, exclusive=True, **changes)
    if stale:
        with vault.lock(exclusive=True) as lock:
            assert names(vault) == [lock.name]
    else:
        with pytest.raises(VaultLocked):
            vault.lock()
    assert [finding.code for finding in check(vault).findings] == []


def test_unlock_removes_what_is_left_behind_or_everything(vault):
    live, old = foreign(vault), foreign(vault, time_ns=0)
    vault.storage.write(FileKind.LOCK, "0" * 64, b"torn")
    codes = [finding.code for finding in check(vault).findings]
    assert codes == ["lock-left-behind"] * 2
    assert {lock.id for lock in unlock(vault.storage, vault.key)} == {old, "0" * 64}
    assert names(vault) == [live]
    assert [lock.id for lock in unlock(vault.storage, vault.key, everything=True)] == [live]
    assert names(vault) == []


def test_an_unreadable_lock_stops_only_what_deletes(vault):
    vault.storage.write(FileKind.LOCK, "0" * 64, b"torn")
    vault.storage.files["locks/" + "1" * 64] = b""
    with vault.lock():
        pass
    with pytest.raises(VaultLocked) as caught:
        vault.lock(exclusive=True)
    assert "cannot be read" in caught.value.what
    assert caught.value.advice() == ("If no other program is using this vault, run `safekept vault unlock`",)


def test_waiting_gets_the_lock_when_the_other_is_done(vault):
    other = vault.lock(exclusive=True)
    timer = threading.Timer(0.3, other.release)
    started = time.monotonic()
    timer.start()
    with vault.lock(wait=PATIENT):
        assert time.monotonic() - started >= 0.25
    timer.join()
    with vault.lock(exclusive=True):
        started = time.monotonic()
        with pytest.raises(VaultLocked):
            vault.lock(wait=0.3)
        assert time.monotonic() - started >= 0.3


def test_two_that_come_at_once_never_both_have_it_alone(vault):
    inside, most, errors = [0], [0], []

    def work():
        for _ in range(10):
            try:
                with vault.lock(exclusive=True, wait=PATIENT):
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    time.sleep(0.001)
                    inside[0] -= 1
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, most[0], names(vault)) == ([], 1, [])


def test_a_refresh_puts_a_new_file_before_it_takes_the_old(vault):
    changes = []
    storage = vault.storage
    with vault.lock() as lock:
        old = lock.name
        for verb in ("write", "delete"):
            real = getattr(storage, verb)
            setattr(storage, verb, lambda *a, _r=real, _v=verb: (changes.append((_v, a[1])), _r(*a))[1])
        lock.refresh()
        assert changes == [("write", lock.name), ("delete", old)]
        assert names(vault) == [lock.name]
        lock.check()


def test_the_thread_refreshes_by_itself(vault, monkeypatch):
    monkeypatch.setattr(locks_module, "REFRESH", 0.02)
    with vault.lock() as lock:
        first = lock.name
        wait_until(lambda: lock.name != first, "a new file of the lock")
    assert names(vault) == []


def test_a_lock_that_somebody_removed_protects_nothing_and_nothing_is_written(vault):
    with vault.lock() as lock:
        vault.storage.delete(FileKind.LOCK, lock.name)
        lock.refresh()
        before = dict(vault.storage.files)
        with pytest.raises(LockLost) as caught:
            save_files(vault, some_files(1), lock=lock)
        assert "another process removed it" in caught.value.what
        assert vault.storage.files == before


@pytest.mark.parametrize("came", [True, False])
def test_after_a_long_sleep_the_lock_is_taken_anew_or_given_up(vault, monkeypatch, came):
    with vault.lock() as lock:
        old = lock.name
        real = locks_module.uptime
        monkeypatch.setattr(locks_module, "uptime", lambda: real() + 23 * 60)
        if came:
            foreign(vault, exclusive=True)
            with pytest.raises(LockLost, match="another process took it"):
                lock.check()
        else:
            lock.check()
            assert lock.name != old
            assert names(vault) == [lock.name]


def test_an_index_from_before_the_lock_is_not_trusted(vault):
    other = Repository.open(vault.storage, SECRET)
    assert len(vault.index) == 0
    save_files(other, some_files(2))
    with vault.lock():
        assert len(vault.index) == len(other.index) > 0


def test_a_second_lock_in_one_process_does_not_disturb_a_saver(vault):
    other = Repository.open(vault.storage, SECRET)
    with vault.lock() as lock, vault.saver(lock) as saver:
        first = saver.save(BlobKind.DATA, b"one")
        save_files(other, some_files(3))  # an index file that our index does not have
        with vault.lock():
            assert len(vault.index) == len(other.index)
        saver.flush()
        assert saver.has(BlobKind.DATA, first)
        snapshot = saver.finish(Snapshot(1, save_tree(saver, []), ("/x",)))
    assert vault.load_tree(snapshot.tree).nodes == []


def test_our_own_index_files_are_not_read_back(vault, monkeypatch):
    with vault.lock() as lock:
        save_files(vault, some_files(4), lock=lock)
    monkeypatch.setattr(Repository, "load_index_file", None)
    with vault.lock() as lock:
        save_files(vault, some_files(4), lock=lock)


def test_a_hangup_does_not_end_a_holder():
    code = """
import os, signal, sys
from support.vault.vaults import new_vault
from support.vault.memory_storage import MemoryStorage
signal.signal(signal.SIGHUP, signal.SIG_DFL)
vault = new_vault(MemoryStorage())
one, two = vault.lock(), vault.lock()
os.kill(os.getpid(), signal.SIGHUP)
one.release()
os.kill(os.getpid(), signal.SIGHUP)
two.release()
print("alive", flush=True)
os.kill(os.getpid(), signal.SIGHUP)
print("not reached")
"""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.stdout == "alive\n", done.stderr
    assert done.returncode == -signal.SIGHUP


def test_what_a_power_cut_left_on_a_disk_of_our_own_is_in_nobodys_way(tmp_path, monkeypatch):
    """A prune that lost its power must not shut the vault for half an hour."""
    with new_vault(LocalStorage(str(tmp_path / "vault"))) as vault:
        before = {"boot": "one that is over", "space": "gone", "uptime": 99.0, "exclusive": True}
        foreign(vault, hostname=os.uname().nodename, **before)
        monkeypatch.setattr(LocalStorage, "only_here", False)
        with pytest.raises(VaultLocked):  # on a share it may be of a twin of this machine
            vault.lock()
        monkeypatch.setattr(LocalStorage, "only_here", True)
        with vault.lock() as lock:
            assert names(vault) == [lock.name]
        foreign(vault, hostname="kasimir", **before)
        with pytest.raises(VaultLocked):
            vault.lock()


def test_a_lock_that_cannot_be_removed_spoils_no_work_that_is_done(vault, monkeypatch):
    """It is left behind by a process that is gone, and everybody knows such a one for what it is."""
    lock = vault.lock()

    def refuse(kind, name):
        raise VaultUnreachable("the disk", kept="", next_steps=())

    monkeypatch.setattr(vault.storage, "delete", refuse)
    with lock:
        pass
    monkeypatch.undo()
    assert [one.id for one in read_locks(vault.storage, vault.key)] == [lock.name]
