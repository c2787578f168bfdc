"""A vault on a disk without any room: everything can be read, and forgetting and pruning find a way out."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess

import pytest

from safekept.vault.care.checking import check
from safekept.vault.care.forgetting import forget
from safekept.vault.care.prune import carry_out, plan_prune
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage.local import RESERVE, LocalStorage
from support.commands.error_texts import error_code
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.vault.vaults import new_vault, read_all, save_files

NOTE = "Note: the vault is read without a lock: there is no room left for the vault at"


def fill(place: str) -> None:
    """Not one more byte fits."""
    with contextlib.suppress(OSError), open(os.path.join(place, "filler"), "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    with pytest.raises(OSError, match="No space"), open(os.path.join(place, "more"), "wb") as file:
        file.write(b"x")
        file.flush()
    os.unlink(os.path.join(place, "more"))
    assert os.statvfs(place).f_bavail == 0


@pytest.fixture
def full(tmp_path, small_filesystem, safekept):
    """Commands of a user whose vault lies on a disk that two snapshots and somebody else filled."""
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    place = small_filesystem(16 << 10)
    env = {"SAFEKEPT_VAULT_PATH": os.path.join(place, "vault")}

    def say(*words):
        return safekept(*words, env=env)

    for number in range(2):
        with open(os.path.join(home, "memories", "big.bin"), "wb") as file:
            file.write(random.Random(number).randbytes(2 << 20))
        done = say("snapshot")
        assert done.returncode == 0, done.stderr
    fill(place)
    say.place, say.home = place, home
    return say


def test_everything_that_reads_works_on_a_full_disk(full, tmp_path):
    for words in (
        ("snapshot", "show", "1"),
        ("snapshot", "diff", "2", "1"),
        ("snapshot", "restore", "2", "--into", str(tmp_path / "back"), "--yes"),
        ("history", "SOUL.md"),
        ("vault", "check"),
        ("vault", "stats"),
        ("vault", "prune", "--dry-run"),
    ):
        done = full(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert NOTE in done.stderr, words
    assert os.path.getsize(tmp_path / "back" / "memories" / "big.bin") == 2 << 20


def test_a_snapshot_on_a_full_disk_says_so_and_leaves_the_reserve(full):
    done = full("snapshot")
    assert done.returncode == 1
    assert error_code(done.stderr) == "no-room"
    assert os.path.exists(os.path.join(full.place, "vault", RESERVE))


def test_forgetting_and_pruning_make_room_on_a_full_disk(full):
    done = full("snapshot", "forget", "2", "--yes")
    assert done.returncode == 0, done.stderr
    fill(full.place)
    done = full("vault", "prune", "--now", "--yes", "--json")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["pruned"]["bytes_freed"] > 2 << 20
    assert os.statvfs(full.place).f_bavail * 4096 > 1 << 20
    done = full("vault", "check", "--read-data")
    assert done.returncode == 0, done.stdout
    assert full("snapshot").returncode == 0


def test_pruning_needs_no_more_than_the_reserve_at_any_moment(small_filesystem):
    """The index files cannot all be written anew at once; each snapshot has content of its own."""
    place = small_filesystem(12 << 10)
    with new_vault(LocalStorage(os.path.join(place, "vault"))) as vault:
        for number in range(14):
            noise = {f"f{n}": random.Random(f"{number}-{n}").randbytes(3000) for n in range(150)}
            save_files(vault, noise)
        with vault.lock(exclusive=True) as lock:
            forget(vault, list_snapshots(vault)[0][:1], lock, now_ns=1)
            fill(place)
            plan = plan_prune(vault, now_ns=2, grace=0.0)
            pruned = carry_out(vault, plan, lock)
        assert pruned.no_room
        assert pruned.bytes_freed > 300 << 10
        assert check(vault, read_data=1.0).sound
        assert len(read_all(vault)) == 13
        assert os.path.exists(os.path.join(place, "vault", RESERVE))


def test_a_check_of_a_read_only_vault_works(full):
    os.unlink(os.path.join(full.place, "filler"))
    subprocess.run(["mount", "-o", "remount,ro", full.place], check=True)
    for words in (("vault", "check", "--read-data"), ("vault", "stats"), ("snapshot", "show", "1")):
        done = full(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert "Note: the vault is read without a lock" in done.stderr


def test_restic_passes_the_reserve_over(tmp_path, safekept):
    here = throwaway(tmp_path)
    make_hermes_home(os.path.join(here.places.user_home, ".hermes"))
    assert safekept("snapshot").returncode == 0
    assert os.stat(os.path.join(here.places.vault, RESERVE)).st_mode & 0o777 == 0o600
    environment = {**os.environ, "RESTIC_PASSWORD_FILE": here.places.vault_key_file}
    for words in (("check", "--read-data"), ("prune",), ("snapshots",)):
        command = ["restic", "-r", here.places.vault, "--no-cache", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert RESERVE not in done.stdout + done.stderr
