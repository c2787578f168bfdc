"""A lock's file is written into, so it must be nobody else's; what stands in its place is left as it is."""

import os

import pytest

from conftest import missing_part
from safekept.core.locks import AlreadyRunning, LockNotOurs, lock_is_held, process_lock

PRECIOUS = b"not to be cut\n" * 100


@pytest.fixture
def precious(tmp_path):
    path = tmp_path / "precious"
    path.write_bytes(PRECIOUS)
    path.chmod(0o600)
    return str(path)


def put_in_place(path: str, precious: str, kind: str) -> None:
    if kind == "a link":
        os.symlink(precious, path)
    elif kind == "a link to nothing":
        os.symlink(precious + ".missing", path)
    elif kind == "a second name":
        os.link(precious, path)
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        os.mkdir(path)


@pytest.mark.parametrize("kind", ["a link", "a link to nothing", "a second name", "a pipe", "a directory"])
def test_what_is_no_lock_of_ours_is_neither_written_nor_followed(tmp_path, precious, kind):
    path = str(tmp_path / "lock")
    put_in_place(path, precious, kind)
    with pytest.raises(LockNotOurs) as caught, process_lock(path, "test"):
        pass
    assert caught.value.what.startswith(f"`{path}` is not a lock of ours: it is a link, ")
    assert caught.value.kept == "It was neither written nor followed, and nothing was changed"
    with open(precious, "rb") as file:
        assert file.read() == PRECIOUS
    assert not os.path.exists(precious + ".missing")
    assert lock_is_held(path) is False


def test_somebody_elses_file_is_no_lock_for_root(tmp_path, precious):
    if os.geteuid() != 0:
        missing_part("needs root")
    os.chown(precious, 65534, 65534)
    with pytest.raises(LockNotOurs), process_lock(precious, "test"):
        pass
    with open(precious, "rb") as file:
        assert file.read() == PRECIOUS


def test_a_lock_of_ours_is_held_by_one(tmp_path):
    path = str(tmp_path / "lock")
    with process_lock(path, "first"):
        assert lock_is_held(path)
        with (
            pytest.raises(AlreadyRunning, match=f"Process {os.getpid()} \\(first\\)"),
            process_lock(path, "2"),
        ):
            pass
    assert not lock_is_held(path)
    with process_lock(path, "again", remove=True):
        pass
    assert not os.path.exists(path)
