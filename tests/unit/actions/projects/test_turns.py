"""A turn is one thing: what it changed goes back in every project and in the home, by one undo."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator

import pytest

from safekept.actions.projects.turns import records_directory
from safekept.actions.projects.turns.outcome import TurnRollback
from safekept.actions.projects.turns.record import read_records
from safekept.actions.projects.turns.turn import NoSuchTurn, turn_id
from safekept.actions.undo.changes import TURN, changes
from safekept.actions.undo.log import LogRequest, read_log
from safekept.actions.undo.undo import UndoRequest, take_back
from safekept.checkpoints.rollback import recovery
from support.projects.checkpoints import put
from support.projects.rollbacks import tree_of
from support.projects.turns import Agent, World, everywhere, settings_for


@pytest.fixture
def world(tmp_path: object) -> World:
    return World(os.path.realpath(str(tmp_path)))


@pytest.mark.parametrize("ends", [True, False])
def test_a_turn_goes_back_everywhere_and_one_undo_brings_all_of_it_again_to_the_byte(world, ends):
    before = world.trees()
    everywhere(world, ends=ends)
    after = world.trees()
    done = world.back()
    assert world.trees() == before and done.complete and done.changed
    assert [part.place for part in done.parts] == [world.one, world.two, world.home]
    undone = world.undo(done.operation)
    assert undone.complete and world.trees() == after
    again = world.undo(undone.operation)
    assert again.complete and world.trees() == before


def test_the_plan_names_every_path_and_changes_nothing(world):
    everywhere(world)
    before = world.trees()
    plan = world.plan()
    assert plan.planned and plan.operation == "" and world.trees() == before
    steps = dict(plan.steps)
    for place in (world.one, world.two):
        assert steps[f"{place}/main.py"] == "restore" and steps[f"{place}/old.py"] == "recreate"
        assert steps[f"{place}/new/file.py"] == "remove"
        assert steps[f"{place}/local/notes.txt"] == "restore"
        assert steps[f"{place}/local/more.txt"] == "remove"
    assert steps[f"{world.home}/SOUL.md"] == "restore" and steps[f"{world.home}/notes.md"] == "remove"
    assert read_records(world.context) == []


def test_it_is_one_operation_in_the_log_and_a_bare_undo_means_all_of_it(world):
    everywhere(world)
    after = world.trees()
    done = world.back()
    listed = list(read_log(world.context, LogRequest()).operations)
    assert [one.verb for one in listed if one.verb != "snapshot"] == ["rollback-turn"]
    assert listed[0].id == done.operation
    known = [one for one in changes(world.context) if one.kind == TURN]
    assert [one.places for one in known] == [(world.one, world.two, world.home)]
    assert not [one for one in changes(world.context) if one.kind != TURN]
    here = world.context.changed(directory=world.two)
    undone = take_back(here, UndoRequest(settings=settings_for(world.context)))
    assert undone.change.operation == done.operation and world.trees() == after


def test_the_name_of_a_part_means_the_whole(world):
    everywhere(world)
    after = world.trees()
    done = world.back()
    (told,) = read_records(world.context)
    assert len(told.done) == 3
    undone = world.undo(told.done[-1].undo)
    assert undone.change.operation == done.operation and world.trees() == after


@pytest.mark.parametrize("at", ["one", "home"])
def test_the_last_rollback_of_a_place_is_the_whole_turn(world, at):
    everywhere(world)
    after = world.trees()
    world.back()
    with world.points(world.one if at == "one" else world.home) as points:
        done = points.undo()
    assert isinstance(done, TurnRollback) and world.trees() == after


def test_a_second_run_does_nothing(world):
    everywhere(world)
    world.back()
    before = world.trees()
    again = world.back()
    assert not again.changed and again.complete and again.operation == "" and world.trees() == before
    assert len(read_records(world.context)) == 1


def test_only_what_that_turn_changed_goes_back_when_later_ones_followed(world):
    world.agent.turn(
        "turn-1", {world.one: {"main.py": "1\n", "first.py": "1\n"}, world.two: {"main.py": "1\n"}}
    )
    world.agent.turn("turn-2", {world.one: {"second.py": "2\n", "local/two.txt": "2\n"}})
    done = world.back("turn-1")
    assert done.complete and world.read(world.one, "main.py") == "one\n"
    assert not os.path.exists(os.path.join(world.one, "first.py"))
    assert world.read(world.two, "main.py") == "two\n"
    assert world.read(world.one, "second.py") == "2\n"  # the other turn's, and it stays
    assert world.read(world.one, "local", "two.txt") == "2\n"


def test_what_a_later_turn_changed_again_stays_and_is_named(world):
    world.agent.turn(
        "turn-1",
        {world.one: {"main.py": "1\n", "first.py": "1\n", "local/notes.txt": "1\n"}},
        {"SOUL.md": "1\n", "notes.md": "1\n"},
    )
    world.agent.turn("turn-2", {world.one: {"main.py": "2\n", "local/notes.txt": "2\n"}}, {"SOUL.md": "2\n"})
    done = world.back("turn-1")
    assert not done.complete
    assert dict(done.stays) == {
        f"{world.one}/main.py": "changed again by a later turn",
        f"{world.one}/local/notes.txt": "changed again by a later turn",
        f"{world.home}/SOUL.md": "changed again by a later turn",
    }
    assert world.read(world.one, "main.py") == "2\n" and world.read(world.home, "SOUL.md") == "2\n"
    assert world.read(world.one, "local", "notes.txt") == "2\n"
    assert not os.path.exists(os.path.join(world.one, "first.py"))
    assert not os.path.exists(os.path.join(world.home, "notes.md"))


def test_one_turn_after_the_other_goes_back_to_where_all_began(world):
    before = world.trees()
    for name in ("turn-1", "turn-2", "turn-3"):
        world.agent.turn(
            name,
            {world.one: {"main.py": f"{name}\n", "local/notes.txt": f"{name}\n", f"{name}.py": ""}},
            {"SOUL.md": f"{name}\n"},
        )
    for name in ("turn-3", "turn-2", "turn-1"):
        assert world.back(name).complete
    assert world.trees() == before
    assert not world.back("turn-3").changed  # what it left is not there any more: nothing comes again
    assert world.trees() == before


def test_what_the_person_changed_after_the_turn_stays_unless_told_otherwise(world):
    everywhere(world)
    put(os.path.join(world.one, "main.py"), "mine\n")
    put(os.path.join(world.one, "own.py"), "mine\n")
    done = world.back()
    assert done.complete and world.read(world.one, "main.py") == "mine\n"
    assert (f"{world.one}/main.py", "changed by you after the agent's last write") in done.stays
    assert world.read(world.one, "own.py") == "mine\n" and world.read(world.two, "main.py") == "two\n"
    world.back(overwrite_mine=True)
    assert world.read(world.one, "main.py") == "one\n" and world.read(world.one, "own.py") == "mine\n"


def test_a_locked_project_stops_no_other_and_the_same_undo_and_command_go_on(world, monkeypatch):
    before = world.trees()
    everywhere(world)
    after = world.trees()
    monkeypatch.setattr(recovery, "_WAIT", 0.05)
    with world.points() as points:
        lock = os.path.join(points._store.project_directory(world.one), "rollback.lock")
    with _held(lock):
        done = world.back()
    assert not done.complete
    assert [part.place for part in done.failed] == [world.one]
    assert done.failed[0].error.code == "already-running"
    assert tree_of(world.one) == after[0] and tree_of(world.two) == before[1]
    assert world.at_home() == before[2]
    world.undo(done.operation)
    assert world.trees() == after
    assert world.back().complete and world.trees() == before


def test_a_project_that_is_gone_stops_no_other_and_is_not_made_again(world):
    before = world.trees()
    everywhere(world)
    shutil.rmtree(world.two)
    done = world.back()
    assert not done.complete and [part.place for part in done.failed] == [world.two]
    assert done.failed[0].error.code == "project-gone" and not os.path.exists(world.two)
    assert tree_of(world.one) == before[0] and world.at_home() == before[2]


def test_a_project_that_the_turn_itself_removed_comes_back(world):
    before = world.trees()
    with world.agent.working("turn-1", (world.one, world.two), ends=False):
        shutil.rmtree(world.two)
    done = world.back("turn-1")
    there = {path: one for path, one in before[1].items() if path.split("/")[0] != ".git"}
    assert done.complete and tree_of(world.two) == there and tree_of(world.one) == before[0]


def test_a_vault_that_does_not_open_stops_no_project_and_is_named(world):
    everywhere(world)
    os.unlink(world.context.places.vault_key_file)
    done = world.back()
    assert not done.complete and world.read(world.one, "main.py") == "one\n"
    assert [part.place for part in done.failed] == [""]
    assert any(path == "an agent's home" for path, _ in done.stays)


def test_a_turn_of_another_session_at_the_same_time_is_said(world):
    other = Agent(world.context, "another", world.home)
    with world.agent.working("turn-1", (world.one,)):
        put(os.path.join(world.one, "main.py"), "1\n")
        other.turn("turn-x", {world.one: {"other.py": "x\n"}})
    plan = world.plan("turn-1")
    assert any("another session worked there at the same time" in note for note in plan.notes)


def test_bare_means_the_newest_turn_that_changed_something_here(world):
    world.agent.turn("turn-1", {world.one: {"main.py": "1\n"}})
    world.agent.turn("turn-2", {world.two: {"main.py": "2\n"}})
    world.agent.turn("turn-3", {world.one: {}})
    with world.points(world.one) as points:
        assert points.turn().turn.turn == "turn-1"
    with world.points(world.two) as points:
        assert points.turn().turn.turn == "turn-2"
    world.agent.turn("turn-4", {}, {"SOUL.md": "4\n"})
    with world.points(world.home) as points:
        assert points.turn().turn.turn == "turn-4"


def test_a_turn_is_meant_by_its_id_the_start_of_it_or_the_hosts_name(world):
    world.agent.turn("turn-1", {world.one: {"main.py": "1\n"}})
    Agent(world.context, "another").turn("turn-1", {world.two: {"main.py": "2\n"}})
    name = turn_id("session", "turn-1")
    with world.points() as points:
        assert points.turn(name).turn == points.turn(name[:5].upper()).turn
        assert points.turn(name).turn.places == (world.one,)
        with pytest.raises(NoSuchTurn) as several:
            points.turn("turn-1")
        assert several.value.what == "`turn-1` means 2 turns"
        assert points.turn("turn-1", "another").turn.places == (world.two,)
        with pytest.raises(NoSuchTurn) as unknown:
            points.turn("t0000000")
    assert unknown.value.kept == "Nothing was changed"


def test_where_no_agent_worked_no_turn_is_taken_back(world):
    world.agent.turn("turn-1", {world.two: {"main.py": "2\n"}})
    from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint

    take_checkpoint(world.context, world.one, CheckpointPolicy(), reason="by hand")
    put(os.path.join(world.one, "main.py"), "mine\n")
    with world.points(world.one) as points, pytest.raises(NoSuchTurn) as error:
        points.turn()
    assert error.value.what == f"No turn of an agent changed anything in `{world.one}`"


def test_what_is_written_down_is_private(world):
    everywhere(world)
    world.back()
    directory = records_directory(world.context)
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert json.loads(world.read(path))["version"] == 1


def test_a_plan_that_is_no_more_what_was_agreed_to_is_not_carried_out_there(world):
    before = world.trees()
    everywhere(world)

    def agreed(plan):
        assert plan.planned and plan.changed
        put(os.path.join(world.two, "main.py"), "mine\n")

    with world.points() as points:
        done = points.apply(points.turn(), agreed=agreed)
    assert not done.complete and tree_of(world.one) == before[0]
    assert [part.error.code for part in done.failed] == ["changed-meanwhile"]
    assert world.read(world.two, "main.py") == "mine\n" and world.read(world.two, "new", "file.py") == "new\n"


@contextlib.contextmanager
def _held(path: str) -> Iterator[None]:
    """The lock, as another process has it."""
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
