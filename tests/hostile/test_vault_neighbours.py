"""A neighbour who takes a living writer for dead: no snapshot is ever called complete without its packs.

The writer is a process of its own, stopped in the middle of a snapshot; the neighbour prunes meanwhile. A
neighbour may be a container with other process numbers, a machine with a wrong clock, or a program that
honours no lock at all.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

import pytest

from conftest import missing_part
from safekept.core.processes.process import process_alive
from safekept.vault.care.checking import check
from safekept.vault.care.forgetting import forget
from safekept.vault.care.prune import carry_out, plan_prune
from safekept.vault.errors import VaultLocked
from safekept.vault.repo.lock_file import LockFile, read_locks
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import FileKind, LocalStorage
from safekept.vault.storage.local_batch import LocalFileBatch
from support.commands.pid_namespaces import CONTAINER, container_with_an_unused_number
from support.places import CHECKOUT
from support.vault.vaults import SECRET, new_vault, read_files, save_files, some_files

SEED = 7


@pytest.fixture
def vault(tmp_path):
    """A vault whose only snapshot holds what the writer is about to store again, and is forgotten."""
    with new_vault(LocalStorage(str(tmp_path / "vault"))) as made:
        with made.lock(exclusive=True) as lock:
            old = save_files(made, some_files(SEED), lock=lock)
            forget(made, [old], lock, now_ns=time.time_ns())
        yield made


@contextlib.contextmanager
def writer(vault, *front):
    """A snapshot that is half done; `go_on()` lets it finish and gives what it says."""
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}/src:{CHECKOUT}/tests"}
    script = os.path.join(CHECKOUT, "tests", "support", "vault", "neighbour_worker.py")
    process = subprocess.Popen(
        [*front, sys.executable, script, vault.storage.path, str(SEED)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        first = process.stdout.readline()
        if first != "locked\n":
            said = process.communicate(timeout=30)[1]
            if front and "unshare" in said:
                missing_part(f"a PID namespace of its own: {said.strip()}")
            raise AssertionError(f"{first}{said}")
        yield lambda: process.communicate("go on\n", timeout=300)[0].split(" ", 2)
    finally:
        process.kill()
        process.communicate()


def prune(place, **options):
    """A prune by somebody who opens the vault anew and gives forgotten snapshots no grace."""
    with Repository.open(LocalStorage(place), SECRET) as other:
        with other.lock(exclusive=True, **options) as lock:
            plan = plan_prune(other, now_ns=time.time_ns() + 10**9, grace=0)
            return carry_out(other, plan, lock)


def nothing_listed_is_broken(vault):
    """Every snapshot that is listed can be read to the last byte; how many there are."""
    with Repository.open(LocalStorage(vault.storage.path), SECRET) as fresh:
        found, damaged = list_snapshots(fresh)
        assert not damaged
        for one in found:
            assert read_files(fresh, one) == (some_files(SEED), [])
        assert list(check(fresh, read_data=1.0).damage) == []
        return len(found)


def test_a_living_writer_keeps_its_lock(vault):
    with writer(vault) as go_on:
        with pytest.raises(VaultLocked):
            prune(vault.storage.path)
        assert go_on()[0] == "stored"
    prune(vault.storage.path)
    assert nothing_listed_is_broken(vault) == 1


def test_a_living_writer_in_another_pid_namespace_keeps_its_lock(vault):
    """Its number is nobody's out here: by that number alone it would be dead."""
    with writer(vault, *container_with_an_unused_number()) as go_on:
        (lock,) = read_locks(vault.storage, vault.key)
        if process_alive(lock.pid):
            missing_part(f"a process in a PID namespace that has a number of our choice: it has {lock.pid}")
        with pytest.raises(VaultLocked):
            prune(vault.storage.path)
        said = go_on()
    assert said[0] == "stored", said
    prune(vault.storage.path)
    assert nothing_listed_is_broken(vault) == 1


def test_a_pruner_in_a_container_honours_a_lock_from_outside(vault):
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from test_vault_neighbours import prune\n"
        "from safekept.vault.errors import VaultLocked\n"
        "try: prune(sys.argv[1]); print('pruned')\n"
        "except VaultLocked: print('honoured')\n"
    )
    paths = [f"{CHECKOUT}/{name}" for name in ("src", "tests", "tests/hostile")]
    with writer(vault) as go_on:
        command = [*CONTAINER, sys.executable, "-c", code, vault.storage.path, *paths]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if "unshare" in done.stderr:
            missing_part(f"a PID namespace of its own: {done.stderr.strip()}")
        assert done.stdout == "honoured\n", done.stderr
        assert go_on()[0] == "stored"
    assert nothing_listed_is_broken(vault) == 2


