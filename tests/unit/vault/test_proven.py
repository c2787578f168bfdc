"""A snapshot that a drill proved is marked, keeps its id, and the last of them never goes by itself."""

from __future__ import annotations

from safekept.vault.care.forgetting import forget_by_policy, mark_proven
from safekept.vault.care.policy import Policy
from safekept.vault.care.retention import plan_forget, states_in_file
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.snapshots import list_snapshots, public_id
from safekept.vault.tags import forgotten_at, kind_tag, moment_text, proven_at, state_tag
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import new_vault, save_files, some_files

DAY = 86_400 * 1_000_000_000
NOW = 20_000 * DAY
QUICK = {"quick": Policy(last=1), "scheduled": Policy(last=1)}


def snapshot(age, *tags, kind="quick", state="unverified"):
    return Snapshot(
        NOW - age * DAY,
        bytes(32),
        ("/home/u/.hermes",),
        "host",
        tags=(kind_tag(kind), state_tag(state), *tags),
        id=f"{age:064x}",
    )


def kept(members):
    plan = plan_forget(members, QUICK, now_ns=NOW)
    return {int(item.snapshot.id, 16): item.reasons for item in plan.keep}


def proven_tag(moment):
    """As earlier versions wrote it into a snapshot."""
    return f"proven:{moment_text(moment)}"


def test_a_proof_has_its_time_and_the_last_one_counts():
    assert proven_at(snapshot(1, proven_tag(NOW), proven_tag(NOW + DAY))) == NOW + DAY
    assert proven_at(snapshot(1)) is None
    assert proven_at(snapshot(1, "proven:nonsense", "proven")) is None


def test_the_last_one_proven_never_goes_and_earlier_ones_do():
    members = [snapshot(age, *((proven_tag(NOW),) if age in (3, 5) else ())) for age in range(1, 8)]
    found = kept(members)
    assert found.keys() == {1, 3}
    assert "the last one that a drill proved" in found[3]
    assert "the newest verified generation of its databases" in found[3]


def test_a_proven_part_does_not_take_the_place_of_a_proven_home():
    members = [snapshot(1), snapshot(2, proven_tag(NOW))]
    members += [snapshot(age, kind="scheduled") for age in (3, 4)]
    members.append(snapshot(5, proven_tag(NOW), kind="scheduled"))
    found = kept(members)
    assert found[2] == ("the last one that a drill proved", "the newest verified generation of its databases")
    assert "the last one that a drill proved" in found[5]
    assert 4 not in found


def test_a_drill_verifies_databases_that_nobody_had_checked():
    proven = proven_tag(NOW)
    assert states_in_file(snapshot(1, proven)) == {"": "sound"}
    assert states_in_file(snapshot(1)) == {"": "unverified"}
    assert states_in_file(snapshot(1, proven, state="damaged")) == {"": "damaged"}


def test_marking_keeps_the_id_and_survives_an_automatic_run():
    with new_vault(MemoryStorage()) as vault:
        for number in range(4):
            save_files(vault, some_files(1), tags=(kind_tag("quick"),), time_ns=NOW - number * DAY)
        oldest = list_snapshots(vault)[0][0]
        with vault.lock(exclusive=True) as lock:
            (marked,) = mark_proven(vault, [oldest], lock, now_ns=NOW)
        assert public_id(marked) == public_id(oldest)
        plan = forget_by_policy(vault, QUICK, now_ns=NOW + DAY)
        assert plan is not None
        assert len(plan.forget) == 2
        left = [one for one in list_snapshots(vault)[0] if forgotten_at(one) is None]
        assert public_id(left[0]) == public_id(oldest)
