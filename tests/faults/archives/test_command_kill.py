"""kill -9 at any step: no archive that is not whole, and a home that is the old or the new one."""

import os
import random
import shutil

import pytest

from safekept.archive import open_archive
from safekept.core.entries import Kind
from support.faults.kill_points import count_steps, run_killed
from support.home.homes import differences, make_hermes_home, tree_facts

SAMPLE, FULL = 12, 120


def assert_whole(path):
    """Every member of an archive reads back, with the hash its manifest recorded."""
    import hashlib

    with open_archive(str(path)) as archive:
        assert archive.head is not None and archive.head["complete"] is True
        for entry in archive:
            if entry.kind is Kind.FILE:
                digest = hashlib.sha256()
                with entry.open() as content:
                    for chunk in content.chunks():
                        digest.update(chunk)
                assert digest.hexdigest() == entry.sha256, entry.path


def chosen_steps(total, count, seed):
    """`count` steps: the first ones and the last always, the rest by chance, some twice.

    Threads make two runs differ, so the same step is not the same instant.
    """
    rng = random.Random(seed)
    return [1, 2, 3, total, *(rng.randrange(4, total + 1) for _ in range(count - 4))]


def backup_storm(tmp_path, environment, form, count, seed):
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"))
    before = tree_facts(home, skip=(".",))
    out = tmp_path / "out"
    out.mkdir()
    target = out / f"iris.{form}"
    words = ["backup", "--home", home, "-o", str(target), "--format", form]
    total = count_steps(words, environment, str(tmp_path / "steps"))
    assert total > 20
    killed = 0
    for step in chosen_steps(total, count, seed):
        # Every other time an older, whole archive is already there and must not be harmed.
        if step % 2:
            for name in os.listdir(out):
                os.unlink(out / name)
        # A run may take fewer steps than the one that was counted: then an earlier step is its last.
        while run_killed(words, environment, step).returncode != -9:
            step -= 3
            assert step > 0, "nothing was killed"
        killed += 1
        names = [name for name in os.listdir(out) if not name.startswith(".safekept-tmp-")]
        assert names in ([], [target.name]), f"step {step}: {names}"
        if names:
            assert_whole(target)
    assert killed == count
    assert run_killed(words, environment, 0).returncode == 0
    assert os.listdir(out) == [target.name], "leftovers of killed runs were not swept"
    assert differences(before, tree_facts(home, skip=(".",))) == []


def import_storm(tmp_path, environment, count, seed, exact):
    home = make_hermes_home(str(tmp_path / "user" / ".hermes"), profiles=())
    archive = str(tmp_path / "iris.zip")
    assert run_killed(["backup", "--home", home, "-o", archive], environment, 0).returncode == 0
    # The home as it is when somebody needs an import: things changed, lost and added.
    shutil.rmtree(os.path.join(home, "skills"))
    for name, data in (("SOUL.md", b"hijacked"), ("state.db", bytes(8192)), ("later.md", b"written since")):
        with open(os.path.join(home, name), "wb") as file:
            file.write(data)
    pristine = str(tmp_path / "pristine")
    shutil.copytree(home, pristine, symlinks=True, ignore=lambda *_: {"gateway.sock", "pipe"})
    shutil.rmtree(home)
    shutil.copytree(pristine, home, symlinks=True)
    old = tree_facts(home, skip=(".",))
    words = ["import", archive, "--home", home, "--force", *(["--exact"] if exact else [])]
    total = count_steps(words, environment, str(tmp_path / "steps"))
    new = tree_facts(home, skip=(".",))
    assert differences(old, new) != []
    outcomes = {"old": 0, "new": 0}
    for step in chosen_steps(total, count, seed):
        shutil.rmtree(home)
        shutil.rmtree(home + ".safekept", ignore_errors=True)
        shutil.copytree(pristine, home, symlinks=True)
        run_killed(words, environment, step)
        recovery = run_killed(["import", archive, "--home", home, "--dry-run"], environment, 0)
        assert recovery.returncode == 0, f"step {step}: {recovery.stderr}"
        now = tree_facts(home, skip=(".",))
        if differences(old, now) == []:
            outcomes["old"] += 1
        else:
            assert differences(new, now) == [], (
                f"step {step} of {total}: neither the old home nor the new one"
            )
            outcomes["new"] += 1
    assert outcomes["old"] and outcomes["new"], outcomes
    # And the command still works after all that.
    assert run_killed(words, environment, 0).returncode == 0
    assert differences(new, tree_facts(home, skip=(".",))) == []


@pytest.mark.parametrize("form", ["zip", "tar.zst"])
def test_a_killed_backup_never_leaves_a_file_that_is_not_whole(tmp_path, launcher_environment, form):
    backup_storm(tmp_path, launcher_environment, form, SAMPLE, seed=1)


@pytest.mark.parametrize("exact", [False, True], ids=["merge", "exact"])
def test_a_killed_import_leaves_the_old_home_or_the_new_one(tmp_path, launcher_environment, exact):
    import_storm(tmp_path, launcher_environment, SAMPLE, seed=2, exact=exact)


@pytest.mark.soak("archive")
@pytest.mark.parametrize("form", ["zip", "tar.zst"])
def test_backups_killed_at_over_a_hundred_steps_never_leave_a_file_that_is_not_whole(
    tmp_path, launcher_environment, form
):
    backup_storm(tmp_path, launcher_environment, form, FULL, seed=3)


@pytest.mark.soak("archive")
@pytest.mark.parametrize("exact", [False, True], ids=["merge", "exact"])
def test_imports_killed_at_over_a_hundred_steps_leave_the_old_home_or_the_new_one(
    tmp_path, launcher_environment, exact
):
    import_storm(tmp_path, launcher_environment, FULL, seed=4, exact=exact)
