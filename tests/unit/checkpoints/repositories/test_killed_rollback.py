"""`rollback --git` that is killed at any step: the next command finishes it, and leaves nothing of ours."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal

import pytest

from safekept.checkpoints.rollback.recovery import recover
from safekept.checkpoints.rollback.rollback import plan_rollback, roll_back
from safekept.checkpoints.store.repositories import keeping, recreating, restoring
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import take
from support.projects.repositories import picture, shell

MAKE = (
    "git init -q -b main; echo one > a; git add .; git commit -qm one; git branch work; echo two > a;"
    " git commit -qam two; echo s > a; git stash -q; echo staged > b; git add b"
)
LOSSES = {
    "refs, stash and index": "git stash clear; git branch -qD work; git reset -q --hard HEAD~1; git tag late",
    "all of .git": "rm -rf .git",
}


def killed_at(number: int, store_directory: str, project: str, point: str) -> bool:
    """Go back in a child that is killed before its Nth step in the repository; False where it got through."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            steps = itertools.count(1)

            def counted(work):
                def step(*words, **named):
                    if next(steps) == number:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return work(*words, **named)

                return step

            with Store.open(store_directory) as store:
                plan = plan_rollback(store, project, point, git=True, overwrite_mine=True)
                for module, name in (
                    (restoring, "run_bounded"),
                    (keeping, "run_bounded"),
                    (restoring, "put_file"),
                    (restoring, "put_index"),
                    (recreating.os, "rename"),
                ):
                    setattr(module, name, counted(getattr(module, name)))
                roll_back(store, plan)
                os._exit(0)
        os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status != 0


@pytest.mark.parametrize("loss", LOSSES)
def test_killed_at_any_step_the_next_command_finishes_it(loss, tmp_path):
    project, place = str(tmp_path / "project"), str(tmp_path / "store")
    os.mkdir(project)
    shell(MAKE, project)
    with Store.open(place) as store:
        point = take(store, project, kind="manual").checkpoint.id
    before = picture(project)
    for number in itertools.count(1):
        shell(LOSSES[loss], project)
        assert picture(project) != before
        was_killed = killed_at(number, place, project, point)
        with Store.open(place) as store:
            found = recover(store, project)
        if was_killed and (found is None or found.how == "taken back"):
            # Nothing was begun: it is still to be done.
            with Store.open(place) as store:
                roll_back(store, plan_rollback(store, project, point, git=True, overwrite_mine=True))
        assert picture(project) == before, number
        names = [name for _, below, files in os.walk(project) for name in (*below, *files)]
        ours = [name for name in names if "safekept" in name]
        assert ours == [], number
        if not was_killed:
            break
    assert number > 2, "nothing was killed"
