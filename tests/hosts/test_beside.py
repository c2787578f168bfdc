"""Beside a real host: another one, safekept in the agent's own hand, and `run` where nothing is connected."""

from __future__ import annotations

import os

from support.real_hosts.deeds import Edit, Read, Seek, Shell, Use
from support.real_hosts.ground import PATIENT
from support.real_hosts.seven import difference, points, rolled_back, three_changes


def edited(ground, old, new):
    app = os.path.join(ground.project, "src/app.py")
    return [Read(app)], [Edit(app, old, new)]


def test_two_hosts_in_one_project(grounds, host, other_host):
    ground = grounds(host, other_host)
    mine, theirs = ground.models[host.name], ground.models[other_host.name]
    ground.turn(host, mine.plays("mine", *edited(ground, "second", "SECOND")))
    ground.turn(other_host, theirs.plays("theirs", *edited(ground, "third", "THIRD"), [Shell("rm -r data")]))
    states = mine.true_states("mine") + theirs.true_states("theirs")
    now = ground.tree()
    for number, state in enumerate(reversed(states), 1):
        assert difference(rolled_back(ground, number), state) == {}
        assert ground.safekept("rollback", "--undo").returncode == 0
        assert difference(ground.tree(), now) == {}


def test_agent_rolls_back_by_command(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    steps = [
        *edited(ground, "second", "SECOND"),
        [Shell("rm -r data")],
        [Shell(f"{ground.safekept_program} rollback 1")],
    ]
    ground.turn(host, model.plays("own", *steps))
    _, before_deleting, _ = model.true_states("own")
    assert difference(ground.tree(), before_deleting) == {}


def test_agent_rolls_back_by_mcp(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    host.add_server(ground, [ground.safekept_program, "mcp"])
    before = ground.tree()
    steps = [
        *edited(ground, "second", "SECOND"),
        [Seek("safekept list_checkpoints roll_back")],
        [Use("list_checkpoints")],
        [Use("roll_back", {"checkpoint": "1"})],
        [Use("roll_back", {"checkpoint": "1"}, confirm=True)],
    ]
    ground.turn(host, model.plays("tools", *steps))
    assert model.true_states("tools")[1] != before
    assert difference(ground.tree(), before) == {}


def test_run_watches_a_host_that_is_not_connected(grounds, host):
    ground = grounds(host, connect=False)
    model = ground.models[host.name]
    prompt = model.plays("three", *three_changes(ground.project))
    process = ground.launch(host, [ground.safekept_program, "run", "--", *host.command(prompt)])
    said, _ = process.communicate(timeout=PATIENT)
    assert process.returncode == 0, said
    before = model.true_states("three")[0]
    assert difference(ground.tree(), before) != {}
    assert difference(rolled_back(ground, len(points(ground))), before) == {}
