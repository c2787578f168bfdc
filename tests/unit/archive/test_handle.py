"""Reads of an archive give the bytes that are there, however they are asked for."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from safekept.archive.container.handle import open_handle
from safekept.archive.errors import ArchiveDamaged, ArchiveNotFound
from safekept.core.next_step import NextStep


@pytest.fixture
def stored(tmp_path):
    data = random.Random(7).randbytes(3 << 20)
    path = tmp_path / "archive"
    path.write_bytes(data)
    handle = open_handle(str(path))
    yield handle, data
    handle.close()


def in_order(data):
    """Small reads one after the other, with gaps and steps back: as members of an archive lie."""
    place, chance = 0, random.Random(8)
    while place < len(data):
        length = chance.choice([1, 30, 2000, 60_000, 64 << 10, 70_000])
        yield place, length
        place = max(0, place + length + chance.choice([-200, 0, 0, 16, 5000, 100_000]))


def test_reads_in_order_give_what_the_file_holds(stored):
    handle, data = stored
    for place, length in in_order(data):
        assert handle.some(place, length) == data[place : place + length]


def test_reads_at_random_from_several_threads_give_what_the_file_holds(stored):
    handle, data = stored

    def read(seed):
        chance = random.Random(seed)
        wanted = [(chance.randrange(len(data)), chance.randrange(1, 90_000)) for _ in range(500)]
        for place, length in [*wanted, *in_order(data)]:
            assert handle.some(place, length) == data[place : place + length]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))


def test_nothing_is_read_past_the_end(stored):
    handle, data = stored
    for place in (len(data) - 10, len(data) - 1):
        assert handle.some(place, 100) == data[place:]
        with pytest.raises(ArchiveDamaged, match="it ends too early"):
            handle.read(place, 100)
    assert handle.some(len(data), 1) == handle.some(-1, 1) == b""


def test_small_reads_that_follow_one_another_cost_few_calls(stored, monkeypatch):
    handle, data = stored
    calls = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *a: calls.append(a) or pread(*a))
    for place in range(0, 2 << 20, 2000):
        assert handle.some(place, 2000) == data[place : place + 2000]
    assert len(calls) < 20


@pytest.mark.parametrize("there", ["home.zip", "home.tar.zst.age", "home.tar.gz.gpg"])
def test_a_mistyped_name_is_answered_with_whatever_archive_lies_there(tmp_path, there):
    (tmp_path / there).write_bytes(b"an archive")
    (tmp_path / "home.xz").write_bytes(b"nothing that is read")
    with pytest.raises(ArchiveNotFound) as refused:
        open_handle(str(tmp_path / "home"))
    offered = [step.arguments for step in refused.value.next_steps if isinstance(step, NextStep)]
    assert (str(tmp_path / there),) in offered
    assert not any("home.xz" in word for words in offered for word in words)
