"""What root's drill reads of a home is what was stored, and never what a stored link leads to.

A drill restores as root and hands database and settings to the agent, which the owner of the home runs: a
link in their place would hand over any file of root's.
"""

from __future__ import annotations

import os

import pytest

from support.users.users_world import World, made_world

HOME = "/home/mallory/.hermes"
OF_ROOT = "word: of-root\n"
#: In place of the agent: takes along whatever the drill puts before it.
TAKER = """#!/bin/sh
cat "$HERMES_HOME"/* >> /home/mallory/taken
"""


@pytest.mark.parametrize("name", ["config.yaml", "state.db"])
def test_a_drill_hands_over_nothing_that_a_link_leads_to(tmp_path_factory: pytest.TempPathFactory, name: str):
    world: World = made_world(str(tmp_path_factory.mktemp("world")))
    world.hermes_home("mallory")
    world.write("/srv/precious/secret", OF_ROOT, mode=0o600)
    world.write(f"{HOME}/hermes-agent/venv/bin/python", TAKER, "mallory", 0o755)
    os.rename(world.outside(f"{HOME}/{name}"), world.outside(f"{HOME}/{name}.old"))
    world.link(f"{HOME}/{name}", "/srv/precious/secret", "mallory")
    world.give_all(HOME, "mallory")
    assert world.system("mallory", "snapshot", "create").returncode in (0, 3)
    done = world.system("mallory", "drill")
    with open(world.outside("/home/mallory/taken"), "rb") as file:
        taken = file.read()
    assert taken, done  # the rest was handed over: the drill did its work
    assert OF_ROOT.encode() not in taken
    assert OF_ROOT.strip() not in done.stdout + done.stderr
