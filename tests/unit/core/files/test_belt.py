"""A closed store is not emptied by the commands that empty a home, and no writer ever finds it closed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest

from conftest import missing_part
from safekept.core.files.belt import Belt, change_named
from support.users.unprivileged import NOBODY, as_nobody, nobodys  # noqa: F401 - a fixture

INSIDE = ("data", "data/*", "notes")
MARK = "notes/belt"


def belt_of(root: str, wanted: bool | None = True) -> Belt:
    return Belt(root, INSIDE, MARK, wanted)


def put(belt: Belt, name: str, content: str = "kept") -> None:
    """One write, as a store does it."""
    path = os.path.join(belt.root, name)
    belt.open(os.path.dirname(path))
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with open(path, "w") as file:
        file.write(content)


def closed_store(place: str) -> str:
    root = os.path.join(place, "store")
    os.makedirs(os.path.join(root, "data"), 0o700)
    os.mkdir(os.path.join(root, "open"), 0o700)  # as the locks of a vault
    belt = belt_of(root)
    for name in ("top", "data/aa/first", "data/bb/second", "notes/third"):
        put(belt, name)
    belt.let_go()
    return root


def all_closed(root: str) -> bool:
    """Every directory but the one that stays open."""
    places = [parent for parent, _, _ in os.walk(root) if os.path.basename(parent) != "open"]
    return belt_of(root).holds() and not any(os.stat(place).st_mode & 0o200 for place in places)


def tree(root: str) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(parent, name), root)
        for parent, _, names in os.walk(root)
        for name in names
    )


EVERYTHING = ["data/aa/first", "data/bb/second", "notes/belt", "notes/third", "top"]
TRIES = {
    "rm": ["rm", "-rf"],
    "find": ["sh", "-c", 'find "$1" -delete', "sh"],
    "rmtree": [],  # Python's own
    "git clean": ["sh", "-c", 'git init -q "$1/.." && git -C "$1/.." clean -fdxq', "sh"],
    "overwrite": ["sh", "-c", 'mv "$1/top" "$1/data/aa/top" || : ; rm -f "$1/top" "$1/data/aa/first"', "sh"],
}


def attempt(name: str, root: str) -> None:
    if name == "rmtree":
        shutil.rmtree(root, ignore_errors=True)
        return
    environment = {**os.environ, "HOME": os.path.dirname(root), "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run([*TRIES[name], root], env=environment, capture_output=True, timeout=60)


@pytest.mark.parametrize("name", TRIES)
@pytest.mark.needs("owners", "it gives files to another user")
@pytest.mark.needs("proc or programs", "what cannot be told to be on a disk is not closed")
def test_what_empties_a_home_leaves_a_closed_store(name: str, nobodys: str) -> None:  # noqa: F811
    def work() -> tuple[list[str], list[str]]:
        root = closed_store(nobodys)
        before = tree(root)
        attempt(name, root)
        return before, tree(root)

    before, after = as_nobody(work)
    assert before == EVERYTHING
    assert after == EVERYTHING


@pytest.mark.parametrize("name", TRIES)
@pytest.mark.needs("owners", "it gives files to another user")
def test_the_same_commands_harm_a_store_without_a_belt(name: str, nobodys: str) -> None:  # noqa: F811
    def work() -> list[str]:
        root = closed_store(nobodys)
        belt_of(root).take_off()
        attempt(name, root)
        return tree(root)

    assert "data/aa/first" not in as_nobody(work)


@pytest.mark.needs("owners", "it gives files to another user")
@pytest.mark.needs("proc or programs", "what cannot be told to be on a disk is not closed")
def test_a_closed_store_says_so_by_trying(nobodys: str) -> None:  # noqa: F811
    def work() -> list[object]:
        root = closed_store(nobodys)
        seen: list[object] = [belt_of(root).holds()]
        os.chmod(root, 0o700)
        seen.append(belt_of(root).holds())
        return [*seen, tree(root)]

    assert as_nobody(work) == [True, False, EVERYTHING]


@pytest.mark.needs("owners", "it gives files to another user")
@pytest.mark.needs("proc or programs", "what cannot be told to be on a disk is not closed")
def test_the_last_of_two_writers_closes(nobodys: str) -> None:  # noqa: F811
    def work() -> list[object]:
        root = closed_store(nobodys)
        one, other = belt_of(root), belt_of(root)
        put(one, "data/aa/one")
        put(other, "data/cc/other")
        one.let_go()
        seen: list[object] = [one.holds()]
        put(other, "data/bb/later")  # what the other opened is still open
        other.let_go()
        return [*seen, all_closed(root), tree(root)]

    first, last, found = as_nobody(work)
    assert (first, last) == (False, True)
    assert found == sorted([*EVERYTHING, "data/aa/one", "data/cc/other", "data/bb/later"])


@pytest.mark.needs("owners", "it gives files to another user")
@pytest.mark.needs("proc or programs", "what cannot be told to be on a disk is not closed")
def test_what_a_killed_writer_left_open_is_closed_by_whoever_comes_next(nobodys: str) -> None:  # noqa: F811
    def work() -> list[object]:
        root = closed_store(nobodys)
        child = os.fork()
        if child == 0:
            put(belt_of(root), "data/aa/killed")
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        seen: list[object] = [belt_of(root).holds()]
        belt_of(root).let_go()  # of a command that only read
        return [*seen, all_closed(root)]

    assert as_nobody(work) == [False, True]


@pytest.mark.needs("owners", "it gives files to another user")
def test_what_a_person_opened_stays_open_until_a_person_closes_it(nobodys: str) -> None:  # noqa: F811
    def work() -> list[object]:
        root = closed_store(nobodys)
        belt_of(root).lift()
        seen: list[object] = [belt_of(root).state]
        os.unlink(os.path.join(root, "data", "bb", "second"))  # as `restic prune` would
        other = belt_of(root)
        put(other, "data/aa/meanwhile")
        other.let_go()
        seen += [belt_of(root).holds(), belt_of(root).fasten(), belt_of(root).state]
        return seen

    assert as_nobody(work) == ["open", False, True, "on"]


@pytest.mark.needs("owners", "it gives files to another user")
def test_a_belt_that_is_not_wanted_is_taken_off_by_the_next_write(nobodys: str) -> None:  # noqa: F811
    def work() -> list[object]:
        root = closed_store(nobodys)
        belt = belt_of(root, wanted=False)
        put(belt, "data/aa/more")
        belt.let_go()
        shutil.rmtree(root)
        return [belt.state, os.path.exists(root)]

    assert as_nobody(work) == ["off", False]


@pytest.mark.needs("owners", "it gives files to another user")
def test_without_a_belt_a_writer_puts_none_on(nobodys: str) -> None:  # noqa: F811
    def work() -> list[object]:
        root = os.path.join(nobodys, "store")
        os.mkdir(root, 0o700)
        for wanted in (None, False):
            belt = belt_of(root, wanted)
            put(belt, f"data/aa/{wanted}")
            belt.let_go()
        return [belt.state, tree(root)]

    assert as_nobody(work) == ["off", ["data/aa/False", "data/aa/None"]]


@pytest.mark.needs("owners", "it gives files to another user")
def test_a_store_that_others_write_too_gets_none(nobodys: str) -> None:  # noqa: F811
    def work() -> list[object]:
        root = os.path.join(nobodys, "store")
        os.mkdir(root, 0o700)
        os.chmod(root, 0o770)
        belt = belt_of(root)
        put(belt, "top")
        belt.let_go()
        return [belt.possible(), belt.state, belt.holds()]

    assert as_nobody(work) == [False, "off", False]


@pytest.mark.needs("owners", "it gives files to another user")
@pytest.mark.needs("proc or programs", "what cannot be told to be on a disk is not closed")
def test_a_directory_that_is_no_part_of_it_is_left_as_it_is(nobodys: str) -> None:  # noqa: F811
    def work() -> list[object]:
        root = closed_store(nobodys)
        belt = belt_of(root)
        put(belt, "open/lock")  # as the sweeping of a vault's locks does
        put(belt, "data/dd/new")
        belt.let_go()
        return [all_closed(root), os.stat(os.path.join(root, "open")).st_mode & 0o777]

    assert as_nobody(work) == [True, 0o700]


@pytest.mark.needs("owners", "it gives files to another user")
@pytest.mark.needs("proc or programs", "what cannot be told to be on a disk is not closed")
def test_what_could_not_be_closed_is_closed_by_the_next_command(nobodys: str) -> None:  # noqa: F811
    """A closed root says that everything is. No disk fails one change on request: that is replaced."""

    def work() -> list[object]:
        root, change = closed_store(nobodys), os.fchmod

        def failing(descriptor: int, mode: int) -> None:
            if os.readlink(f"/proc/self/fd/{descriptor}").endswith("data/aa") and not mode & 0o200:
                raise OSError(errno.EIO, "Input/output error")
            change(descriptor, mode)

        os.fchmod = failing
        belt = belt_of(root)
        put(belt, "data/aa/more")
        belt.let_go()
        found: list[object] = [belt.holds()]
        os.fchmod = change
        belt_of(root, None).let_go()  # as a command does that only reads
        return [*found, all_closed(root)]

    assert as_nobody(work) == [False, True]


@pytest.mark.needs("owners", "it gives files to another user")
def test_two_writers_leave_no_trace_on_a_store_without_a_belt(nobodys: str) -> None:  # noqa: F811
    def work() -> list[object]:
        root = os.path.join(nobodys, "store")
        os.mkdir(root, 0o700)
        one, other = belt_of(root, None), belt_of(root, None)
        put(one, "data/aa/one")
        put(other, "data/aa/other")
        one.let_go()
        other.let_go()
        return [os.stat(root).st_mode & 0o7777, tree(root)]

    assert as_nobody(work) == [0o700, ["data/aa/one", "data/aa/other"]]


@pytest.mark.needs("owners", "it gives files to another user")
@pytest.mark.needs("proc or programs", "what cannot be told to be on a disk is not closed")
def test_a_writer_beside_a_killed_one_closes_what_that_one_opened(nobodys: str) -> None:  # noqa: F811
    def work() -> list[object]:
        root = closed_store(nobodys)
        one, other = belt_of(root), belt_of(root)
        put(one, "data/aa/one")
        put(other, "data/bb/other")
        os.close(one._lock)  # as the kernel does for a process that is gone
        one._lock = -1
        other.let_go()
        return [all_closed(root), os.stat(root).st_mode & 0o1200]

    assert as_nobody(work) == [True, 0]


@pytest.mark.needs("owners", "it gives files to another user")
@pytest.mark.needs("proc or programs", "what cannot be told to be on a disk is not closed")
def test_many_writers_at_once_are_never_refused_and_leave_it_closed(nobodys: str) -> None:  # noqa: F811
    def writer(root: str, number: int) -> None:
        for turn in range(40):
            belt = belt_of(root)
            put(belt, f"data/{turn % 3}/{number}-{turn}")
            put(belt, f"notes/{number}-{turn}")
            os.unlink(os.path.join(root, f"notes/{number}-{turn}"))
            belt.let_go()

    def work() -> list[object]:
        root, children = closed_store(nobodys), []
        for number in range(4):
            child = os.fork()
            if child == 0:
                status = 1
                with contextlib.suppress(OSError):
                    writer(root, number)
                    status = 0
                os._exit(status)
            children.append(child)
        ends = [os.waitpid(child, 0)[1] for child in children]
        return [ends, len(tree(root)), all_closed(root)]

    assert as_nobody(work) == [[0, 0, 0, 0], len(EVERYTHING) + 160, True]


# Root


@pytest.fixture
def roots(tmp_path: object) -> Iterator[str]:
    """A closed store of root's, opened in the end: nothing else could remove it."""
    if os.geteuid() != 0:
        missing_part("only root can set the attribute")
    root = closed_store(str(tmp_path))
    yield root
    belt_of(root).take_off()


