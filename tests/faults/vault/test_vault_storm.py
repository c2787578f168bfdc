"""Storms on a real vault: processes killed while they save, forget and prune; a crowd and a prune loop."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from safekept.vault.care.checking import check
from safekept.vault.care.prune import carry_out, plan_prune
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots, public_id
from safekept.vault.storage import LocalStorage
from safekept.vault.tags import forgotten_at
from support.places import TESTS
from support.vault.vaults import SECRET, new_vault, read_files, some_files

WORKER = os.path.join(TESTS, "support", "vault", "vault_worker.py")


def start(kind, path, seed, seconds=0.0):
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, WORKER, kind, path, str(seed), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings)


class Account:
    """What processes said that they did."""

    def __init__(self):
        self.stored = {}  # id -> seed
        self.may_be_gone = set()
        self.forgotten = set()
        self.prunes = 0

    def read(self, output):
        for words in map(str.split, output.splitlines()):
            if words[0] == "stored":
                self.stored[words[1]] = int(words[2])
            elif words[0] == "forgetting":
                self.may_be_gone.add(words[1])
            elif words[0] == "forgot":
                self.forgotten.add(words[1])
            elif words[0] == "pruned":
                self.prunes += 1

    def judge(self, path, most=10_000):
        """As a next process finds it: sound, all that was reported is there and exact."""
        with Repository.open(LocalStorage(path), SECRET) as vault:
            with vault.lock(exclusive=True, wait=10):
                report = check(vault, read_data=1.0)
            assert report.damage == []
            found = {public_id(snapshot): snapshot for snapshot in list_snapshots(vault)[0]}
            assert len(found) == len(list_snapshots(vault)[0])
            for name, seed in list(self.stored.items())[-most:]:
                if name not in self.may_be_gone or name in found:
                    assert read_files(vault, found[name]) == (some_files(seed), []), name
                if name in self.forgotten and name in found:
                    assert forgotten_at(found[name]) is not None


def tidy(path):
    """A last prune leaves nothing that check has a word to say about."""
    with Repository.open(LocalStorage(path), SECRET) as vault:
        with vault.lock(exclusive=True, wait=10) as lock:
            carry_out(vault, plan_prune(vault, now_ns=time.time_ns() + 10**9, grace=0), lock)
        assert check(vault, read_data=1.0).findings == []


def iter_stored(child, count):
    """What it says until it has stored so many snapshots."""
    while count and (line := child.stdout.readline()):
        count -= line.startswith("stored ")
        yield line


def kill_storm(path, kills, source):
    new_vault(LocalStorage(path)).close()
    account = Account()
    for number in range(kills):
        child = start("work", path, number * 1000)
        try:
            assert child.stdout.readline() == "ready\n"
            if number % 2:  # however slow the machine is: every other one has stored something before it dies
                account.read("".join(iter_stored(child, 3)))
            time.sleep(source.uniform(0, 1.2))
            assert child.poll() is None
        finally:
            child.send_signal(signal.SIGKILL)
            output, _ = child.communicate()
        account.read(output)
        account.judge(path, most=8)
    account.judge(path)
    tidy(path)
    account.judge(path)
    return account


def test_killed_work_on_a_vault_loses_nothing_that_was_reported(tmp_path):
    account = kill_storm(str(tmp_path / "vault"), 6, random.Random(11))
    assert len(account.stored) > 5


@pytest.mark.soak("vault")
def test_two_hundred_kills_lose_nothing_that_was_reported(tmp_path):
    account = kill_storm(str(tmp_path / "vault"), 200, random.Random())
    assert len(account.stored) > 200
    assert account.prunes > 20


def crowd(path, writers, seconds):
    new_vault(LocalStorage(path)).close()
    children = [start("write", path, number * 1000, seconds) for number in range(writers)]
    children.append(start("prune", path, 99, seconds))
    account = Account()
    try:
        for child in children:
            output, _ = child.communicate(timeout=seconds + 600)
            account.read(output)
        assert [child.returncode for child in children] == [0] * len(children)
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.communicate()
    assert os.listdir(os.path.join(path, "locks")) == []
    account.judge(path)
    tidy(path)
    account.judge(path)
    return account


def test_eight_writers_and_a_prune_loop_lose_nothing(tmp_path):
    account = crowd(str(tmp_path / "vault"), 8, 4)
    assert len(account.stored) >= 8


@pytest.mark.soak("vault")
def test_a_minute_of_eight_writers_and_a_prune_loop_loses_nothing(tmp_path):
    account = crowd(str(tmp_path / "vault"), 8, 60)
    assert len(account.stored) >= 80
    assert account.prunes >= 5
