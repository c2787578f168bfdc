"""Random trees under random rules of git, edits by an agent and the user: what the rules promise.

The promise: what the agent changed is as it was before its turn, what the user changed after it stays, and an
undo brings back what the rollback found, whatever git hides, and whoever changes that.
"""

from __future__ import annotations

import os
import random
import stat

import pytest

from safekept.actions.projects.hidden.keeping import keep_hidden
from safekept.actions.projects.rollback import checkpoint_store
from safekept.checkpoints.take import take
from safekept.vault.write import intake
from support.projects.hidden_halves import HiddenWorld

NAMES = (
    *("a.py", "src/b.py", "src/deep/c.py", "notes.pdf", ".env", "config/.env.local", "keys/server.pem"),
    *("data/one.txt", "data/deep/two.bin", "build/out.o", "build/x/y.log", "top.log"),
)
RULES = (
    "data/\n",
    "*.pdf\n",
    "build/\n",
    "*.log\n",
    "/top.log\n",
    "src/deep/\n",
    "*\n",
    "!data/one.txt\n",
    "",
)
State = dict[str, tuple[int, bytes]]


def state(world: HiddenWorld) -> State:
    """Mode and bytes of each file."""
    found: State = {}
    for name in (*NAMES, ".gitignore"):
        if os.path.isfile(world.path(name)):
            found[name] = (stat.S_IMODE(os.stat(world.path(name)).st_mode), world.read(name))
    return found


def edit(world: HiddenWorld, chance: random.Random, names: list[str]) -> None:
    for name in names:
        if chance.random() < 0.3 and os.path.exists(world.path(name)):
            os.unlink(world.path(name))
        else:
            world.put(
                name, chance.randbytes(chance.choice((0, 5, 3000))), chance.choice((0o600, 0o644, 0o755))
            )


def point(world: HiddenWorld, kind: str, turn: str) -> None:
    with checkpoint_store(world.context) as store:
        taken = take(store, world.project, kind=kind, session="s", turn=turn, settings=world.policy.take)
    assert taken.hidden is not None
    keep_hidden(world.context, world.project, taken.hidden)


@pytest.mark.parametrize("seed", range(12))
def test_what_the_agent_did_is_undone_and_what_the_user_did_stays(
    tmp_path: object, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    if seed % 2:  # every file counts as old: what did not change is not even listed
        monkeypatch.setattr(intake, "RACY_NS", 0)
    world = HiddenWorld(tmp_path)
    world.put(".gitignore", "".join(chance.sample(RULES, 3)))
    edit(world, chance, chance.sample(NAMES, 9))
    for turn in range(2):
        point(world, "before", str(turn))
        before = state(world)
        edit(world, chance, chance.sample(NAMES, 4))
        if chance.random() < 0.5:
            world.put(".gitignore", "".join(chance.sample(RULES, 3)))
        point(world, "after", str(turn))
        agents = state(world)
        edit(world, chance, chance.sample(NAMES, 2))
        users = state(world)
        wanted = {}
        for name in before.keys() | users.keys():
            came_from = users if users.get(name) != agents.get(name) else before
            if name in came_from:
                wanted[name] = came_from[name]
        if wanted == users:
            continue  # there is nothing to go back to
        done = world.rollback("1")
        assert state(world) == wanted, (seed, turn, done.stays)
        assert done.complete, done.stays
        back = world.undo()
        assert state(world) == users, (seed, turn, back.stays)


@pytest.mark.soak("hidden")
@pytest.mark.parametrize("seed", range(12, 300))
def test_and_so_for_many_more(tmp_path: object, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    test_what_the_agent_did_is_undone_and_what_the_user_did_stays(tmp_path, seed, monkeypatch)
