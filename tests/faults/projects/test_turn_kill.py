"""The rollback of a turn, killed anywhere: the next command finishes it, and one undo takes it back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from safekept.actions.projects.turns import rollback as turn_rollback
from safekept.actions.projects.turns import work
from safekept.actions.projects.turns.record import read_records
from safekept.checkpoints.rollback import rollback as one_rollback
from support.projects.turns import World, everywhere


@pytest.fixture
def world(tmp_path: object) -> World:
    return World(os.path.realpath(str(tmp_path)))


def killed(deed: Callable[[], object]) -> bool:
    """Whether a process of its own was killed at it."""
    child = os.fork()
    if child == 0:
        try:
            deed()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def kill_at(monkeypatch, modules, name: str, number: int, *, after: bool = False) -> None:
    """The process is killed at the Nth call of a function, before it or right after it."""
    real, calls = getattr(modules[0], name), []

    def counted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == number and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*arguments, **options)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    for module in modules:
        monkeypatch.setattr(module, name, counted)


#: What is written down (once at first, twice for each part, once at the end), and amid a project's swap.
PLACES = [
    *(
        ((work, turn_rollback), "write_record", number, after)
        for number in range(1, 9)
        for after in (False, True)
    ),
    *(((one_rollback,), "go_forward", number, False) for number in (1, 2, 3)),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[1]}-{place[2]}-{place[3]}")
@pytest.mark.parametrize("undo", [False, True], ids=["going-back", "undo"])
def test_a_killed_rollback_of_a_turn_is_finished_by_the_next_command(world, place, undo):
    before = world.trees()
    everywhere(world)
    after = world.trees()
    operation = world.back().operation if undo else ""
    with pytest.MonkeyPatch.context() as patched:
        kill_at(patched, *place[:3], after=place[3])
        assert killed(lambda: world.undo(operation) if undo else world.back())
    begun = [told for told in read_records(world.context) if not told.ended]
    heard = []
    with world.points(world.two) as points:
        points._listener = heard.append
        points.list()
    assert all(told.ended for told in read_records(world.context))
    start, end = (before, after) if undo else (after, before)
    if not begun and world.trees() == start:  # nothing was written down yet, and nothing was changed
        assert world.trees() == start
        return
    assert world.trees() == end
    if begun:
        assert any("cut short is finished" in str(event.text) for event in heard)
    last = read_records(world.context)[-1].operation
    assert world.undo(last).complete and world.trees() == start
