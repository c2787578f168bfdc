"""The hidden half under bad luck: whatever keeps it shut, the visible half goes on, and it is said."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from safekept.actions.projects.hidden import repository as hidden_repository
from safekept.actions.projects.hidden import rollback as hidden_rollback
from safekept.actions.projects.hidden.coverage import coverage
from safekept.actions.projects.hidden.record import kept_looks
from safekept.actions.projects.hidden.repository import open_hidden
from safekept.core.worker import Worker
from safekept.integrations.calls import Call
from safekept.integrations.places import Place
from safekept.integrations.protect import protect
from safekept.vault.care import check
from support.projects.hidden_halves import PASSWORD, HiddenWorld
from support.vault.closed import open_below


def ruin(world: HiddenWorld) -> None:
    world.put("a.txt", "ruined\n")
    world.put(".env", "ruined\n")


def visible_only(world: HiddenWorld, target: str) -> list[tuple[str, str]]:
    """Going back brings the visible half and names the rest; why it did not come."""
    done = world.rollback(target)
    assert world.read("a.txt") == b"visible\n"
    assert world.read(".env") == b"ruined\n" and not done.complete
    return list(done.stays)


def test_a_repository_that_somebody_else_holds_is_waited_for_a_moment_and_then_named(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = world.take().taken.checkpoint
    assert point is not None
    ruin(world)
    monkeypatch.setattr(hidden_rollback, "WAIT", 0.3)
    with open_hidden(world.context) as repository, repository.lock(exclusive=True):
        assert any("lock" in why or "use" in why for _, why in visible_only(world, point.id))
    assert world.rollback(point.id).complete, "the same command again goes on"
    assert PASSWORD.encode() in world.read(".env")


def test_a_call_waits_a_moment_for_who_holds_the_repository_and_its_visible_half_is_kept(
    world: HiddenWorld,
) -> None:
    world.take()
    ruin(world)
    place = Place.load(
        {"HOME": world.context.places.user_home, "PATH": os.environ["PATH"]}, later=lambda key, work: None
    )
    call = Call("before", "codex", "Bash", shell=True, directory=world.project, session="s", turn="1")
    with open_hidden(world.context) as repository, repository.lock(exclusive=True):
        began = time.monotonic()
        outcome = protect(call, place)
        waited = time.monotonic() - began
        assert outcome.checkpoints and not outcome.failures, outcome
        assert any("not kept in time" in one for one in outcome.not_kept), outcome
        assert waited < 10.0, "it waits for 150 ms, and never for the holder"
    world.put("a.txt", "later\n")
    assert visible_again(world, outcome.checkpoints[0]) == b"ruined\n"


def visible_again(world: HiddenWorld, point: str) -> bytes:
    world.rollback(point)
    return world.read("a.txt")


def test_behind_an_exclusive_lock_with_half_a_transaction_in_the_file_what_is_committed_is_kept(
    world: HiddenWorld,
) -> None:
    writer = sqlite3.connect(world.path("data/app.db"), isolation_level=None)
    try:
        writer.execute("pragma cache_size = 1")
        writer.execute("begin exclusive")
        size = os.path.getsize(world.path("data/app.db"))
        writer.executemany("insert into t values (?)", ((os.urandom(2000),) for _ in range(300)))
        assert os.path.getsize(world.path("data/app.db")) > size, "what is not committed is in the file"
        taken = world.take()
        assert taken.hidden_error is None and taken.hidden is not None and not taken.hidden.missing
        writer.execute("rollback")
    finally:
        writer.close()
    assert world.rows("data/app.db") == [1, 2, 3], "and nothing was done to it"
    os.unlink(world.path("data/app.db"))
    assert world.rollback("1").complete
    assert world.rows("data/app.db") == [1, 2, 3]


@pytest.mark.parametrize("how", ["gone", "far", "full"])
def test_where_it_cannot_be_made_the_visible_half_is_kept_and_it_is_said(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "gone":  # a vault was here, and somebody took it
        with hidden_repository.open_vault(world.context, create=True):
            pass
        shutil.rmtree(open_below(world.context.places.vault))
    elif how == "far":  # at an address behind which there is no place
        world.context = world.context.changed(vault=f"file:{world.path('a.txt')}/vault")
    else:
        monkeypatch.setattr(hidden_repository, "free_bytes", lambda place: 0)
    taken = world.take()
    assert taken.taken.checkpoint is not None and taken.hidden is None
    assert taken.hidden_error is not None and taken.hidden_error.what, taken
    ruin(world)
    visible_only(world, taken.taken.checkpoint.id)


def test_once_it_is_made_the_vault_may_be_gone(world: HiddenWorld) -> None:
    world.take()
    shutil.rmtree(open_below(world.context.places.vault))
    world.put(".env", "second\n")
    assert world.take().hidden_error is None
    ruin(world)
    assert world.rollback("1").complete
    assert world.read(".env") == b"second\n"


@pytest.mark.needs("proc or programs", "it asks who has a database open")
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_of_a_database_in_the_middle_of_a_transaction_what_is_committed_is_kept(
    world: HiddenWorld, journal: str
) -> None:
    world.rows("data/app.db", f"pragma journal_mode={journal}; insert into t values (4)")
    writer = sqlite3.connect(world.path("data/app.db"), isolation_level=None)
    try:
        writer.execute("begin immediate")
        writer.execute("insert into t values (5)")
        taken = world.take()
        assert taken.hidden_error is None and taken.hidden is not None
        writer.execute("rollback")
    finally:
        writer.close()
    world.rows("data/app.db", "delete from t")
    assert world.rollback("1").complete
    assert world.rows("data/app.db") == [1, 2, 3, 4]


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_sockets_pipes_and_devices_are_named_and_left(
    world: HiddenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(world.path("data/pipe"))
    monkeypatch.chdir(world.path("data"))  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as served:
        served.bind("socket")
        wanted = {"data/pipe", "data/socket"}
        if os.geteuid() == 0:
            os.mknod("device", 0o600 | 0o020000, os.makedev(1, 3))
            wanted.add("data/device")
        taken = world.take()
        assert taken.hidden is not None and taken.hidden_error is None
        left = {one.path for one in coverage(world.context, world.project, world.policy.take).left}
        assert wanted <= left
        os.unlink(world.path("data/notes/one.txt"))
        assert world.rollback("1").complete
        assert world.read("data/notes/one.txt") == b"one\n"
        assert wanted <= {f"data/{name}" for name in os.listdir(world.path("data"))}


def test_two_agents_at_once_lose_nothing_of_each_other(world: HiddenWorld) -> None:
    """Each changes a secret of its own between its calls; every point brings both back as they were."""
    first = world.take().taken.checkpoint
    assert first is not None
    home = {"HOME": world.context.places.user_home, "PATH": os.environ["PATH"]}
    begun = threading.Barrier(2)

    def work(name: str) -> None:
        place = Place.load(home, later=lambda key, work: work())
        begun.wait(60)
        for turn in range(3):
            world.put(f"keys/{name}.pem", f"{name} {turn}\n")
            told = {"directory": world.project, "session": name, "turn": str(turn)}
            outcome = protect(Call("before", name, "Bash", shell=True, **told), place)
            assert not outcome.failures, outcome

    workers = [Worker(lambda name=name: work(name), name) for name in ("claude-code", "codex")]  # type: ignore[misc]
    for worker in workers:
        assert worker.wait(120) and worker.error is None, worker.error
    last = world.take()
    assert last.hidden_error is None and last.taken.latest is not None
    with open_hidden(world.context) as repository:
        assert check(repository, read_data=1.0).damage == []
        for look in kept_looks(world.context, world.project).looks.values():
            assert not look.snapshot or repository.load_snapshot(look.snapshot)
    assert world.rollback(first.id, overwrite_mine=True).complete
    assert os.listdir(world.path("keys")) == ["server.pem"]
    world.undo()
    assert world.read("keys/codex.pem") == b"codex 2\n"
    assert world.read("keys/claude-code.pem") == b"claude-code 2\n"


_LOOK = """
import json, resource, sys
from support.projects.hidden_halves import HiddenWorld
world = HiddenWorld(sys.argv[1])
world.fill()
taken = world.take()
left = [(one.path, one.reason, one.files) for one in taken.taken.hidden.exposed]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"left": left, "files": taken.hidden.files, "peak": peak}))
"""


@pytest.mark.soak("hidden")
@pytest.mark.parametrize("folders", [1, 500])
def test_half_a_million_ignored_files_are_named_and_the_rest_is_kept(tmp_path: object, folders: int) -> None:
    many = os.path.join(str(tmp_path), "project", "data", "many")
    for number in range(folders):
        os.makedirs(os.path.join(many, str(number)))
        for name in range(500_000 // folders):
            os.close(os.open(os.path.join(many, str(number), str(name)), os.O_CREAT | os.O_WRONLY, 0o600))
    child = subprocess.run(
        [sys.executable, "-c", _LOOK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    said = json.loads(child.stdout)
    if folders == 1:
        assert [path for path, reason, _ in said["left"] if reason == "too-many"] == ["data/many/0"]
    else:
        assert said["left"] and all(path.startswith("data/many") for path, _, _ in said["left"])
    assert 6 <= said["files"] <= 50_000
    assert said["peak"] < 300e6, said
