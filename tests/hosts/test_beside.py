"""More than one turn: a second one, a second host, safekept in the agent's own hand, `run`."""

from __future__ import annotations

import json
import os

from conftest import missing_part
from support.real_hosts.deeds import Edit, Read, Shell, Use
from support.real_hosts.ground import PATIENT
from support.real_hosts.hosts import HOSTS
from support.real_hosts.installed import version_of
from support.real_hosts.seven import difference, points, rolled_back, seven_changes


def edited(ground, old, new):
    app = os.path.join(ground.project, "src/app.py")
    return [Read(app)], [Edit(app, old, new)]


def test_resumed_session_is_told_of_a_rollback(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    ground.turn(host, model.plays("first", *edited(ground, "second", "SECOND")))
    (before,) = model.true_states("first")
    assert difference(rolled_back(ground, 1), before) == {}
    ground.turn(host, model.plays("again", *edited(ground, "third", "THIRD")), again=True)
    assert "restored on purpose" in json.dumps(model.requests[-1])
    assert difference(rolled_back(ground, 1), before) == {}


def test_two_hosts_in_one_project(grounds, host):
    names = list(HOSTS)
    other = HOSTS[names[(names.index(host.name) + 1) % len(names)]]
    if not version_of(other.package):
        missing_part(f"{other.package} is not installed")
    ground = grounds(host, other)
    mine, theirs = ground.models[host.name], ground.models[other.name]
    ground.turn(host, mine.plays("mine", *edited(ground, "second", "SECOND")))
    ground.turn(other, theirs.plays("theirs", *edited(ground, "third", "THIRD"), [Shell("rm -r data")]))
    states = mine.true_states("mine") + theirs.true_states("theirs")
    now = ground.tree()
    for number, state in enumerate(reversed(states), 1):
        assert difference(rolled_back(ground, number), state) == {}
        assert ground.safekept("rollback", "--undo").returncode == 0
        assert difference(ground.tree(), now) == {}


def test_agent_rolls_back_by_command(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    steps = [*edited(ground, "second", "SECOND"), [Shell("rm -r data")], [Shell("safekept rollback 1")]]
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
    prompt = model.plays("seven", *seven_changes(ground.project)[:3], [Shell("rm -r data")])
    process = ground.launch(host, [ground.safekept_program, "run", "--", *host.command(prompt)])
    said, _ = process.communicate(timeout=PATIENT)
    assert process.returncode == 0, said
    before = model.true_states("seven")[0]
    assert difference(ground.tree(), before) != {}
    assert difference(rolled_back(ground, len(points(ground))), before) == {}