@pytest.mark.parametrize("minutes", [31, 24 * 60, -31])
def test_a_pruner_with_a_wrong_clock_honours_a_living_lock(vault, monkeypatch, minutes):
    real, ahead = time.time_ns, minutes * 60 * 10**9
    with writer(vault) as go_on:
        monkeypatch.setattr(time, "time_ns", lambda: real() + ahead)
        with pytest.raises(VaultLocked):
            prune(vault.storage.path)
        monkeypatch.undo()
        assert go_on()[0] == "stored"
    assert nothing_listed_is_broken(vault) == 2


def test_a_lock_of_another_machine_is_judged_by_the_clock_of_the_place(vault, monkeypatch):
    """The pruner's clock is 31 minutes ahead; the files of the vault know better."""
    from safekept.vault.repo.sealed_files import save_file

    foreign = LockFile("", time.time_ns(), False, "kasimir", "u", 4121)
    name = save_file(vault.storage, vault.key, FileKind.LOCK, foreign.to_json())
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 31 * 60 * 10**9)
    with pytest.raises(VaultLocked):
        prune(vault.storage.path)
    assert vault.storage.exists(FileKind.LOCK, name)
    # Half an hour by both clocks: nobody refreshed it, and it is in nobody's way any more.
    path = os.path.join(vault.storage.path, "locks", name)
    os.chmod(path, 0o600)
    os.utime(path, (time.time() - 31 * 60,) * 2)
    prune(vault.storage.path)
    assert not vault.storage.exists(FileKind.LOCK, name)


def test_a_writer_whose_lock_was_taken_away_writes_no_snapshot(vault):
    """Whoever removed it may have pruned, whatever the reason: an old restic, `unlock --all`, a bug."""
    with writer(vault) as go_on:
        for lock in read_locks(vault.storage, vault.key):
            vault.storage.delete(FileKind.LOCK, lock.id)
        assert prune(vault.storage.path).packs_deleted > 0
        said = go_on()
    assert said[:2] == ["refused", "vault-lock-lost"], said
    assert "another process removed it" in said[2]
    assert nothing_listed_is_broken(vault) == 0


def test_a_writer_whose_packs_were_deleted_under_its_lock_writes_no_snapshot(vault):
    """`rm`, or a program that honours no lock."""
    with writer(vault) as go_on:
        for name, _ in list(vault.storage.list(FileKind.PACK)):
            vault.storage.delete(FileKind.PACK, name)
        said = go_on()
    assert said[:2] == ["refused", "vault-lock-lost"], said
    assert "packs while this command counted on them" in said[2]
    with Repository.open(LocalStorage(vault.storage.path), SECRET) as fresh:
        assert len(list_snapshots(fresh)[0]) == 1  # the forgotten one, as before


def test_a_snapshot_is_taken_back_when_the_lock_went_while_it_was_written(vault, monkeypatch):
    """Between the last look and the snapshot file somebody may come; so there is a look afterwards."""
    with Repository.open(LocalStorage(vault.storage.path), SECRET) as other:
        seen, real = [], LocalFileBatch.publish

        def meanwhile(batch, kind):
            if kind is FileKind.SNAPSHOT:
                for lock in read_locks(vault.storage, vault.key):
                    vault.storage.delete(FileKind.LOCK, lock.id)
            real(batch, kind)
            seen.extend(name for name, _ in vault.storage.list(FileKind.SNAPSHOT))

        monkeypatch.setattr(LocalFileBatch, "publish", meanwhile)
        with pytest.raises(Exception, match="another process removed it"), other.lock() as lock:
            save_files(other, some_files(SEED + 1), lock=lock)
        assert len(set(seen)) == 2, "it was there for a moment"
    with Repository.open(LocalStorage(vault.storage.path), SECRET) as fresh:
        assert len(list_snapshots(fresh)[0]) == 1


def test_a_prune_whose_lock_was_taken_away_deletes_nothing_more(vault):
    with Repository.open(LocalStorage(vault.storage.path), SECRET) as other:
        with pytest.raises(Exception, match="another process removed it"):
            with other.lock(exclusive=True) as lock:
                plan = plan_prune(other, now_ns=time.time_ns() + 10**9, grace=0)
                for one in read_locks(vault.storage, vault.key):
                    vault.storage.delete(FileKind.LOCK, one.id)
                carry_out(other, plan, lock)
    assert sum(1 for _ in vault.storage.list(FileKind.PACK)) > 0
    assert nothing_listed_is_broken(vault) == 1
