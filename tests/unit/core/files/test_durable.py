"""Durable files: whole or absent, private from the first byte, and locks that die with their owner."""

import errno
import os
import subprocess
import sys
import time

import pytest

from safekept.core.files import (
    TEMPORARY_PREFIX,
    durable_file,
    durable_write,
    private_directory,
    sweep_temporaries,
)
from safekept.core.locks import AlreadyRunning, process_lock
from safekept.core.processes.process import process_space


def names(directory):
    return sorted(os.listdir(directory))


@pytest.mark.needs("modes", "it looks at modes")
def test_a_durable_write_replaces_the_content_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"old")
    durable_write(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["config.yaml"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_failed_durable_write_leaves_the_old_file_and_no_temporary(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), durable_file(str(path)) as file:
        file.write(b"half")
        raise RuntimeError("power cut")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["config.yaml"]


@pytest.mark.needs("modes", "it looks at modes")
def test_a_durable_file_is_private_before_its_first_byte_whatever_the_umask(tmp_path):
    previous = os.umask(0)
    try:
        with durable_file(str(tmp_path / "secret")):
            (temporary,) = names(tmp_path)
            assert (tmp_path / temporary).stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(previous)


def test_a_name_that_appeared_meanwhile_is_not_overwritten_when_asked_to_keep_it(tmp_path):
    wanted = tmp_path / "hermes-backup-2026-01-01-000000.zip"
    with durable_file(str(wanted), replace=False) as file:
        file.write(b"mine")
        wanted.write_bytes(b"theirs")
    assert wanted.read_bytes() == b"theirs"
    assert file.final_path == str(tmp_path / "hermes-backup-2026-01-01-000000-2.zip")
    assert (tmp_path / "hermes-backup-2026-01-01-000000-2.zip").read_bytes() == b"mine"


def test_only_temporaries_of_dead_processes_are_swept(tmp_path):
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True
    )
    number, here = dead.stdout.strip(), process_space()
    stale = tmp_path / f"{TEMPORARY_PREFIX}{number}-{here}-abc"
    mine = tmp_path / f"{TEMPORARY_PREFIX}{os.getpid()}-{here}-abc"
    # In another container that number may be alive: only time tells.
    elsewhere = tmp_path / f"{TEMPORARY_PREFIX}{number}-0123456789ab-abc"
    ancient = tmp_path / f"{TEMPORARY_PREFIX}{number}-0123456789ab-def"
    foreign = tmp_path / ".some-other-tmp-1-abc"
    for path in (stale, mine, foreign, elsewhere, ancient):
        path.write_bytes(b"x")
    os.utime(ancient, (time.time() - 2 * 86_400,) * 2)
    assert sorted(sweep_temporaries(str(tmp_path))) == sorted([str(stale), str(ancient)])
    assert not stale.exists() and mine.exists() and foreign.exists() and elsewhere.exists()


def test_private_directories_can_be_entered_by_their_owner_only(tmp_path):
    private_directory(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


HOLDER = """
import sys, time
from safekept.core.locks import process_lock
with process_lock(sys.argv[1], "holding"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_names_its_living_holder_and_dies_with_it(tmp_path):
    path = str(tmp_path / "locks" / "lock")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunning) as caught, process_lock(path, "second"):
            pass
        assert caught.value.what == f"Process {holder.pid} (holding) is at work here"
        assert caught.value.exit_code == 11
        holder.kill()
        holder.wait()
        with process_lock(path, "third"):  # without waiting
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@pytest.mark.needs("modes", "it looks at modes")
def test_a_private_directory_is_closed_to_others_from_the_first_one_that_was_missing(tmp_path):
    there = tmp_path / "there"
    there.mkdir(0o755)
    private_directory(str(there / "a" / "b" / "c"))
    assert [os.stat(there / place).st_mode & 0o777 for place in ("a", "a/b", "a/b/c")] == [0o700] * 3
    assert os.stat(there).st_mode & 0o777 == 0o755
    private_directory(str(there / "a"))
    (there / "file").write_text("x")
    with pytest.raises(OSError):
        private_directory(str(there / "file" / "below"))


def test_a_sweep_that_the_disk_refuses_harms_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "scandir", _refusing(errno.EIO))
    assert sweep_temporaries(str(tmp_path)) == []


def test_a_file_that_has_its_name_is_written_though_its_temporary_name_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "unlink", _refusing(errno.EIO))
    with durable_file(str(tmp_path / "home.zip"), replace=False) as file:
        file.write(b"whole")
    assert (tmp_path / "home.zip").read_bytes() == b"whole"
    assert [name for name in names(tmp_path) if not name.startswith(TEMPORARY_PREFIX)] == ["home.zip"]


def test_what_went_wrong_first_is_told_where_tidying_up_fails_too(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", _refusing(errno.ENOSPC))
    monkeypatch.setattr(os, "unlink", _refusing(errno.EROFS))
    with pytest.raises(OSError, match=r"No space left on device: '.*/config\.yaml'"):
        durable_write(str(tmp_path / "config.yaml"), b"new")


def _refusing(code):
    def refuse(*arguments, **options):
        raise OSError(code, os.strerror(code))

    return refuse
