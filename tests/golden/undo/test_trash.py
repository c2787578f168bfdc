"""What is dropped can be brought back until the day that is printed, by the command that is printed."""

from __future__ import annotations

import json
import os
import re
import shlex
import time

import pytest

from safekept.checkpoints.upkeep.maintenance import MaintenanceSettings, run_maintenance
from safekept.checkpoints.upkeep.retention import Limits
from safekept.checkpoints.upkeep.size import measure
from support.projects.checkpoints import fsck, put
from support.vault.closed import lose
from support.vault.snapshots import take

DAY = 86400.0


@pytest.fixture(autouse=True)
def a_disk_with_room(monkeypatch):
    """What is kept depends on free space, and these tests must not."""
    monkeypatch.setattr("safekept.core.trash.free_bytes", lambda path: 1 << 40)
    monkeypatch.setattr("safekept.checkpoints.upkeep.maintenance._no_room", lambda directory: False)


@pytest.fixture
def project(tmp_path):
    place = os.path.realpath(tmp_path / "project")
    put(os.path.join(place, "pyproject.toml"), "")
    return place


def points(say):
    document = json.loads(say("checkpoint", "list", "--all", "--json").out)
    return sorted(one["id"] for one in document["checkpoints"])


def turns(say, project, count):
    for number in range(count):
        put(os.path.join(project, "main.py"), f"turn {number}\n{os.urandom(4000).hex()}")
        assert say("checkpoint", project).code == 0
    return points(say)


def commands(text):
    return [shlex.split(one)[1:] for one in re.findall(r"`(safekept [^`]*)`", text)]


def in_days(out, text, days=3):
    """Whether it says this and the day that comes in so many; midnight may have passed since it was said."""
    moments = (time.time() + days * DAY, time.time() + days * DAY - 600)
    return any(f"{text} {time.strftime('%Y-%m-%d', time.localtime(one))} " in out for one in moments)


def store_of(here):
    return os.path.join(here.places.data_directory, "checkpoints")


def size_of(here):
    return measure(store_of(here), os.path.join(store_of(here), "store")).total


# ── checkpoints ────────────────────────────────────────────────────────────────────────────────────


def test_cleared_checkpoints_come_back_by_the_printed_command(here, say, project):
    before = turns(say, project, 3)
    done = say("checkpoint", "clear", "--yes")
    assert done.code == 0 and points(say) == []
    assert in_days(done.out, "  Kept       until")
    assert ", or until the store is beyond its limit of 1.9 GB; then it goes for good\n" in done.out
    (undo,) = commands(done.out)
    status = say("checkpoint", "status").out
    assert in_days(status, "  Dropped    3 checkpoints, kept until")
    assert "; bring back: `safekept checkpoint prune --undo`\n" in status
    plan = say(*undo, "--dry-run")
    assert plan.out.startswith("Would bring back 3 checkpoints\n") and points(say) == []
    back = say(*undo)
    assert back.code == 0 and back.out.startswith("Brought back 3 checkpoints\n"), back.err
    assert points(say) == before
    fsck(os.path.join(store_of(here), "store"))
    put(os.path.join(project, "main.py"), "broken")
    assert say("rollback", "1", "--dir", project).code == 0
    with open(os.path.join(project, "main.py")) as file:
        assert file.read().startswith("turn 2\n")
    again = say(*undo)
    assert again.code == 1 and "what it dropped was brought back already, by " in again.err


def test_clear_now_gives_the_room_back_and_says_that_it_is_gone(here, say, project):
    turns(say, project, 3)
    document = json.loads(say("checkpoint", "clear", "--yes", "--json").out)
    held = size_of(here)
    assert document["undo"] == f"safekept undo {document['operation']}"
    assert abs(document["kept_until"] - time.time() - 3 * DAY) < 600
    done = say("checkpoint", "clear", "--now", "--yes")
    assert done.code == 0 and size_of(here) < held - 10_000
    lost = say("undo", document["operation"])
    assert lost.code == 3 and "  Gone       3 that are not kept any more\n" in lost.out
    turns(say, project, 1)
    refused = say("checkpoint", "clear", "--now")
    assert "all 1 checkpoint would be dropped for good" in refused.err
    assert "`safekept checkpoint clear --now --yes`" in refused.err
    gone = say("checkpoint", "clear", "--now", "--yes")
    assert "  Kept       gone for good\n" in gone.out and commands(gone.out) == []


def test_what_a_prune_dropped_comes_back_whoever_dropped_it(here, say, project, monkeypatch):
    before = turns(say, project, 4)
    monkeypatch.setenv("SAFEKEPT_CHECKPOINTS_MAX_SNAPSHOTS", "2")
    assert say("checkpoint", "prune", "--yes").code == 0
    assert len(points(say)) == 2
    done = say("checkpoint", "prune", "--undo")
    assert done.code == 0 and "Brought back 2 checkpoints\n" in done.out and points(say) == before
    # Maintenance by itself: an hour, and the same way back.
    run_maintenance(store_of(here), MaintenanceSettings(Limits(max_snapshots=2), min_interval_seconds=0))
    assert len(points(say)) == 2
    assert say("checkpoint", "prune", "--undo", "--dry-run").out.startswith(
        "Would bring back 2 checkpoints\n"
    )
    assert say("checkpoint", "prune", "--undo").code == 0 and points(say) == before
    assert say("checkpoint", "prune", "--undo").out == "Brought back 0 checkpoints\n"
    assert say("checkpoint", "prune", "--undo", "--now").code == 2


