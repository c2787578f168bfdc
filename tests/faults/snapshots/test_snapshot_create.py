"""Snapshots beside writers, beside each other, and cut short: nothing torn, nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time

import pytest

from safekept.vault.snapshots import list_snapshots
from support.commands.waiting import PATIENT
from support.home.homes import check_copy, make_hermes_home
from support.home.scanned import plant
from support.places import TESTS
from support.users.contexts import throwaway
from support.vault.snapshots import is_whole, opened, stored_files, take

#: Takes snapshots of a home as the user of a throwaway directory; prints the id of each.
WORKER = """
import sys
sys.path.insert(0, sys.argv[1])
from support.vault.snapshots import take
from support.users.contexts import throwaway
here = throwaway(sys.argv[2])
print("ready", flush=True)
for _ in range(int(sys.argv[4])):
    print(take(here, sys.argv[3], kind=sys.argv[5], retention=False).id, flush=True)
"""

#: Before it: Ctrl-C when two packs are stored, and not one moment later.
INTERRUPTED = """
import os, signal
from safekept.vault.storage import FileKind, LocalStorage
signal.signal(signal.SIGINT, signal.default_int_handler)
write, packs = LocalStorage.write, []
def counted(self, kind, name, data):
    write(self, kind, name, data)
    if kind is FileKind.PACK:
        packs.append(name)
        if len(packs) == 2:
            os.kill(os.getpid(), signal.SIGINT)
LocalStorage.write = counted
"""


def start(
    tmp_path: object, home: str, count: int = 1, kind: str = "manual", front: str = ""
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", front + WORKER, TESTS, str(tmp_path), home, str(count), kind]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_every_database_captured_beside_a_writer_is_one_committed_state(
    tmp_path, hermes_home, live_writer, journal
):
    here = throwaway(tmp_path)
    copy = os.path.join(tmp_path, "copy.db")
    writer = live_writer(os.path.join(hermes_home, "state.db"), journal=journal, checkpoints=0.05)
    for number in range(5):
        committed = writer.committed()
        result = take(here, hermes_home, check="always" if number % 2 else "never", isolated=bool(number % 2))
        with open(copy, "wb") as file:
            file.write(stored_files(here, result.snapshot)["state.db"])
        check_copy(copy, committed)
    is_whole(here)


def test_snapshots_taken_at_once_by_several_processes_are_all_whole(tmp_path):
    home = os.path.join(tmp_path, "user", ".hermes")
    make_hermes_home(home)
    here = throwaway(tmp_path)
    workers = [start(tmp_path, home, 3) for _ in range(4)]
    changing = threading.Event()

    def change() -> None:
        number = 0
        while not changing.wait(0.02):
            number += 1
            plant(home, {f"skills/live/file-{number % 7}.md": f"{number}\n" * 50})

    thread = threading.Thread(target=change)
    thread.start()
    taken: list[str] = []
    try:
        for worker in workers:
            out, error = worker.communicate(timeout=2 * PATIENT)
            assert worker.returncode == 0, error.decode()
            taken += out.decode().split()[1:]
    finally:
        changing.set()
        thread.join()
    with opened(here) as repository:
        found, damaged = list_snapshots(repository)
    assert not damaged
    assert sorted(snapshot.id for snapshot in found) == sorted(taken)
    assert len(taken) == 12
    is_whole(here)
    for snapshot in found[-3:]:
        assert stored_files(here, snapshot)["SOUL.md"]
    last = take(here, home)
    assert last.complete


def test_a_first_snapshot_that_was_interrupted_goes_on_where_it_was(tmp_path):
    home = large_home(tmp_path)
    here = throwaway(tmp_path)
    worker = start(tmp_path, home, front=INTERRUPTED)
    _, error = worker.communicate(timeout=PATIENT)
    assert worker.returncode != 0
    assert b"KeyboardInterrupt" in error
    with opened(here) as repository:
        assert list_snapshots(repository)[0] == []
    result = take(here, home)
    assert result.complete
    assert result.added < 0.8 * result.bytes, "what had arrived is not stored again"
    is_whole(here)


@pytest.mark.parametrize("seed", range(2))
def test_a_snapshot_killed_at_any_moment_leaves_a_vault_that_goes_on(tmp_path, seed):
    killed(tmp_path, seed, 2)


@pytest.mark.soak("vault")
@pytest.mark.parametrize("seed", range(2, 32))
def test_snapshots_killed_at_many_moments_leave_a_vault_that_goes_on(tmp_path, seed):
    killed(tmp_path, seed, 7)


def killed(tmp_path: object, seed: int, times: int) -> None:
    source = random.Random(seed)
    home = large_home(tmp_path)
    here = throwaway(tmp_path)
    reported: list[str] = []
    for _ in range(times):
        worker = start(tmp_path, home, 5)
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(source.uniform(0.05, 1.5))
        worker.kill()
        out, _ = worker.communicate()
        reported += [word for word in out.decode().split() if len(word) == 64]
        plant(home, {f"skills/s{seed}/note.md": source.randbytes(3000)})
    result = take(here, home)
    assert result.complete
    with opened(here) as repository:
        found = {snapshot.id for snapshot in list_snapshots(repository)[0]}
    assert {*reported, result.id} <= found
    is_whole(here)
    assert stored_files(here, result.snapshot)["big.bin"] == read(os.path.join(home, "big.bin"))


def large_home(tmp_path: object) -> str:
    """Enough to be in the middle of for a while: noise that no compression makes small."""
    home = os.path.join(str(tmp_path), "user", ".hermes")
    source = random.Random(8)
    plant(home, {"SOUL.md": "x\n", "config.yaml": "a: 1\n", "big.bin": source.randbytes(40 << 20)})
    plant(home, {f"skills/{number}/SKILL.md": source.randbytes(20_000) for number in range(300)})
    return home


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
