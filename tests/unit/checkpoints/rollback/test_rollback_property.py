"""Random trees, random edits by agent, user and shell: going back is exact, and undo brings all back."""

from __future__ import annotations

import os
import random
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from safekept.checkpoints.points.rollback_plan import parents
from support.projects.rollbacks import Project, Tree

NAMES = ["a", "b", "A", "ä", "odd \n name", "x.py", "d", "e", os.fsdecode(b"\xff\xfe"), "-rf"]
UNCOVERED = [".env", "node_modules/m.js", "big.bin", "sub/.env.local", ".git/HEAD"]
LIMIT = 4096


class World:
    """A project in which things happen, and what each of its checkpoints must give back."""

    def __init__(self, place: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.project = Project(place)
        self.project.settings = type(self.project.settings)(max_file_size=LIMIT)
        self.kept: list[tuple[object, Tree]] = []
        for path in UNCOVERED:
            self.project.write(path, self.random.randbytes(LIMIT + 1 if "big" in path else 20))
        for _ in range(self.random.randint(0, 8)):
            self.edit()

    def edit(self) -> None:
        """One change of any sort to any path."""
        choose, project = self.random, self.project
        path = "/".join(choose.choice(NAMES) for _ in range(choose.randint(1, 3)))
        parts = path.split("/")
        for count in range(1, len(parts)):  # a file or link above makes way
            above = "/".join(parts[:count])
            if project.exists(above) and (
                os.path.islink(project.full(above)) or not os.path.isdir(project.full(above))
            ):
                project.delete(above)
        what = choose.choice(["write", "write", "append", "delete", "mkdir", "link", "mode", "time"])
        there = project.exists(path)
        full = project.full(path)
        if what in ("write", "append"):
            if there and (os.path.islink(full) or os.path.isdir(full)):
                project.delete(path)
            project.write(path, choose.randbytes(choose.randint(0, 60)))
        elif what == "delete" and there:
            project.delete(path)
        elif what in ("mkdir", "link"):
            if there:
                project.delete(path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            os.mkdir(full) if what == "mkdir" else os.symlink(
                choose.choice(["nowhere", "a", "..", "/etc"]), full
            )
        elif there and not os.path.islink(full):
            if what == "mode":
                os.chmod(
                    full,
                    choose.choice([0o755, 0o700])
                    if os.path.isdir(full)
                    else choose.choice([0o600, 0o755, 0o440]),
                )
            else:
                when = choose.randint(10**17, 10**18)
                os.utime(full, ns=(when, when))

    def uncovered(self) -> Tree:
        tree = self.project.tree()
        return {path: tree[path] for path in UNCOVERED}

    def covered(self) -> Tree:
        return {
            path: facts
            for path, facts in self.project.tree().items()
            if path not in UNCOVERED and path.split("/")[0] not in ("node_modules", ".git", "sub")
        }


def check(seed: int, steps: list[str]) -> None:
    place = tempfile.mkdtemp(prefix="safekept-property-")
    try:
        world = World(place, seed)
        project = world.project
        points = []
        for step in steps:
            if step == "before":
                points.append((project.before(), world.covered()))
            elif step == "after":
                project.after()
            elif step == "uncovered":
                path = world.random.choice(UNCOVERED)
                project.write(path, world.random.randbytes(LIMIT + 5 if "big" in path else 30))
            else:
                for _ in range(world.random.randint(1, 4)):
                    world.edit()
        points = points or [(project.before(), world.covered())]
        point, expected = world.random.choice(points)
        was, hidden = world.covered(), world.uncovered()
        result = project.back(point, overwrite_mine=True)
        assert result.complete, [str(left) for left in result.left]
        assert world.covered() == expected
        assert world.uncovered() == hidden
        if result.done:
            undone = project.undo(overwrite_mine=True)
            assert undone.complete
            assert world.covered() == was
            assert world.uncovered() == hidden
        # By default the user's own edits stay: then each path is as it was then, or as it is now.
        now = world.covered()
        result = project.back(point)
        mine = {left.path for left in result.kept}
        for path, facts in world.covered().items():
            if path in mine:
                assert facts == now[path]
        for path in mine:
            assert world.covered().get(path) == now.get(path)
        assert world.uncovered() == hidden
        assert project.leftovers() == []
        project.fsck()
        project.store.close()
    finally:
        shutil.rmtree(place)


def without_hollow(tree: Tree) -> Tree:
    """The tree without directories that have nothing in them."""
    used = {above for path, facts in tree.items() if facts[0] != "directory" for above in parents(path)}
    return {path: facts for path, facts in tree.items() if facts[0] != "directory" or path in used}


def check_calls(seed: int, calls: int) -> None:
    """Every write is named, or follows a full pass: then each point gives back its whole tree."""
    place = tempfile.mkdtemp(prefix="safekept-property-")
    try:
        world = World(place, seed)
        project, choose = world.project, world.random
        points = [(project.before(), world.covered())]
        for _ in range(calls):
            if choose.random() < 0.3:
                points.append((project.before(), world.covered()))
                for _ in range(choose.randint(0, 3)):
                    world.edit()
                continue
            path = "/".join(choose.choice(NAMES) for _ in range(choose.randint(1, 3)))
            full = project.full(path)
            if any(
                not os.path.isdir(project.full(above)) or os.path.islink(project.full(above))
                for above in parents(path)
                if project.exists(above)
            ) or os.path.isdir(full):
                continue
            points.append((project.before(path), world.covered()))
            if project.exists(path):
                project.delete(path)
            if choose.random() < 0.8:
                project.write(path, choose.randbytes(20))
        was = world.covered()
        point, expected = choose.choice(points)
        result = project.back(point, overwrite_mine=True)
        assert result.complete, [str(left) for left in result.left]
        # A named call does not look at directories: one that a command removed just before may stay, empty.
        assert without_hollow(world.covered()) == without_hollow(expected)
        if result.done:
            project.undo(overwrite_mine=True)
            assert world.covered() == was
        assert project.leftovers() == []
        project.store.close()
    finally:
        shutil.rmtree(place)


STEPS = st.lists(
    st.sampled_from(["before", "before", "agent", "agent", "shell", "user", "after", "uncovered"]),
    min_size=2,
    max_size=10,
)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(seed=st.integers(0, 10**6), steps=STEPS)
@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_rollback_to_any_point_is_exact_and_undo_gives_back_what_was_there(seed, steps):
    check(seed, steps)


@pytest.mark.soak("checkpoints")
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(seed=st.integers(0, 10**9), steps=STEPS)
def test_rollback_to_any_point_is_exact_in_hundreds_of_worlds(seed, steps):
    check(seed, steps)


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(seed=st.integers(0, 10**6), calls=st.integers(1, 8))
@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_rollback_to_any_named_call_gives_back_the_tree_of_that_moment(seed, calls):
    check_calls(seed, calls)


@pytest.mark.soak("checkpoints")
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(seed=st.integers(0, 10**9), calls=st.integers(1, 20))
def test_rollback_to_any_named_call_gives_back_the_tree_in_hundreds_of_worlds(seed, calls):
    check_calls(seed, calls)