def test_a_store_beyond_its_limit_lets_the_trash_go_before_any_checkpoint(here, say, project):
    turns(say, project, 3)
    operation = json.loads(say("checkpoint", "clear", "--yes", "--json").out)["operation"]
    kept = turns(say, project, 2)
    dropped = os.path.join(store_of(here), "dropped.jsonl")
    with open(dropped) as file:
        text = file.read()
    two_hours = 2 * 3600 * 10**9
    with open(dropped, "w") as file:  # as if it had been two hours ago
        for line in filter(None, text.splitlines()):
            entry = json.loads(line)
            file.write(json.dumps({**entry, "time_ns": entry["time_ns"] - two_hours}) + "\n")
    _age_everything(here, 2 * 3600)
    roomy = MaintenanceSettings(Limits(max_total_bytes=10**9), min_interval_seconds=0)
    run_maintenance(store_of(here), roomy)
    held = size_of(here)
    tight = MaintenanceSettings(Limits(max_total_bytes=held - 1), min_interval_seconds=0)
    run_maintenance(store_of(here), tight)
    assert points(say) == kept and size_of(here) < held - 10_000
    assert "3 that are not kept any more" in say("undo", operation).out


def _age_everything(here, seconds):
    moment = time.time() - seconds
    for directory, _, names in os.walk(os.path.join(store_of(here), "store", "objects")):
        for name in names:
            os.utime(os.path.join(directory, name), (moment, moment))


def test_without_room_nothing_waits(here, say, project, monkeypatch):
    turns(say, project, 2)
    monkeypatch.setattr("safekept.checkpoints.upkeep.maintenance._no_room", lambda directory: True)
    done = say("checkpoint", "clear", "--yes")
    assert "  Kept       gone for good\n" in done.out and commands(done.out) == []
    assert say("checkpoint", "prune", "--undo").out == "Brought back 0 checkpoints\n"


def test_a_dropped_checkpoint_that_is_not_whole_any_more_does_not_come_back(here, say, project):
    turns(say, project, 2)
    operation = json.loads(say("checkpoint", "clear", "--yes", "--json").out)["operation"]
    packs = os.path.join(store_of(here), "store", "objects", "pack")
    for name in os.listdir(packs):
        lose(os.path.join(packs, name))
    done = say("undo", operation)
    assert done.code == 3 and done.out.startswith("Brought back 0 checkpoints\n") and points(say) == []


def test_the_archive_of_older_repositories_comes_back(here, say):
    archive = os.path.join(store_of(here), "legacy-20260101-000000")
    put(os.path.join(archive, "one", "HEAD"), "ref: x\n")
    repository = {"name": "one", "source": "s", "workdir": "w", "head": "h", "history": []}
    about = {"version": 1, "repositories": [repository]}
    put(os.path.join(archive, "safekept-legacy.json"), json.dumps(about))
    done = say("checkpoint", "clear-legacy", "--yes")
    assert done.code == 0 and in_days(done.out, "  Kept       until") and not os.path.exists(archive)
    (undo,) = commands(done.out)
    assert say(*undo).code == 0
    assert os.path.exists(os.path.join(archive, "one", "HEAD"))
    done = say("checkpoint", "clear-legacy", "--now", "--yes")
    assert "  Kept       gone for good\n" in done.out
    assert not [name for name in os.listdir(store_of(here)) if "legacy" in name or "trash" in name]
    refused = say(*undo)
    assert refused.code == 1 and "what it dropped was brought back already, by " in refused.err


# ── archives ───────────────────────────────────────────────────────────────────────────────────────


def archives(out):
    return sorted(name for name in os.listdir(out) if name.endswith(".zip"))


def rotating(say, out, name, *words):
    return say("backup", "-o", str(out / name), "--keep", "1", *words)


