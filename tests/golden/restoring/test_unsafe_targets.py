"""Restoring never costs the vault, its key, our own data, or a directory that only happens to be named."""

from __future__ import annotations

import os

import pytest

from support.commands.error_texts import error_code
from support.home.homes import make_hermes_home, tree_facts
from support.users.contexts import throwaway


@pytest.fixture
def here(tmp_path, safekept):
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    assert safekept("snapshot").returncode == 0
    assert safekept("backup", "--home", home, "-o", str(tmp_path / "b.zip")).returncode == 0
    return here


def commands(tmp_path):
    yield "snapshot", "restore", "latest"
    yield "import", str(tmp_path / "b.zip")


def refused(safekept, here, tmp_path, target, why, *words):
    before = tree_facts(here.places.user_home)
    for command in commands(tmp_path):
        done = safekept(*command, "--into", target, "--yes", *words)
        assert done.returncode == 1, done.stdout
        assert done.stderr == (
            f"Nothing is restored into `{target}`: {why}\n\n"
            "  Kept       Nothing was changed\n"
            "  Next       Name a directory of its own, a new one or an empty one, with `--into DIR`\n"
            "  Error      unsafe-target\n"
        )
    # The vault is opened and locked for it, so the times of its directories may differ.
    after = tree_facts(here.places.user_home)
    assert sorted(before) == sorted(after)


@pytest.mark.parametrize("exact", [(), ("--exact",)], ids=["plain", "exact"])
def test_nothing_is_restored_over_what_is_ours(safekept, here, tmp_path, exact):
    user, vault, key = here.places.user_home, here.places.vault, here.places.vault_key_file
    for target, why in (
        (user, f"the vault (`{vault}`) lies in it"),
        (vault, f"it is where the vault lies (`{vault}`)"),
        (os.path.join(vault, "data", "x"), f"it is where the vault lies (`{vault}`)"),
        (here.places.data_directory, f"the vault (`{vault}`) lies in it"),
        (
            os.path.join(here.places.data_directory, "checkpoints"),
            f"it is where the data of safekept lies (`{here.places.data_directory}`)",
        ),
        (os.path.dirname(key), f"the key of the vault (`{key}`) lies in it"),
        (os.path.dirname(os.path.dirname(key)), f"the key of the vault (`{key}`) lies in it"),
        (os.path.join(user, ".cache"), f"the cache of safekept (`{here.places.cache_directory}`) lies in it"),
    ):
        refused(safekept, here, tmp_path, target, why, *exact)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_to_the_vault_is_seen_through(safekept, here, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(here.places.vault)
    done = safekept("snapshot", "restore", "latest", "--into", str(link), "--yes")
    assert error_code(done.stderr) == "unsafe-target"


def test_an_exact_restore_clears_no_directory_of_other_things(safekept, here, tmp_path):
    target = tmp_path / "documents"
    target.mkdir()
    (target / "thesis.txt").write_text("five years of work")
    why = "it is neither empty nor a home, and `--exact` would remove what is there"
    refused(safekept, here, tmp_path, str(target), why, "--exact")
    assert (target / "thesis.txt").read_text() == "five years of work"
    # Without `--exact` nothing is removed, and so nothing is refused.
    done = safekept("snapshot", "restore", "latest", "--into", str(target), "--yes")
    assert done.returncode == 0, done.stderr
    assert (target / "thesis.txt").exists()
    # Now it is an earlier restore.
    done = safekept("snapshot", "restore", "latest", "--into", str(target), "--exact", "--yes")
    assert done.returncode == 0, done.stderr
    assert not (target / "thesis.txt").exists()


def test_an_exact_restore_clears_no_directory_with_a_home_in_it(safekept, here, tmp_path):
    # The vault and everything of ours lie elsewhere; only the home is in the way.
    away = {
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    assert safekept("snapshot", env=away).returncode == 0
    words = ("snapshot", "restore", "latest", "--into", here.places.user_home, "--exact", "--yes")
    done = safekept(*words, env=away)
    assert done.returncode == 1
    home = os.path.join(here.places.user_home, ".hermes")
    assert f"the home `{home}` lies in it, and `--exact` would remove that" in done.stderr
    assert os.path.exists(os.path.join(home, "SOUL.md"))


def test_a_home_around_the_vault_is_not_cleared_either(safekept, here, tmp_path):
    done = safekept("snapshot", "restore", "latest", "--home", here.places.user_home, "--exact", "--yes")
    assert done.returncode == 1
    assert os.path.exists(os.path.join(here.places.vault, "config"))
    done = safekept("import", str(tmp_path / "b.zip"), "--home", here.places.user_home, "--exact", "--yes")
    assert error_code(done.stderr) == "unsafe-target"


def test_an_empty_directory_and_a_new_one_may_be_restored_into_exactly(safekept, here, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        done = safekept("snapshot", "restore", "latest", "--into", str(tmp_path / name), "--exact", "--yes")
        assert done.returncode == 0, done.stderr
