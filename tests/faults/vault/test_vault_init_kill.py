"""kill -9 at any step of the first use: the next one finishes, with the same key if one was written."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from safekept.vault.repo.keys import Secret
from safekept.vault.repo.repository import Repository
from safekept.vault.storage import LocalStorage
from support.faults.kill_points import count_steps, run_killed
from support.users.contexts import throwaway
from support.vault.closed import open_below

SAMPLE = 10


def key_text(here) -> str | None:
    if not os.path.exists(here.places.vault_key_file):
        return None
    with open(here.places.vault_key_file) as file:
        return file.read()


def storm(tmp_path, environment, steps) -> None:
    here = throwaway(tmp_path)
    for step in steps:
        for name in (".config", ".local", ".cache"):
            shutil.rmtree(open_below(os.path.join(here.places.user_home, name)), ignore_errors=True)
        done = run_killed(["vault", "init"], environment, step)
        if done.returncode == 0 and step > steps[-1] - 5:
            continue  # the run that was counted took a few steps more (directories that were not there)
        assert done.returncode == -9, (step, done.stderr)
        key = key_text(here)
        if os.path.exists(os.path.join(here.places.vault, "config")):
            assert key is not None, "a vault without its key can never be opened"
        if key is not None:
            assert key.endswith("\n") and os.stat(here.places.vault_key_file).st_mode & 0o777 == 0o600
        made = os.path.exists(os.path.join(here.places.vault, "config"))
        done = run_killed(["vault", "stats" if made else "init"], environment, 0)
        assert done.returncode == 0, (step, done.stderr)
        after = key_text(here)
        assert after is not None and key in (None, after), "a key that was written is used and never replaced"
        with Repository.open(LocalStorage(here.places.vault), Secret(after.strip())):
            pass


def all_steps(tmp_path, environment) -> int:
    total = count_steps(["vault", "init"], environment, str(tmp_path / "steps"))
    assert total > 20
    return total


def test_a_killed_init_is_finished_by_the_next(tmp_path, launcher_environment):
    total = all_steps(tmp_path, launcher_environment)
    rng = random.Random(3)
    storm(tmp_path, launcher_environment, sorted(rng.sample(range(1, total - 4), SAMPLE)))


@pytest.mark.soak("vault")
def test_a_killed_init_is_finished_by_the_next_at_every_step(tmp_path, launcher_environment):
    storm(tmp_path, launcher_environment, range(1, all_steps(tmp_path, launcher_environment) + 1))
