"""Reading a file that others may be writing: every change that can be seen is."""

from __future__ import annotations

import os

import pytest

from safekept.core.files.stable import READ, read_once


def change_while_reading(monkeypatch, change):
    """Lets something happen to the file between its bytes and the look after them."""
    real = os.pread

    def read(*arguments):
        data = real(*arguments)
        monkeypatch.undo()
        change()
        return data

    monkeypatch.setattr(os, "pread", read)


@pytest.fixture
def opened(tmp_path):
    (tmp_path / "file").write_bytes(b"0123456789")
    descriptor = os.open(tmp_path / "file", READ)
    yield tmp_path / "file", descriptor
    os.close(descriptor)


def test_a_file_that_stays_is_read_whole_and_as_often_as_wanted(opened):
    _, descriptor = opened
    before = os.fstat(descriptor)
    for _ in range(2):
        data, after, same = read_once(descriptor, before)
        assert (data, same) == (b"0123456789", True) and after.st_ino == before.st_ino


@pytest.mark.parametrize("changed", [b"9876543210", b"0123456789and more", b"01234"])
def test_what_is_changed_under_our_eyes_is_not_called_the_same(opened, monkeypatch, changed):
    path, descriptor = opened
    os.utime(path, ns=(1, 1))
    before = os.fstat(descriptor)
    change_while_reading(monkeypatch, lambda: path.write_bytes(changed))
    data, after, same = read_once(descriptor, before)
    assert not same and len(data) <= 11 and after.st_size == len(changed)


def test_what_grew_before_it_was_read_is_not_called_the_same(opened):
    path, descriptor = opened
    before = os.fstat(descriptor)
    path.write_bytes(b"0123456789" * 1000)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    data, _, same = read_once(descriptor, before)
    assert not same and len(data) == 11  # no more than it takes to know


def test_bytes_that_come_in_small_pieces_are_all_taken(opened, monkeypatch):
    _, descriptor = opened
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda number, wanted, offset: real(number, min(3, wanted), offset))
    assert read_once(descriptor, os.fstat(descriptor))[::2] == (b"0123456789", True)
