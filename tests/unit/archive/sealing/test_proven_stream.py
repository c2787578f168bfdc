"""Streams that are authenticated at their end: nothing is given before the verdict, or against it."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from safekept.archive.container.handle import open_handle
from safekept.archive.errors import ArchiveDamaged, ArchiveTooLarge, too_large
from safekept.archive.sealing import proven_stream
from safekept.archive.sealing.proven_stream import SEGMENT, ProvenHandle, StreamProof, prove_stream

DATA = os.urandom(40 * SEGMENT + 12_345)


class Stream:
    """A run over some bytes, with a verdict at the end."""

    def __init__(self, data, verdict=None):
        self.data, self.at, self.verdict, self.closed, self.verified = data, 0, verdict, False, False

    def read(self, size):
        assert not self.closed
        piece = self.data[self.at : self.at + size]
        self.at += len(piece)
        return piece

    def verify(self):
        self.verified = True
        if self.verdict is not None:
            raise self.verdict

    def close(self):
        self.closed = True


@pytest.fixture
def inner(tmp_path):
    (tmp_path / "sealed").write_bytes(b"sealed bytes")
    handle = open_handle(str(tmp_path / "sealed"))
    yield handle
    handle.close()


def proven(data=DATA):
    return prove_stream(Stream(data), lambda size: None)


def handle_of(inner, proof, data=DATA):
    runs = []

    def run():
        runs.append(Stream(data))
        return runs[-1]

    return ProvenHandle(inner, proof, run), runs


@pytest.mark.parametrize("size", [0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 20 * SEGMENT, len(DATA)])
def test_every_place_gives_the_right_bytes_in_any_order(size, inner):
    data = DATA[:size]
    handle, _ = handle_of(inner, proven(data), data)
    assert handle.size == size
    numbers = random.Random(size)
    for _ in range(25):
        start, length = numbers.randrange(size + 1), numbers.choice([1, 5000, SEGMENT, 3 * SEGMENT])
        assert handle.some(start, length) == data[start : start + length]
    handle.close()


def test_reading_from_front_to_back_costs_one_run_with_several_threads_at_work(inner):
    handle, runs = handle_of(inner, proven())
    starts = range(0, len(DATA) - SEGMENT, SEGMENT // 2)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda start: handle.read(start, SEGMENT), starts))
    assert found == [DATA[start : start + SEGMENT] for start in starts]
    assert len(runs) == 1
    handle.close()
    assert runs[0].closed


def test_the_lists_at_the_end_and_the_first_bytes_cost_no_run(inner):
    handle, runs = handle_of(inner, proven())
    assert handle.read(len(DATA) - 15 * SEGMENT, SEGMENT) == DATA[len(DATA) - 15 * SEGMENT :][:SEGMENT]
    assert handle.read(0, 4) == DATA[:4]
    assert runs == []
    handle.close()


def test_a_bad_verdict_releases_nothing():
    stream = Stream(DATA[: 2 * SEGMENT], ArchiveDamaged("no", kept="", next_steps=()))
    with pytest.raises(ArchiveDamaged):
        prove_stream(stream, lambda size: None)
    assert stream.closed


def test_a_bomb_is_stopped_while_it_unpacks():
    def check(size):
        if size > 3 * SEGMENT:
            raise too_large("x", "unpacks to too much")

    stream = Stream(DATA)
    with pytest.raises(ArchiveTooLarge):
        prove_stream(stream, check)
    assert stream.at <= 4 * SEGMENT
    assert stream.closed


@pytest.mark.parametrize("place", [0, 5 * SEGMENT + 7, 20 * SEGMENT])
def test_a_later_run_that_differs_by_one_bit_gives_nothing_of_that_part(place, inner):
    changed = bytearray(DATA)
    changed[place] ^= 1
    handle, _ = handle_of(inner, proven(), bytes(changed))
    with pytest.raises(ArchiveDamaged, match="it changed while it was being read"):
        handle.read(place // SEGMENT * SEGMENT, SEGMENT)
    handle.close()


@pytest.mark.parametrize("reads", [0, 3])
def test_the_last_word_is_heard_also_where_nothing_or_little_was_read(reads, inner):
    handle, runs = handle_of(inner, proven())
    for number in range(reads):
        handle.read(number * SEGMENT + 70_000, SEGMENT)
    handle.settle()
    assert [run.verified for run in runs] == [True]
    assert runs[0].at == len(DATA)
    handle.close()


@pytest.mark.parametrize("change", ["shorter", "longer", "other end"])
def test_the_last_word_is_not_heard_for_another_stream(change, inner):
    data = {"shorter": DATA[:-1], "longer": DATA + b"x", "other end": DATA[:-1] + bytes([DATA[-1] ^ 1])}[
        change
    ]
    handle, _ = handle_of(inner, proven(), data)
    with pytest.raises(ArchiveDamaged):
        handle.settle()
    handle.close()


def test_what_is_remembered_does_not_grow_with_the_stream():
    proof = StreamProof()
    for start in range(0, len(DATA), 3 * SEGMENT // 2):
        proof.add(DATA[start : start + 3 * SEGMENT // 2])
    proof.end()
    assert proof.size == len(DATA)
    assert len(proof.tail) <= proven_stream._TAIL + 2 * SEGMENT
    assert proof.tail == DATA[-len(proof.tail) :]
    assert len(proof.head) == 64 << 10
    assert proof.digests == proven().digests
    assert threading.active_count() < 50
