"""A hidden file, or a checkpoint, that cannot be read: nothing is passed over in silence."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from safekept.actions.projects.hidden import record
from safekept.actions.projects.hidden import rollback as hidden_rollback
from safekept.actions.projects.rollback import checkpoint_store
from safekept.checkpoints.checkpoint import CheckpointDamaged
from safekept.checkpoints.points import find_checkpoint
from safekept.checkpoints.rollback.proving import UndoPointFailed
from support.projects.hidden_halves import HiddenWorld

Broken = Callable[[str], bool]


@contextmanager
def no_opening(broken: Broken, times: int = -1) -> Iterator[None]:
    """What these paths name cannot be opened; only the first so many times."""
    real, left = os.open, times

    def opened(path: str | bytes, *arguments: int, **more: int) -> int:
        nonlocal left
        if left and broken(os.fsdecode(path)):
            left -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path, *arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", opened)
        yield


def called(name: str) -> Broken:
    return lambda path: os.path.basename(path) == name


def is_ref(path: str) -> bool:
    return "/refs/safekept/" in path


def taken(world: HiddenWorld) -> str:
    point = world.take().taken.checkpoint
    assert point is not None
    return point.id


@pytest.mark.parametrize("what", ["new.txt", "new"])
def test_a_new_hidden_file_that_cannot_be_read_stays_and_is_named(world: HiddenWorld, what: str) -> None:
    point = taken(world)
    world.put("data/new/one.txt" if what == "new" else "data/new.txt", "made since\n")
    world.put(".env", "ruined\n")
    with no_opening(called(what)):
        done = world.rollback(point)
        assert not done.complete and (f"data/{what}", "could not be read") in done.stays
    assert os.path.exists(world.path(f"data/{what}")) and b"ruined" not in world.read(".env")
    assert world.rollback(point).complete, "the same command again goes on"
    assert not os.path.exists(world.path(f"data/{what}"))


def test_what_could_be_read_at_neither_time_is_no_change(world: HiddenWorld) -> None:
    world.put("data/sealed.txt", "always\n")
    with no_opening(called("sealed.txt")):
        point = taken(world)
        world.put(".env", "ruined\n")
        assert world.rollback(point).complete


@contextmanager
def unread_after_the_rollback(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """The hidden half as a rollback leaves it is kept without this one."""
    keep = record.keep_look

    def keeping(*arguments: object, **more: object) -> object:
        with no_opening(called(name)):
            return keep(*arguments, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(record, "keep_look", keeping)
        yield


@pytest.mark.parametrize("name", [".env", "notes"])
def test_an_undo_reads_again_what_could_not_be_read_after_the_rollback(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    point = taken(world)
    world.put(".env", "second\n")
    os.unlink(world.path("data/notes/one.txt"))
    os.rmdir(world.path("data/notes"))
    with unread_after_the_rollback(monkeypatch, name):
        assert world.rollback(point).complete
    assert world.undo().complete
    assert world.read(".env") == b"second\n" and not os.path.exists(world.path("data/notes"))


@pytest.mark.needs("times", "what was written within a second is told apart")
def test_an_undo_never_calls_changed_since_what_it_could_not_read(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = taken(world)
    world.put(".env", "second\n")
    with unread_after_the_rollback(monkeypatch, ".env"):
        assert world.rollback(point).complete
    first = world.read(".env")
    with no_opening(called(".env")):
        done = world.undo()
    assert not done.complete and ".env" in dict(done.stays)
    assert world.read(".env") == first
    assert world.undo().complete and world.read(".env") == b"second\n"


def test_a_part_of_python_that_does_not_load_shuts_only_the_hidden_half(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = taken(world)
    world.put("a.txt", "ruined\n")
    world.put(".env", "ruined\n")

    def broken(*arguments: object, **more: object) -> None:
        raise ImportError("libsqlite3.so.0: cannot read file data")

    with monkeypatch.context() as patch:
        patch.setattr(hidden_rollback, "keep_hidden", broken)
        done = world.rollback(point)
    assert not done.complete and "libsqlite3" in dict(done.stays)[".env"]
    assert (world.read("a.txt"), world.read(".env")) == (b"visible\n", b"ruined\n")
    assert world.rollback(point).complete and b"ruined" not in world.read(".env")


def test_a_checkpoint_that_cannot_be_read_stops_the_rollback_before_anything_is_changed(
    world: HiddenWorld,
) -> None:
    point = taken(world)
    world.put("a.txt", "ruined\n")
    with no_opening(is_ref, times=1), pytest.raises(UndoPointFailed, match="cannot be read"):
        world.rollback(point)
    assert world.read("a.txt") == b"ruined\n"
    assert world.rollback(point).complete and world.read("a.txt") == b"visible\n"


def test_a_number_means_no_other_checkpoint_where_one_cannot_be_read(world: HiddenWorld) -> None:
    taken(world)
    world.put("a.txt", "second\n")
    newest = taken(world)
    world.put("a.txt", "third\n")
    with checkpoint_store(world.context) as store:
        assert find_checkpoint(store, world.project, "1", None).project == world.project
        with no_opening(called(newest)), pytest.raises(CheckpointDamaged, match="cannot be counted"):
            find_checkpoint(store, world.project, "1", None)
