"""Plain files that vanish, grow, shrink or are rewritten while they are read."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from safekept.core.entries import CHUNK, ZEROS, EntryLost, Outcome
from safekept.home.scan import content as module
from safekept.home.scan.content import WHOLE, open_plain
from support.home.scanned import look, plant, read


def opened(home: str, name: str = "f") -> Any:
    return open_plain(home + "/", name, name, os.lstat(f"{home}/{name}").st_ino)


def after_read(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """Let something happen right after each read of a file."""
    real, count = os.pread, [0]

    def reading(descriptor: int, length: int, offset: int) -> bytes:
        data = real(descriptor, length, offset)
        count[0] += 1
        act(count[0])
        return data

    monkeypatch.setattr(module.os, "pread", reading)


def write(path: str, data: bytes, flags: int = os.O_WRONLY | os.O_TRUNC) -> None:
    descriptor = os.open(path, flags)
    os.write(descriptor, data)
    os.close(descriptor)


def settle(home: str, name: str = "f") -> None:
    os.utime(f"{home}/{name}", ns=(1, 1_700_000_000_000_000_000))


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, WHOLE, WHOLE + 1, WHOLE + CHUNK])
def test_every_size_comes_back_in_pieces_of_at_most_one_chunk(tmp_path: object, size: int) -> None:
    data = os.urandom(1000) * (size // 1000) + os.urandom(size % 1000)
    home = plant(tmp_path, {"f": data})
    with opened(home) as content:
        pieces = list(content.chunks())
        assert content.size == size
        assert content.mtime_ns == os.stat(f"{home}/f").st_mtime_ns
        assert content.remarks == []
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= CHUNK for piece in pieces)


def test_a_vanished_file_is_gone_and_not_an_error(tmp_path: object) -> None:
    home = plant(tmp_path, {"a/f": "x"})
    entries = [entry for entry in look(home) if entry.path == "a/f"]
    os.unlink(f"{home}/a/f")
    data, said = read(entries[0])
    assert data is None
    assert (said[0].outcome, said[0].reason) == (Outcome.GONE, "vanished between the scan and the read")
    assert not said[0].incomplete


def test_a_file_replaced_by_renaming_is_read_as_it_is_now(tmp_path: object) -> None:
    home = plant(tmp_path, {"d/f": "old"})
    (entry,) = [entry for entry in look(home) if entry.path == "d/f"]
    plant(home, {"d/f.new": "new content"})
    os.rename(f"{home}/d/f.new", f"{home}/d/f")
    assert read(entry) == (b"new content", [])


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_file_replaced_by_a_link_a_pipe_or_a_directory_is_gone(tmp_path: object) -> None:
    home = plant(tmp_path, {"link": "x", "pipe": "x", "directory": "x", "target": "theirs"})
    entries = {entry.path: entry for entry in look(home)}
    for name in ("link", "pipe", "directory"):
        os.unlink(f"{home}/{name}")
    os.symlink("target", f"{home}/link")
    os.mkfifo(f"{home}/pipe")  # opening it must not wait for a writer
    os.mkdir(f"{home}/directory")
    for name in ("link", "pipe", "directory"):
        data, said = read(entries[name])
        assert data is None
        assert said[0].outcome is Outcome.GONE, name


def test_a_small_file_changed_while_read_is_read_again(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = plant(tmp_path, {"f": b"old state"})
    settle(home)
    after_read(monkeypatch, lambda count: write(f"{home}/f", b"new state!") if count == 1 else None)
    with opened(home) as content:
        assert b"".join(content.chunks()) == b"new state!"
        assert content.remarks == []


def test_a_log_that_only_grows_is_stored_quietly(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    home = plant(tmp_path, {"f": b"one\n"})
    settle(home)
    after_read(monkeypatch, lambda count: write(f"{home}/f", b"more\n", os.O_WRONLY | os.O_APPEND))
    with opened(home) as content:
        data = b"".join(content.chunks())
        assert data.startswith(b"one\n")
        assert len(data) == content.size
        assert content.remarks == []


def test_a_small_file_rewritten_every_time_is_stored_and_marked(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = plant(tmp_path, {"f": b"0" * 100})
    settle(home)
    after_read(monkeypatch, lambda count: write(f"{home}/f", bytes([65 + count % 20]) * 100))
    with opened(home) as content:
        assert len(b"".join(content.chunks())) == 100
        (remark,) = content.remarks
    assert remark.outcome is Outcome.CHANGED
    assert "rewritten each of the 3 times" in remark.reason
    assert remark.incomplete


def test_two_writes_within_one_tick_of_the_clock_are_noticed(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = plant(tmp_path, {"f": b"first "})
    now = os.stat(f"{home}/f").st_mtime_ns

    def act(count: int) -> None:
        if count == 1:
            write(f"{home}/f", b"second")
            os.utime(f"{home}/f", ns=(now, now))

    after_read(monkeypatch, act)
    monkeypatch.setattr(module.time, "time_ns", lambda: now + 1)
    with opened(home) as content:
        assert b"".join(content.chunks()) == b"second"


def test_a_large_file_that_shrinks_is_lost_and_not_padded(tmp_path: object) -> None:
    home = plant(tmp_path, {"f": os.urandom(WHOLE + 2 * CHUNK)})
    with opened(home) as content:
        chunks = content.chunks()
        next(chunks)
        os.truncate(f"{home}/f", CHUNK)
        with pytest.raises(EntryLost) as caught:
            list(chunks)
    assert caught.value.remark.outcome is Outcome.CHANGED
    assert caught.value.remark.reason == (
        f"became shorter while it was read ({CHUNK} of {WHOLE + 2 * CHUNK} bytes came)"
    )


def test_a_large_file_that_grows_is_stored_as_first_seen(tmp_path: object) -> None:
    data = os.urandom(WHOLE + CHUNK)
    home = plant(tmp_path, {"f": data})
    with opened(home) as content:
        chunks = content.chunks()
        taken = next(chunks)
        write(f"{home}/f", b"tail", os.O_WRONLY | os.O_APPEND)
        taken += b"".join(chunks)
        assert taken == data
        assert content.remarks == []


def test_a_large_file_rewritten_in_place_is_marked(tmp_path: object) -> None:
    home = plant(tmp_path, {"f": os.urandom(WHOLE + CHUNK)})
    settle(home)
    with opened(home) as content:
        chunks = content.chunks()
        next(chunks)
        write(f"{home}/f", b"changed", os.O_WRONLY)
        list(chunks)
        (remark,) = content.remarks
    assert remark.outcome is Outcome.CHANGED
    assert "rewritten while it was read" in remark.reason


@pytest.mark.needs("holes", "it makes a file of holes")
def test_a_huge_sparse_file_has_its_honest_size(tmp_path: object) -> None:
    home = plant(tmp_path, {"f": b""})
    os.truncate(f"{home}/f", 3 << 40)
    (entry,) = list(look(home))
    assert entry.size == 3 << 40
    with entry.open() as content:
        assert content.size == 3 << 40
        assert next(content.chunks()) == b"\0" * CHUNK


def test_contents_can_be_closed_early_and_twice(tmp_path: object) -> None:
    home = plant(tmp_path, {"f": os.urandom(WHOLE + 1)})
    gc.collect()  # what earlier tests left may not go in the middle of this one
    before = len(os.listdir("/proc/self/fd"))
    content = opened(home)
    next(content.chunks())
    content.close()
    content.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_reading_beside_writers_and_deleters_gives_whole_files(tmp_path: object) -> None:
    """Files replaced by renaming, appended to and deleted all the time: never torn, never an error."""
    home = plant(tmp_path, {f"d/{number}": b"A" * 5000 for number in range(20)} | {"log": b"line\n"})
    stop = threading.Event()

    def disturb() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            name = f"{home}/d/{turn % 20}"
            plant(home, {"new": bytes([65 + turn % 26]) * 5000})
            os.rename(f"{home}/new", name)
            if turn % 7 == 0:
                os.unlink(name)
            write(f"{home}/log", b"line\n", os.O_WRONLY | os.O_APPEND)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(30):
            for entry in look(home):
                if entry.kind == "file":
                    data, said = read(entry)
                    assert [remark.outcome for remark in said] in ([], [Outcome.GONE])
                    if data is not None and entry.path.startswith("d/"):
                        assert len(set(data)) <= 1
                        assert len(data) == 5000
                    if data is not None and entry.path == "log":
                        assert data == b"line\n" * (len(data) // 5)
    finally:
        stop.set()
        thread.join()


def sparse(home: str, size: int, *parts: tuple[int, bytes]) -> bytes:
    """A file of holes with something here and there; returns what must come."""
    whole = bytearray(size)
    with open(f"{home}/f", "r+b") as file:
        file.truncate(size)
        for offset, data in parts:
            file.seek(offset)
            file.write(data)
            whole[offset : offset + len(data)] = data
    settle(home)
    return bytes(whole)


@pytest.mark.parametrize(
    "parts",
    [
        (),
        ((0, b"front"),),
        ((3 * CHUNK + 5, b"middle"),),
        ((5 * CHUNK - 2, b"across"), (9 * CHUNK, b"x" * CHUNK)),
        ((12 * CHUNK + 3, b"end"),),
    ],
)
@pytest.mark.needs("seek_data", "it counts what is read of holes")
@pytest.mark.needs("holes", "it makes a file of holes")
def test_holes_are_zeros_and_cost_no_reading(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, parts: tuple[tuple[int, bytes], ...]
) -> None:
    home = plant(tmp_path, {"f": b""})
    whole = sparse(home, 12 * CHUNK + 6, *parts)
    came, real = [0], os.pread

    def reading(descriptor: int, length: int, offset: int) -> bytes:
        data = real(descriptor, length, offset)
        came[0] += len(data)
        return data

    with opened(home) as content:
        monkeypatch.setattr(module.os, "pread", reading)
        chunks = list(content.chunks())
    assert b"".join(chunks) == whole
    assert content.remarks == []
    assert came[0] <= 4 * CHUNK
    assert sum(chunk is ZEROS for chunk in chunks) >= 8


def test_a_filesystem_that_does_not_tell_its_holes_is_read_whole(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = plant(tmp_path, {"f": b""})
    whole = sparse(home, 10 * CHUNK, (CHUNK, b"x"))

    def refuse(descriptor: int, position: int, how: int) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(module.os, "lseek", refuse)
    with opened(home) as content:
        assert b"".join(content.chunks()) == whole


def test_a_sparse_file_that_shrinks_is_lost_and_not_padded(tmp_path: object) -> None:
    home = plant(tmp_path, {"f": b""})
    sparse(home, 20 * CHUNK, (CHUNK, b"x"))
    with opened(home) as content:
        chunks = content.chunks()
        next(chunks)
        os.truncate(f"{home}/f", 10 * CHUNK)
        with pytest.raises(EntryLost) as lost:
            list(chunks)
    assert lost.value.remark.outcome is Outcome.CHANGED
    assert "became shorter" in lost.value.remark.reason


@pytest.mark.needs("holes", "it makes a file of holes")
def test_a_huge_file_of_holes_is_worth_a_line(tmp_path: object) -> None:
    home = plant(tmp_path, {"f": b""})
    sparse(home, CHUNK, (0, b"x"))
    os.truncate(f"{home}/f", 11 * 10**9)
    with opened(home) as content:
        (remark,) = content.remarks
    assert remark.outcome is Outcome.NOTED
    assert remark.reason.startswith("is 11 GB long and takes ")
    assert remark.bytes == 11 * 10**9
