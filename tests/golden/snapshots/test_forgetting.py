"""Pinning, forgetting, calling back and reclaiming: planned, asked for, and said as it is."""

from __future__ import annotations

import json
import os

from safekept.core.journal import Journal
from safekept.home.scan.scanning import Selection
from support.commands.error_texts import error_code
from support.vault.snapshots import is_whole, take


def shown(say, *words):
    return [one["id"][:8] for one in json.loads(say("snapshot", "list", "--json", *words).out)["snapshots"]]


def several(here, home, count, **options):
    found = []
    for number in range(count):
        with open(os.path.join(home, "SOUL.md"), "w") as file:
            file.write(f"soul {number} {os.urandom(2000).hex()}")
        found.append(take(here, home, check="never", retention=False, **options).id[:8])
    return found


def test_forgetting_asks_first_and_hides_until_it_is_called_back(here, home, say):
    old, new = several(here, home, 2)
    done = say("snapshot", "forget", old)
    assert done.code == 1
    assert done.err == (
        "This needs your consent: 1 snapshot would be forgotten\n"
        "\n"
        "  Kept       Nothing was changed\n"
        f"  Next       See the plan: `safekept snapshot forget {old} --dry-run`\n"
        f"             Agree to it: `safekept snapshot forget {old} --yes`\n"
        "  Error      consent-needed\n"
    )
    assert say("snapshot", "forget", old, "--dry-run").out.endswith("Nothing was changed\n")
    assert shown(say) == [new, old]
    done = say("snapshot", "forget", old, "--yes")
    assert done.code == 0 and "1 snapshot forgotten\n" in done.out
    assert f"`safekept snapshot forget --undo {old}`" in done.out
    assert shown(say) == [new] and sorted(shown(say, "--all")) == sorted([new, old])
    assert "(forgotten)" in say("snapshot", "list", "--all").out
    assert say("snapshot", "forget", "--undo", old).code == 0
    assert shown(say) == [new, old]
    verbs = [
        entry.verb for entry in Journal(os.path.join(here.places.data_directory, "journal.jsonl")).read()
    ]
    assert verbs[-2:] == ["forget", "unforget"]


def test_forgetting_the_newest_verified_one_says_so_in_the_plan(here, home, say):
    take(here, home)
    done = say("snapshot", "forget", "latest", "--dry-run")
    assert (
        "(the newest of its home; the newest complete one of its home; the newest verified generation of"
        in (done.out)
    )


def test_a_pinned_snapshot_is_not_forgotten_until_its_pin_is_off(here, home, say):
    old, new = several(here, home, 2)
    assert say("snapshot", "pin", old).out == f"Snapshot {old} is pinned\n"
    done = say("snapshot", "forget", old, "--yes")
    assert done.code == 1
    assert done.err == (
        f"Snapshot {old} is pinned\n"
        "\n"
        "  Kept       No snapshot was forgotten\n"
        f"  Next       If it may go, take the pin away first: `safekept snapshot pin --remove {old}`\n"
        "  Error      snapshot-pinned\n"
    )
    assert say("snapshot", "pin", "--off", old).out == f"Snapshot {old} is no longer pinned\n"
    assert say("snapshot", "forget", old, "--yes").code == 0
    assert say("snapshot", "pin", new, "--days", "3").out.startswith(f"Snapshot {new} is pinned until 20")
    assert say("snapshot", "pin", new, "--off", "--days", "3").code == 2


def test_a_policy_lets_go_what_it_does_not_keep_and_says_why_the_rest_stays(here, home, say):
    ids = several(here, home, 4)
    done = say("snapshot", "forget", "--keep-last", "2", "--dry-run")
    assert f"Would forget 2 snapshots of {home}, and keep 2\n" in done.out
    assert "kept: the newest of its home, the newest complete one of its home, one of the last\n" in done.out
    document = json.loads(say("snapshot", "forget", "--keep-last", "2", "--yes", "--json").out)
    assert [one[:8] for one in document["forgotten"]] == [ids[1], ids[0]]
    assert shown(say) == [ids[3], ids[2]]


def test_without_a_policy_each_kind_has_its_own_and_manual_ones_stay(here, home, say):
    manual = several(here, home, 2)
    several(here, home, 3, kind="pre-update")
    plan = json.loads(say("snapshot", "forget", "--dry-run", "--json").out)["plan"]
    assert plan["forget"] == [] and len(plan["keep"]) == 5
    assert say("snapshot", "forget", "--yes").out.endswith("Nothing was changed\n")
    done = say("snapshot", "forget", "--keep-last", "1", "--kind", "pre-update", "--yes", "--json")
    assert len(json.loads(done.out)["forgotten"]) == 2
    assert set(manual) <= set(shown(say))


def test_names_and_a_policy_together_are_bad_usage(here, home, say):
    several(here, home, 1)
    for words in (("1", "--keep-last", "3"), ("--undo",), ("--keep-within", "soon")):
        done = say("snapshot", "forget", *words)
        assert done.code == 2 and error_code(done.err) == "usage", done.err


def test_a_prune_forgets_older_quick_snapshots_and_frees_after_the_grace(here, home, say):
    quick = several(here, home, 4, kind="quick", selection=Selection(quick=True))
    [manual] = several(here, home, 1)
    done = say("snapshot", "prune", "2")
    assert done.code == 1
    assert "This needs your consent: 2 quick snapshots would be forgotten" in done.err
    assert "`safekept snapshot prune 2 --yes`" in done.err
    done = say("snapshot", "prune", "2", "--yes")
    assert done.code == 0, done.err
    assert "  Forgotten  2 quick snapshots\n  Deleted    0 forgotten snapshots\n" in done.out
    assert shown(say) == [manual, quick[3], quick[2]]
    assert len(shown(say, "--all")) == 5, "within the days of grace nothing is deleted"
    document = json.loads(say("snapshot", "prune", "2", "--now", "--yes", "--json").out)
    assert document["pruned"]["snapshots"] == 2 and document["pruned"]["bytes_freed"] > 0
    assert len(shown(say, "--all")) == 3
    is_whole(here)
    assert say("snapshot", "prune", "2", "--yes").out.endswith("Already up to date\n")


def test_a_prune_waits_for_no_one_who_reads(here, home, say, monkeypatch):
    several(here, home, 2)
    say("snapshot", "forget", "2", "--yes")
    monkeypatch.setattr("safekept.actions.snapshots.forgetting.WAIT", 0.1)
    from support.vault.snapshots import opened

    with opened(here) as repository, repository.lock():
        done = say("snapshot", "prune", "--now", "--yes")
    assert done.code == 11 and error_code(done.err) == "vault-locked", done.err
    assert len(shown(say, "--all")) == 2
