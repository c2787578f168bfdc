"""Real processes: killed with -9 while they save, and several at once. What was reported is there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from safekept.vault.care.checking import check
from safekept.vault.format.blobs import BlobKind
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import LocalStorage
from safekept.vault.storage.base import FileKind
from support.commands.waiting import wait_until
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import SECRET, new_vault, read_files, some_files

#: Saves one snapshot after the other and says each one's id and seed once it is stored.
_CHILD = """
import sys
from safekept.vault.format import pack
from safekept.vault.repo import packer
from safekept.vault.repo.repository import Repository
from safekept.vault.storage import LocalStorage
from safekept.vault.storage.base import FileKind
from support.vault.vaults import SECRET, save_files, some_files
pack.TARGET, packer.MOST_BLOBS = 40_000, 8
path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with Repository.open(LocalStorage(path), SECRET) as vault:
    print("ready", flush=True)
    for number in range(seed, seed + count):
        with vault.lock(wait=600) as lock:
            snapshot = save_files(vault, some_files(number), lock=lock)
        print(snapshot.id, number, flush=True)
"""


def start(path, seed, count=10_000):
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _CHILD, path, str(seed), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings)


def reported(output):
    return [(line.split()[0], int(line.split()[1])) for line in output.splitlines() if " " in line]


def judge(path, stored):
    """Reopen as a next process would: sound, and every reported snapshot exact."""
    with Repository.open(LocalStorage(path), SECRET) as vault:
        with vault.lock(exclusive=True, wait=10):
            report = check(vault, read_data=1.0)
        assert report.damage == []
        found = {snapshot.id: snapshot for snapshot in list_snapshots(vault)[0]}
        for identity, seed in stored:
            assert read_files(vault, found[identity]) == (some_files(seed), [])


def kill_storm(path, kills, source):
    new_vault(LocalStorage(path)).close()
    stored = []
    for number in range(kills):
        child = start(path, number * 1000)
        assert child.stdout.readline() == "ready\n"
        time.sleep(source.uniform(0, 0.4))
        child.send_signal(signal.SIGKILL)
        output, _ = child.communicate()
        stored += reported(output)
        judge(path, stored[-6:])
    judge(path, stored)
    # What the dead left under temporary names is swept once it is old; nothing else is.
    storage = LocalStorage(path)
    for directory, _, names in os.walk(path):
        for name in names:
            if "-tmp-" in name:
                os.utime(os.path.join(directory, name), (0, 0))
    storage.sweep()
    assert [name for _, _, names in os.walk(path) for name in names if "-tmp-" in name] == []
    judge(path, stored)


def test_killed_savers_lose_nothing_that_they_reported(tmp_path):
    kill_storm(str(tmp_path / "vault"), 5, random.Random(7))


@pytest.mark.soak("vault")
def test_two_hundred_killed_savers_lose_nothing_that_they_reported(tmp_path):
    kill_storm(str(tmp_path / "vault"), 200, random.Random())


def test_several_processes_may_save_at_once(tmp_path):
    path = str(tmp_path / "vault")
    new_vault(LocalStorage(path)).close()
    children = [start(path, seed * 100, 4) for seed in range(3)]
    outputs = [child.communicate(timeout=300)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0]
    stored = [item for output in outputs for item in reported(output)]
    assert len(stored) == 12
    judge(path, stored)
    assert os.listdir(os.path.join(path, "locks")) == []


class InterruptedStorage(MemoryStorage):
    """Ctrl-C while a pack is being written and waited for, and once more while that is being answered.

    A signal that comes right before a thread falls asleep does not wake it (CPython), so each is sent until
    it was answered; what was sent too often is not counted.
    """

    def __init__(self):
        super().__init__()
        self._answered = threading.Event()

    def answer(self, number, frame):
        if not self._answered.is_set():
            self._answered.set()
            raise KeyboardInterrupt

    def write(self, kind, name, data):
        if kind is FileKind.PACK:
            for where in ("flush", "close"):
                wait_until(lambda where=where: where in main_thread_is_in())
                self._answered.clear()
                while not self._answered.wait(0.05):
                    os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)  # whoever leaves now leaves too early
        super().write(kind, name, data)


def main_thread_is_in() -> set[str]:
    """The functions that the main thread is in."""
    frame, names = sys._current_frames()[threading.main_thread().ident], set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_an_interrupt_waits_for_the_pack_that_is_being_stored_and_names_it(request):
    """Ctrl-C, and once more while the first is being answered: the thread that writes is not left behind."""
    storage = InterruptedStorage()
    before = signal.signal(signal.SIGINT, storage.answer)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with new_vault(storage) as vault:
        with pytest.raises(KeyboardInterrupt), vault.saver(None) as saver:
            blob = saver.save(BlobKind.DATA, b"under way")
            saver.flush()
        assert "vault-packer" not in [thread.name for thread in threading.enumerate()]
        assert check(vault, read_data=1.0).findings == []
    with Repository.open(storage, SECRET) as vault:
        assert vault.load_blob(BlobKind.DATA, blob) == b"under way"
        assert vault.index.has(BlobKind.DATA, blob)


def test_an_interrupt_while_a_lock_is_given_up_leaves_none_behind(monkeypatch):
    from safekept.core.worker import Worker

    with new_vault(MemoryStorage()) as vault:
        lock = vault.lock(exclusive=True)

        def interrupted(self):
            raise KeyboardInterrupt

        monkeypatch.setattr(Worker, "wait_through_signals", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lock.release()
        assert [name for name in vault.storage.files if name.startswith("locks/")] == []
