"""Killed at any instant, what git hides is neither lost nor half back: the same command again goes on."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable

import pytest

from safekept.actions.projects.hidden.repository import open_hidden
from safekept.actions.projects.rollback import checkpoint_store
from safekept.vault.care import check
from support.projects.checkpoints import fsck, killed_at, tree_on_disk
from support.projects.hidden_halves import HiddenWorld
from support.vault.closed import open_below

Tree = dict[str, tuple[object, ...]]


class Killed(HiddenWorld):
    """One world, made anew as it was before every kill."""

    def __init__(self, directory: object) -> None:
        self.place, self.kept = os.path.join(str(directory), "live"), os.path.join(str(directory), "kept")
        os.makedirs(self.place)
        super().__init__(self.place)
        self.fill()
        self.first = tree_on_disk(self.project)
        point = self.take().taken.checkpoint
        assert point is not None
        self.point = point.id
        self.put("a.txt", "the agent's\n")
        self.put(".env", "the agent's\n", 0o644)
        os.unlink(self.path("report.pdf"))
        shutil.rmtree(self.path("data/notes"))
        self.put("data/new/made.txt", "made since\n")
        self.rows("data/app.db", "delete from t where x > 1")
        self.second = tree_on_disk(self.project)
        shutil.copytree(open_below(self.place), self.kept, symlinks=True)

    def again(self) -> None:
        shutil.rmtree(open_below(self.place))
        shutil.copytree(self.kept, self.place, symlinks=True)

    def kill(self, step: int, work: Callable[[], object]) -> int:
        def quietly() -> None:
            work()

        return killed_at(step, quietly)

    def sound(self) -> None:
        with open_hidden(self.context) as repository:
            assert check(repository, read_data=1.0).damage == []
        fsck(os.path.join(self.context.places.data_directory, "checkpoints", "store"))

    def judge_checkpoint(self) -> None:
        assert tree_on_disk(self.project) == self.second
        taken = self.take("after the kill")
        assert taken.hidden_error is None and taken.taken.checkpoint is not None
        assert self.rollback(self.point).complete
        assert tree_on_disk(self.project) == self.first
        assert self.rollback(taken.taken.checkpoint.id).complete
        assert tree_on_disk(self.project) == self.second
        self.sound()

    def judge_rollback(self) -> None:
        done = self.rollback(self.point)
        assert done.complete, done.stays
        assert tree_on_disk(self.project) == self.first
        with checkpoint_store(self.context) as store:
            undo = min(
                (one for one in store.checkpoints(self.project) if one.kind == "undo"),
                key=lambda one: one.time_ns,
            )
        assert self.rollback(undo.id).complete, "what the killed one replaced is kept"
        assert tree_on_disk(self.project) == self.second
        self.sound()


def storm(world: Killed, what: str, points: int, seed: int = 17) -> int:
    """Kill it at so many of its steps; how many it has."""
    work, judge = {
        "checkpoint": (world.take, world.judge_checkpoint),
        "rollback": (lambda: world.rollback(world.point), world.judge_rollback),
    }[what]
    steps = world.kill(0, work)
    assert steps > 50
    for step in sorted(random.Random(seed).sample(range(1, steps + 1), min(points, steps))):
        world.again()
        if world.kill(step, work) == -1:  # threads take turns: one run has a few steps more than another
            judge()
    return steps


@pytest.mark.parametrize("what", ["checkpoint", "rollback"])
def test_killed_at_some_steps_nothing_hidden_is_lost(tmp_path: object, what: str) -> None:
    storm(Killed(tmp_path), what, 4)


@pytest.mark.soak("hidden")
@pytest.mark.parametrize("what", ["checkpoint", "rollback"])
def test_killed_at_any_step_nothing_hidden_is_lost(tmp_path: object, what: str) -> None:
    storm(Killed(tmp_path), what, 10_000)