def test_an_archive_that_was_rotated_away_comes_back(here, home, say, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    first = json.loads(rotating(say, out, "a.zip", "--json").out)
    assert first["rotated"] == [] and first["rotated_until"] is None
    done = rotating(say, out, "b.zip")
    assert archives(out) == ["b.zip"]
    assert in_days(done.out, f"  Removed    {out}/a.zip (--keep)\n  Kept       until")
    undo = next(words for words in commands(done.out) if words[0] == "undo")
    assert say(*undo, "--dry-run").out.startswith("Would bring back 1 archive\n") and len(archives(out)) == 1
    back = say(*undo)
    assert back.code == 0 and back.out.startswith("Brought back 1 archive\n"), back.err
    assert archives(out) == ["a.zip", "b.zip"] and ".safekept-trash" not in os.listdir(out)
    assert say("import", str(out / "a.zip"), "--into", str(tmp_path / "look")).code == 0


def test_no_more_archives_wait_than_are_kept_and_none_without_room(here, home, say, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    made = [json.loads(rotating(say, out, f"{name}.zip", "--json").out) for name in "abcd"]
    assert archives(out) == ["d.zip"]
    assert say("undo", made[1]["operation"]).code == 3, "only the last one that went is kept"
    assert say("undo", made[3]["operation"]).code == 0
    assert archives(out) == ["c.zip", "d.zip"]
    monkeypatch.setattr("safekept.core.trash.free_bytes", lambda path: 0)
    last = rotating(say, out, "e.zip")
    assert last.out.count("(--keep)") == 2 and "  Kept       gone for good\n" in last.out
    assert archives(out) == ["e.zip"] and ".safekept-trash" not in os.listdir(out)


# ── snapshots ──────────────────────────────────────────────────────────────────────────────────────


def test_forgetting_says_until_when_and_the_printed_command_calls_all_of_them_back(here, home, say):
    ids = [take(here, home, check="never", retention=False).id[:8] for _ in range(3)]
    done = say("snapshot", "forget", *ids[:2], "--yes")
    assert in_days(done.out, "  Kept       until")
    call = commands(done.out)[0]
    assert call == ["snapshot", "forget", "--undo", *ids[:2]]
    waiting = say("vault", "prune", "--dry-run").out
    assert in_days(waiting, "  Waiting    2 forgotten snapshots; the first can be called back until")
    assert say(*call).code == 0
    assert len(json.loads(say("snapshot", "list", "--json").out)["snapshots"]) == 3


def test_undo_calls_forgotten_snapshots_back_and_says_which_are_gone(here, home, say):
    ids = [take(here, home, check="never", retention=False).id[:8] for _ in range(3)]
    assert say("snapshot", "forget", *ids[:2], "--yes").code == 0
    forgot = [one.operation for one in here.journal.read() if one.verb == "forget"][-1]
    assert say("undo", forgot, "--dry-run").out.startswith("Would bring back 2 snapshots\n")
    done = say("undo", forgot)
    assert done.code == 0 and len(json.loads(say("snapshot", "list", "--json").out)["snapshots"]) == 3
    assert say("snapshot", "forget", ids[0], "--yes").code == 0
    forgot = [one.operation for one in here.journal.read() if one.verb == "forget"][-1]
    assert say("vault", "prune", "--now", "--yes").code == 0
    gone = say("undo", forgot)
    assert gone.code == 3 and f"  Gone       {ids[0]}\n" in gone.out
    assert "past their days of grace, and reclaimed" in gone.out
    pruned = [one.operation for one in here.journal.read() if one.verb == "vault-prune"][-1]
    refused = say("undo", pruned)
    assert refused.code == 1
    assert "what a prune deletes was forgotten days before, and is gone for good" in refused.err


def test_undo_calls_back_what_a_prune_of_quick_snapshots_forgot(here, home, say):
    quick = [take(here, home, kind="quick", check="never", retention=False).id for _ in range(3)]
    document = json.loads(say("snapshot", "prune", "1", "--yes", "--json").out)
    assert sorted(document["forgotten"]) == sorted(quick[:2])
    [line] = [one for one in here.journal.read() if one.verb == "prune"]
    assert line.facts["forgotten"] == document["forgotten"], "which ones, not only how many"
    assert line.facts["snapshots"] == document["pruned"]["snapshots"] == 0
    assert say("undo", line.operation, "--dry-run").out.startswith("Would bring back 2 snapshots\n")
    assert say("undo", line.operation).code == 0
    assert len(json.loads(say("snapshot", "list", "--json").out)["snapshots"]) == 3


# ── when nobody is there ───────────────────────────────────────────────────────────────────────────


def test_every_trash_that_is_known_is_emptied_when_its_days_are_over(here, home, say, tmp_path):
    from safekept.actions.undo.dropped import empty_all_trash

    out = tmp_path / "out"
    out.mkdir()
    for name in "ab":
        assert rotating(say, out, f"{name}.zip").code == 0
    legacy = os.path.join(store_of(here), "legacy-20260101-000000")
    put(os.path.join(legacy, "safekept-legacy.json"), json.dumps({"version": 1, "repositories": []}))
    assert say("checkpoint", "clear-legacy", "--yes").code == 0
    write = os.path.join(home, "SOUL.md")
    put(write, "mine")
    take(here, home)
    put(write, "mine again")
    assert say("snapshot", "restore", "latest", "SOUL.md", "--yes").code == 0
    assert empty_all_trash(here, now=time.time() + 2 * DAY) == 0
    assert empty_all_trash(here, now=time.time() + 4 * DAY) > 1000
    assert ".safekept-trash" not in os.listdir(out) + os.listdir(store_of(here))
    assert say("undo").code == 0, "what a restore replaced has days of its own"
    empty_all_trash(here, keep_days=-1)
    assert say("undo").code == 1
