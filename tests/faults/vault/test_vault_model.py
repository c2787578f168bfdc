"""Random work on a vault against a model of a few lines: what is stored is what the model says."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from safekept.vault.care import repack as prune_packs
from safekept.vault.care.checking import check
from safekept.vault.care.forgetting import SnapshotPinned, forget, forget_by_policy, pin, unforget, unpin
from safekept.vault.care.policy import Policy
from safekept.vault.care.prune import carry_out, plan_prune
from safekept.vault.format import pack as pack_module
from safekept.vault.repo import index as index_file
from safekept.vault.repo import packer as packer_module
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots, public_id, shown
from safekept.vault.tags import forgotten_at, is_pinned
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import SECRET, find_snapshot, new_vault, read_files, save_files

HOUR = 3600 * 10**9
DAY = 24 * HOUR
START = 1_794_000_000 * 10**9
KEPT = 3


class Known:
    """What the model knows of one snapshot."""

    def __init__(self, files, kind, time_ns):
        self.files, self.kind, self.time_ns = files, kind, time_ns
        self.forgotten = None
        self.pinned_to = None  # the moment at which the pin is over

    def pinned(self, now):
        return self.pinned_to is not None and now < self.pinned_to


class VaultMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.storage = MemoryStorage()
        self.vault = new_vault(self.storage)
        self.now = START
        self.known = {}

    def chosen(self, number):
        names = sorted(self.known, key=lambda name: self.known[name].time_ns)
        return names[number % len(names)]

    def stored(self, name):
        return find_snapshot(self.vault, name, forgotten=True)

    @rule(
        contents=st.lists(st.integers(0, 40), max_size=6),
        kind=st.sampled_from(["quick", "manual"]),
        hours=st.integers(1, 30),
    )
    def create(self, contents, kind, hours):
        self.now += hours * HOUR
        files = {f"d{number % 3}/f{number}": b"%d;" % number * (600 * (number + 1)) for number in contents}
        with self.vault.lock() as lock:
            made = save_files(self.vault, files, tags=(f"kind:{kind}",), lock=lock, time_ns=self.now)
        self.known[made.id] = Known(files, kind, self.now)

    @rule(days=st.integers(1, 5))
    def wait(self, days):
        self.now += days * DAY

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 99))
    def forget_one(self, number):
        name = self.chosen(number)
        with self.vault.lock(exclusive=True) as lock:
            if self.known[name].pinned(self.now):
                with pytest.raises(SnapshotPinned):
                    forget(self.vault, [self.stored(name)], lock, now_ns=self.now)
                return
            forget(self.vault, [self.stored(name)], lock, now_ns=self.now)
        if self.known[name].forgotten is None:
            self.known[name].forgotten = self.now

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 99))
    def bring_back(self, number):
        name = self.chosen(number)
        with self.vault.lock(exclusive=True) as lock:
            unforget(self.vault, [self.stored(name)], lock)
        self.known[name].forgotten = None

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 99), days=st.one_of(st.none(), st.integers(0, 6)))
    def pin_one(self, number, days):
        name, until = self.chosen(number), ""
        end = float("inf")
        if days is not None:
            day = datetime.datetime.fromtimestamp(self.now // 10**9, datetime.UTC).date()
            day += datetime.timedelta(days=days)
            until = day.isoformat()
            midnight = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
            end = int(midnight.timestamp()) * 10**9 + 36 * HOUR
        with self.vault.lock(exclusive=True) as lock:
            pin(self.vault, [self.stored(name)], lock, until=until)
        self.known[name].forgotten = None
        self.known[name].pinned_to = end

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 99))
    def unpin_one(self, number):
        name = self.chosen(number)
        with self.vault.lock(exclusive=True) as lock:
            unpin(self.vault, [self.stored(name)], lock)
        self.known[name].pinned_to = None

    @rule()
    def retain(self):
        forget_by_policy(self.vault, {"quick": Policy(last=KEPT)}, now_ns=self.now)
        quick = [item for item in self.known.values() if item.kind == "quick" and item.forgotten is None]
        quick.sort(key=lambda item: item.time_ns, reverse=True)
        for item in quick[KEPT:]:
            if not item.pinned(self.now):
                item.forgotten = self.now

    @rule(grace=st.sampled_from([0, 1, 3]), max_unused=st.sampled_from([0.0, 0.05, 1.0]))
    def prune(self, grace, max_unused):
        with self.vault.lock(exclusive=True) as lock:
            plan = plan_prune(self.vault, now_ns=self.now, grace=grace * 86400, max_unused=max_unused)
            result = carry_out(self.vault, plan, lock)
        gone = [
            name
            for name, item in self.known.items()
            if item.forgotten is not None
            and not item.pinned(self.now)
            and (not grace or self.now - item.forgotten // 10**9 * 10**9 >= grace * DAY)
        ]
        assert result.snapshots == len(gone)
        for name in gone:
            del self.known[name]
        report = check(self.vault)
        assert report.findings == []
        if max_unused == 0:
            again = plan_prune(self.vault, now_ns=self.now, grace=grace * 86400, max_unused=0)
            assert not again.delete
            assert not again.unindexed

    @precondition(lambda self: self.known)
    @rule(number=st.integers(0, 99))
    def restore(self, number):
        name = self.chosen(number)
        assert read_files(self.vault, self.stored(name)) == (self.known[name].files, [])

    @rule()
    def reopen(self):
        self.vault.close()
        self.vault = Repository.open(self.storage, SECRET)

    @invariant()
    def lists_are_those_of_the_model(self):
        found, damaged = list_snapshots(self.vault)
        assert not damaged
        order = sorted(self.known, key=lambda name: self.known[name].time_ns)
        assert [public_id(snapshot) for snapshot in found] == order
        for snapshot in found:
            item = self.known[public_id(snapshot)]
            assert (forgotten_at(snapshot) is None) is (item.forgotten is None)
            assert is_pinned(snapshot, self.now) is item.pinned(self.now)
        visible = [name for name in reversed(order) if self.known[name].forgotten is None]
        assert [public_id(snapshot) for snapshot in shown(found)] == visible

    def teardown(self):
        with self.vault:
            assert check(self.vault, read_data=1.0).findings == []
            for snapshot in list_snapshots(self.vault)[0]:
                assert read_files(self.vault, snapshot) == (self.known[public_id(snapshot)].files, [])


@pytest.fixture
def small_packs(monkeypatch):
    monkeypatch.setattr(pack_module, "TARGET", 20_000)
    monkeypatch.setattr(packer_module, "MOST_BLOBS", 6)
    monkeypatch.setattr(index_file, "MOST_BLOBS", 10)
    monkeypatch.setattr(prune_packs, "FEW", 4)


def run(examples, steps, **options):
    run_state_machine_as_test(
        VaultMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            **options,
        ),
    )


def test_random_work_leaves_what_the_model_says(small_packs):
    run(20, 25, derandomize=True)


@pytest.mark.soak("vault")
def test_much_random_work_leaves_what_the_model_says(small_packs):
    run(400, 60)