def attributes_hold(root: str) -> bool:
    shown = subprocess.run(["lsattr", "-d", root], capture_output=True, text=True, timeout=30)
    return "i" in shown.stdout.split(" ")[0]


@pytest.mark.parametrize("name", TRIES)
def test_root_cannot_empty_it_either_where_the_attribute_can_be_set(name: str, roots: str) -> None:
    if not attributes_hold(roots):
        assert not belt_of(roots).holds(), "what was not closed must not be said to be"
        pytest.skip("this filesystem or this container has no such attribute")
    assert belt_of(roots).holds()
    attempt(name, roots)
    assert tree(roots) == EVERYTHING


def test_root_writes_through_its_own_belt(roots: str) -> None:
    belt = belt_of(roots)
    put(belt, "data/aa/more")
    belt.let_go()
    assert "data/aa/more" in tree(roots)
    assert belt.holds() is attributes_hold(roots)


@pytest.mark.needs("owners", "it gives files to another user")
def test_root_closes_nothing_of_somebody_else(roots: str) -> None:
    other = os.path.join(roots, "data", "theirs")
    belt = belt_of(roots)
    belt.open(os.path.join(roots, "data"))
    os.mkdir(other, 0o700)
    os.chown(other, NOBODY, NOBODY)
    belt.let_go()
    assert os.stat(other).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("later", [False, True], ids=["nothing more is written", "more is written"])
def test_what_was_written_while_the_root_could_not_be_opened_is_closed_too(tmp_path, monkeypatch, later):
    """As root on a disk without the immutable attribute, whom a closed directory does not keep out."""
    root = closed_store(str(tmp_path))
    belt = belt_of(root, None)
    with monkeypatch.context() as broken:
        broken.setattr("safekept.core.files.belt._shared", lambda root: -1)
        belt.open(os.path.join(root, "data", "cc"))
    change_named(os.path.join(root, "data"), writable=True)
    os.mkdir(os.path.join(root, "data", "cc"), 0o700)
    change_named(os.path.join(root, "data"), writable=False)
    if later:
        put(belt, "data/aa/fourth")
    belt.let_go()
    assert all_closed(root)
