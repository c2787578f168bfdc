"""kill -9 at any step of a new key: the key file opens the vault, and the same command goes on to its end."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from safekept.vault.repo import KeyFile, Repository, Secret
from safekept.vault.storage import LocalStorage
from support.faults.kill_points import count_steps, run_killed
from support.users.contexts import throwaway
from support.vault.closed import open_below

RENEW = ["vault", "key", "renew", "--yes"]
SAMPLE = 10


def opened(here) -> Repository:
    with open(here.places.vault_key_file, encoding="ascii") as file:
        return Repository.open(LocalStorage(here.places.vault), Secret(file.read().strip()))


def storm(tmp_path, environment, steps) -> None:
    here = throwaway(tmp_path)
    assert run_killed(["vault", "init"], environment, 0).returncode == 0
    as_it_was = str(tmp_path / "as-it-was")
    shutil.copytree(here.places.user_home, as_it_was)
    total = count_steps(RENEW, environment, str(tmp_path / "steps"))
    assert total > 15
    for step in steps(total):
        shutil.rmtree(open_below(here.places.user_home))
        shutil.copytree(as_it_was, here.places.user_home)
        with opened(here) as repository:
            first = repository.key_id
        done = run_killed(RENEW, environment, step)
        assert done.returncode in (-9, 0), (step, done.stderr)
        with opened(here):
            pass
        again = run_killed(RENEW, environment, 0)
        assert again.returncode == 0, (step, again.stderr)
        with opened(here) as repository:
            ids = [one.id for one in repository.list_keys() if isinstance(one, KeyFile)]
            assert ids == [repository.key_id] and repository.key_id != first, (step, ids)
        left = os.listdir(os.path.dirname(here.places.vault_key_file))
        assert not [name for name in left if name.endswith((".new", ".tmp"))], (step, left)


def test_a_killed_renewal_is_finished_by_the_next(tmp_path, launcher_environment):
    rng = random.Random(15)
    storm(
        tmp_path,
        launcher_environment,
        lambda total: sorted(rng.sample(range(1, total), min(SAMPLE, total - 1))),
    )


@pytest.mark.soak("vault")
def test_a_killed_renewal_is_finished_by_the_next_at_every_step(tmp_path, launcher_environment):
    storm(tmp_path, launcher_environment, lambda total: range(1, total + 1))
