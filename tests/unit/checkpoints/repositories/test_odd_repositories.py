"""Repositories of every odd shape: what is there is kept and comes back, what is missing costs itself."""

from __future__ import annotations

import os
import time

import pytest

from safekept.checkpoints.rollback.rollback import plan_rollback, roll_back
from safekept.checkpoints.store.repositories.keeping import Kept
from safekept.checkpoints.store.repositories.locating import all_settled
from safekept.checkpoints.store.repositories.state import read_states
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import take
from safekept.checkpoints.upkeep.dropping import drop_checkpoints
from safekept.checkpoints.upkeep.maintenance import MaintenanceSettings, run_maintenance
from support.projects.checkpoints import run_plain_git
from support.projects.repositories import asked, git, picture, shell

MAKE = (
    "echo one > a; git add .; git commit -qm one; echo two > a; git commit -qam two; git branch work HEAD~1"
)


@pytest.fixture
def store(tmp_path):
    with Store.open(str(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def project(tmp_path):
    place = str(tmp_path / "project")
    os.mkdir(place)
    shell(f"git init -q -b main; {MAKE}", place)
    return place


def back(store, project, point):
    done = roll_back(store, plan_rollback(store, project, point, git=True))
    return done.repositories[0]


def kept_of(store, point, path=""):
    state = read_states(store, point)[path]
    return Kept(store.directory, state.common, state.format)


def lose_everything(project, store, point):
    """`rm -rf .git`, and back: the whole of it must be in our own store."""
    before = picture(project)
    shell("rm -rf .git", project)
    restored = back(store, project, point)
    assert restored.made and restored.complete, restored
    assert picture(project) == before


def test_names_of_sha256_are_kept_and_come_back(store, tmp_path):
    project = str(tmp_path / "project")
    os.mkdir(project)
    shell(f"git init -q -b main --object-format=sha256; {MAKE}; git stash", project)
    point = take(store, project, kind="manual").checkpoint
    assert read_states(store, point)[""].format == "sha256"
    lose_everything(project, store, point)


def test_a_shallow_clone_comes_back_as_shallow_as_it_was(store, project, tmp_path):
    shallow = str(tmp_path / "shallow")
    shell(f"git clone -q --depth 1 file://{project} {shallow}", str(tmp_path))
    git(shallow, "remote", "remove", "origin")
    point = take(store, shallow, kind="manual").checkpoint
    lose_everything(shallow, store, point)
    assert git(shallow, "rev-parse", "--is-shallow-repository").strip() == "true"


def test_what_lies_with_an_alternate_is_kept_with_the_project(store, project, tmp_path):
    borrowing = str(tmp_path / "borrowing")
    shell(f"git clone -q --shared {project} {borrowing}", str(tmp_path))
    git(borrowing, "remote", "remove", "origin")
    point = take(store, borrowing, kind="manual").checkpoint
    shell(f"rm -rf {project}", str(tmp_path))
    shell("rm -rf .git", borrowing)
    assert back(store, borrowing, point).made
    assert git(borrowing, "log", "--format=%s").split() == ["two", "one"]


def test_a_partial_clone_costs_no_checkpoint_and_asks_nobody(store, project, tmp_path):
    git(project, "config", "uploadpack.allowFilter", "true")
    partial = str(tmp_path / "partial")
    shell(f"git clone -q --filter=blob:none --no-checkout file://{project} {partial}", str(tmp_path))
    shell("git update-ref refs/heads/mine HEAD; git update-ref -d refs/remotes/origin/main", partial)
    point = take(store, partial, kind="manual").checkpoint
    shell(f"rm -rf {project}; git update-ref -d refs/heads/mine", partial)
    assert back(store, partial, point).done
    assert asked(partial, "rev-parse", "mine")[1] == 0


def test_a_broken_ref_costs_that_ref(store, project):
    with open(f"{project}/.git/refs/heads/broken", "w") as file:
        file.write("garbage\n")
    with open(f"{project}/.git/refs/heads/dangling", "w") as file:
        file.write("1" * 40 + "\n")
    point = take(store, project, kind="manual").checkpoint
    state = read_states(store, point)[""]
    assert any("refs/heads/broken" in remark for remark in state.remarks)
    tip = git(project, "rev-parse", "work").strip()
    os.unlink(f"{project}/.git/refs/heads/work")
    assert "ref:refs/heads/work" in back(store, project, point).done
    assert git(project, "rev-parse", "work").strip() == tip


def test_objects_that_are_missing_cost_what_is_behind_them(store, project):
    blob = git(project, "rev-parse", "main~1:a").strip()
    os.unlink(f"{project}/.git/objects/{blob[:2]}/{blob[2:]}")
    point = take(store, project, kind="manual").checkpoint
    tip = git(project, "rev-parse", "main").strip()
    kept = kept_of(store, point)
    assert kept.incomplete and run_plain_git(kept.directory, "cat-file", "-e", tip).returncode == 0
    git(project, "branch", "-D", "work")
    assert "ref:refs/heads/work" in back(store, project, point).done


def test_fifty_thousand_refs_cost_a_look_when_nothing_moved(store, project):
    tip = git(project, "rev-parse", "main").strip()
    lines = "".join(f"{tip} refs/heads/many/{number:05}\n" for number in range(50_000))
    with open(f"{project}/.git/packed-refs", "w") as file:
        file.write(f"# pack-refs with: sorted \n{lines}")
    os.utime(f"{project}/.git/packed-refs", (1, 1))
    point = take(store, project, kind="manual").checkpoint
    assert len(read_states(store, point)[""].refs()) == 50_002
    wait_for_old_looks(project)
    take(store, project)
    assert take(store, project).seconds < 0.5
    with open(f"{project}/.git/packed-refs", "w") as file:
        file.write(f"# pack-refs with: sorted \n{lines[: lines.rindex(tip)]}")
    restored = back(store, project, point)
    assert restored.complete and len(git(project, "for-each-ref").splitlines()) == 50_002


def wait_for_old_looks(project):
    """What changed this very moment is read again by the next call: make it older than that."""
    for directory, _, _ in os.walk(f"{project}/.git"):
        os.utime(directory, (1, 1))
    for name in ("HEAD", "index", "config", "packed-refs"):
        os.utime(f"{project}/.git/{name}", (1, 1))


def test_refs_in_a_reftable_are_named_as_not_read(store, project):
    os.mkdir(f"{project}/.git/reftable")
    point = take(store, project, kind="manual").checkpoint
    assert any("reftable" in remark for remark in read_states(store, point)[""].remarks)


def test_logins_and_tokens_are_not_stored(store, project, tmp_path):
    git(project, "remote", "add", "origin", "https://me:hunter2@example.org/x.git")
    git(project, "config", "http.https://example.org/.extraheader", "AUTHORIZATION: basic c2VjcmV0")
    point = take(store, project, kind="manual").checkpoint
    state = read_states(store, point)[""]
    stored = store.read(state.items["file:config"].split()[-1])
    assert b"example.org/x.git" in stored
    assert b"hunter2" not in stored and b"c2VjcmV0" not in stored
    # What is there is not overwritten by what was stored without them.
    git(project, "config", "user.name", "somebody")
    restored = back(store, project, point)
    assert ("file:config", "secret", "") in restored.left
    assert "hunter2" in git(project, "config", "remote.origin.url")


def test_staged_work_that_is_in_no_commit_comes_back_after_a_gc(store, project):
    shell("echo precious > staged; git add staged; echo newer > staged; git add staged", project)
    point = take(store, project, kind="manual").checkpoint
    before = picture(project)
    shell("git reset -q --hard; git reflog expire --expire=now --all; git gc -q --prune=now", project)
    assert back(store, project, point).complete
    assert picture(project) == before


def test_a_branch_of_another_worktree_is_not_moved_under_its_feet(store, project, tmp_path):
    point = take(store, project, kind="manual").checkpoint
    side = str(tmp_path / "side")
    git(project, "worktree", "add", "-q", side, "work")
    shell("echo there > b; git add b; git commit -qm there", side)
    tip = git(side, "rev-parse", "work")
    git(project, "tag", "since")
    restored = back(store, project, point)
    assert ("ref:refs/heads/work", "elsewhere", "") in restored.left
    assert git(side, "rev-parse", "work") == tip and not git(project, "tag")


def test_a_ref_that_moves_meanwhile_stays_where_it_was_moved_to(store, project):
    """Two agents at once: the transaction names what it found, and git refuses the rest."""
    point = take(store, project, kind="manual").checkpoint
    shell("git commit -q --allow-empty -m first; git tag one; git branch -D work", project)
    plan = plan_rollback(store, project, point, git=True)
    shell("git commit -q --allow-empty -m second", project)
    tip = git(project, "rev-parse", "main")
    restored = roll_back(store, plan).repositories[0]
    assert git(project, "rev-parse", "main") == tip
    assert any(name == "ref:refs/heads/main" for name, _, _ in restored.left)
    assert "ref:refs/heads/work" in restored.done and not restored.complete


def test_the_index_waits_for_no_other_git(store, project):
    point = take(store, project, kind="manual").checkpoint
    shell("echo x > x; git add x", project)
    plan = plan_rollback(store, project, point, git=True)
    with open(f"{project}/.git/index.lock", "w"):
        pass
    restored = roll_back(store, plan).repositories[0]
    assert [name for name, reason, _ in restored.left if reason == "failed"] == ["index"]
    assert os.path.exists(f"{project}/.git/index.lock"), "the lock is somebody else's"


def test_what_no_point_needs_any_more_goes_with_maintenance(store, project):
    point = take(store, project, kind="manual").checkpoint
    kept = kept_of(store, point)

    def upkeep(grace):
        settings = MaintenanceSettings(min_interval_seconds=0, grace_seconds=grace)
        run_maintenance(store.directory, settings, thorough=True)

    upkeep(0)
    assert kept.exists, "a point needs it"
    drop_checkpoints(store, [point], time.time_ns())
    upkeep(3600)
    assert kept.exists, "a dropped point can still be brought back"
    upkeep(0)
    assert not kept.exists


def test_a_move_within_the_same_whole_second_is_not_missed():
    """exFAT keeps whole seconds: what moves within the second in which it was read looks as before."""
    second = 1_000_000_000
    now = time.time_ns() // second * second
    assert not all_settled([("refs", 1, 1, now)])
    assert not all_settled([("refs", 1, 1, now - second)])
    assert all_settled([("refs", 1, 1, now - 3 * second), ("gone", 0, 0, 0)])
