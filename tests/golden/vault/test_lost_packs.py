"""A vault that lost stored data: the next snapshot notices, stores it again, and says so."""

from __future__ import annotations

import glob
import json
import os

import pytest

from support.home.homes import make_hermes_home
from support.vault.closed import lose
from support.vault.snapshots import LONG_AGO

NOTE = (
    "Note: 1 pack of the vault is missing or cut; what the home has was stored again; "
    "then: `safekept vault repair`\n"
)


@pytest.fixture
def home(here):
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    for directory, _, files in os.walk(home):
        for name in files:  # so that nothing is read again for being young
            os.utime(os.path.join(directory, name), ns=(LONG_AGO, LONG_AGO), follow_symlinks=False)
    return home


def packs(here):
    return sorted(glob.glob(os.path.join(here.places.vault, "data", "*", "*")), key=os.path.getsize)


def cut(path):
    os.chmod(path, 0o600)
    os.truncate(path, os.path.getsize(path) - 1)


def empty(path):
    os.chmod(path, 0o600)
    os.truncate(path, 0)


@pytest.mark.parametrize(("damage", "which"), [(lose, -1), (cut, -1), (empty, 0), (lose, 0)])
def test_a_snapshot_stores_again_what_the_vault_lost(safekept, here, home, tmp_path, damage, which):
    assert safekept("snapshot").returncode == 0
    first = packs(here)
    damage(first[which])
    done = safekept("snapshot")
    assert done.returncode == 0, done.stderr
    assert NOTE in done.stderr
    into = str(tmp_path / "back")
    done = safekept("snapshot", "restore", "latest", "--into", into, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    for path in ("SOUL.md", "state.db", "memories/MEMORY.md"):
        assert os.path.getsize(os.path.join(into, path)) > 0
    assert safekept("vault", "repair", "--yes").returncode in (0, 3)  # 3: the first one lost its own
    newest = json.loads(safekept("snapshot", "list", "--json").stdout)["snapshots"][0]["id"]
    checked = json.loads(safekept("vault", "check", "--read-data", "--json").stdout)
    # The first snapshot may have lost what only it had (its own account); the newest lost nothing.
    assert newest not in {touched["snapshot"] for one in checked["findings"] for touched in one["touches"]}
    done = safekept("snapshot", "--json")
    assert json.loads(done.stdout)["lost_packs"] == 0
    assert json.loads(done.stdout)["complete"]


def test_json_counts_the_lost_packs(safekept, here, home):
    safekept("snapshot")
    lose(packs(here)[-1])
    assert json.loads(safekept("snapshot", "--json").stdout)["lost_packs"] == 1


def test_the_memory_is_not_believed_while_a_pack_is_lost(safekept, here, home):
    """Taken twice, so that the second run reads nothing; after the loss it must read again."""
    safekept("snapshot")
    few = 20_000  # directories above the home have new times
    assert json.loads(safekept("snapshot", "--json").stdout)["added_bytes"] < few
    lose(packs(here)[-1])
    assert json.loads(safekept("snapshot", "--json").stdout)["added_bytes"] > few
    again = json.loads(safekept("snapshot", "--json").stdout)
    assert again["lost_packs"] == 1
    assert again["added_bytes"] < few
