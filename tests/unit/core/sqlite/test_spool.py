"""Private copies: equal to the source whatever happened to it meanwhile, and gone afterwards."""

from __future__ import annotations

import errno
import os

import pytest

from safekept.core.sqlite.hold import spool as spool_module
from safekept.core.sqlite.hold.spool import NoSpool, Spool


@pytest.mark.parametrize("before", [0, 100, 700_000, 3_000_000])
@pytest.mark.parametrize("now", [0, 1, 262_144, 700_001, 2_900_000])
@pytest.mark.needs("modes", "it looks at modes")
def test_a_copy_made_beside_a_writer_is_made_equal(tmp_path, before, now):
    source = tmp_path / "source"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    source.write_bytes(os.urandom(before))
    descriptor = os.open(source, os.O_RDWR)
    spool = Spool(str(scratch), before)
    try:
        spool.fill(descriptor, before)
        assert os.pread(spool.descriptor, before + 1, 0) == source.read_bytes()
        assert [item.stat().st_mode & 0o777 for item in scratch.iterdir()] == [0o600]
        os.ftruncate(descriptor, now)
        for offset in range(0, now, 400_000):
            os.pwrite(descriptor, b"changed"[: now - offset], offset)
        spool.match(descriptor, now)
        assert os.pread(spool.descriptor, now + 1, 0) == source.read_bytes()
        spool.forget_name()
        assert list(scratch.iterdir()) == []
    finally:
        spool.close()
        os.close(descriptor)


def test_a_copy_is_made_where_the_kernel_cannot_copy(tmp_path, monkeypatch):
    def unable(*arguments):
        raise OSError(errno.EXDEV, "not here")

    monkeypatch.setattr(os, "copy_file_range", unable)
    (tmp_path / "source").write_bytes(os.urandom(2_500_000))
    spool = Spool(str(tmp_path), 2_500_000)
    with open(tmp_path / "source", "rb") as source:
        spool.fill(source.fileno(), 2_500_000)
    assert os.pread(spool.descriptor, 3_000_000, 0) == (tmp_path / "source").read_bytes()
    spool.close()


@pytest.mark.needs("copy_file_range", "the disk is full in that call")
def test_a_full_disk_is_no_room_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "source").write_bytes(b"x" * 1000)
    monkeypatch.setattr(os, "copy_file_range", full)
    spool = Spool(str(tmp_path), 1000)
    with open(tmp_path / "source", "rb") as source, pytest.raises(NoSpool) as refused:
        spool.fill(source.fileno(), 1000)
    spool.close()
    assert str(refused.value) == f"no room in {tmp_path} for a copy of 1000 bytes"
    assert os.listdir(tmp_path) == ["source"]


def test_no_room_is_known_before_a_byte_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(spool_module, "free_bytes", lambda directory: spool_module.MARGIN + 999)
    with pytest.raises(NoSpool):
        Spool(str(tmp_path), 1000)
    with pytest.raises(NoSpool):
        Spool(str(tmp_path / "absent"), 1000)
    assert os.listdir(tmp_path) == []


def test_a_scratch_that_refuses_is_not_called_full(tmp_path):
    """Somebody who reads "no room" frees room, and nothing gets better."""
    with pytest.raises(NoSpool) as refused:
        Spool(str(tmp_path / "absent"), 1000)
    assert str(refused.value) == f"no copy can be made in {tmp_path / 'absent'}: No such file or directory"
