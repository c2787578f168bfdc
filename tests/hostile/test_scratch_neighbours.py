"""A neighbour who takes a living command for dead: its scratch stays, whoever sweeps.

Copies of databases lie in scratch while they are read. The sweeper may be a container with the same data
directory: in there the number of our process is nobody's, or somebody else's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from conftest import missing_part
from safekept.actions.base.scratch import scratch
from support.commands.pid_namespaces import CONTAINER, container_with_an_unused_number
from support.places import CHECKOUT

#: Takes a scratch of its own, which sweeps what others left, and says what is still there.
SWEEPER = """
import os, sys, types
from safekept.actions.base.scratch import scratch
places = types.SimpleNamespace(data_directory=sys.argv[1])
with scratch(types.SimpleNamespace(places=places)) as own:
    left = set(os.listdir(os.path.dirname(own))) - {os.path.basename(own)}
    print(" ".join(sorted(left)), flush=True)
    if sys.argv[2:]:
        sys.stdin.read()
"""


class Context:
    """As much of a user as scratch asks for."""

    def __init__(self, data: str) -> None:
        self.places = self
        self.data_directory = data


def sweeper(data: str, *front: str, stays: bool = False) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*front, sys.executable, "-c", SWEEPER, data, *(["stay"] if stays else [])],
        env={**os.environ, "PYTHONPATH": f"{CHECKOUT}/src"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def swept(data: str, *front: str) -> list[str]:
    """What a sweep leaves of others."""
    out, err = sweeper(data, *front).communicate("", timeout=300)
    if front and "unshare" in err:
        missing_part(f"a PID namespace of its own: {err.strip()}")
    assert not err, err
    return out.split()


@pytest.mark.parametrize("front", [[], CONTAINER], ids=["process", "container"])
def test_a_sweep_leaves_the_scratch_of_a_living_command(tmp_path, front):
    with scratch(Context(str(tmp_path))) as place:
        with open(f"{place}/copy.db", "w") as file:
            file.write("copied")
        # In a container a process of our number is seldom there: by its number alone we would be dead.
        assert swept(str(tmp_path), *front) == [os.path.basename(place)]
        assert os.path.exists(f"{place}/copy.db")


def test_a_sweep_from_outside_leaves_the_scratch_of_a_container(tmp_path):
    """Its command has a number of that space, which out here is nobody's."""
    inside = sweeper(str(tmp_path), *container_with_an_unused_number(), stays=True)
    try:
        if inside.stdout.readline() != "\n":
            missing_part(f"a PID namespace of its own: {inside.communicate(timeout=30)[1].strip()}")
        (theirs,) = os.listdir(tmp_path / "scratch")
        with scratch(Context(str(tmp_path))):
            assert theirs in os.listdir(tmp_path / "scratch")
    finally:
        inside.communicate("", timeout=300)


def test_what_a_dead_command_left_goes_at_once_here_and_after_a_day_elsewhere(tmp_path):
    """The number is free: in our own space that is proof, in another one nobody can know but by age."""
    with scratch(Context(str(tmp_path))) as place:
        space = os.path.basename(place).split("-")[1]
    dead = subprocess.Popen(["true"])
    dead.wait()
    base = tmp_path / "scratch"
    ours, theirs, old = f"{dead.pid}-{space}-aa", f"{dead.pid}-{'0' * 12}-bb", f"{dead.pid}-{'0' * 12}-cc"
    for name in (ours, theirs, old):
        os.mkdir(base / name)
    os.utime(base / old, (time.time() - 90_000,) * 2)
    with scratch(Context(str(tmp_path))):
        assert {ours, theirs, old} & set(os.listdir(base)) == {theirs}
