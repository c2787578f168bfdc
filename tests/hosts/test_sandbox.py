"""Codex in its sandbox: commands write in the project alone. Hooks and MCP servers run outside of it."""

from __future__ import annotations

import json
import os

import pytest

from support.real_hosts.deeds import Edit, Seek, Shell, Use
from support.real_hosts.seven import all_come_back, difference, seven_changes

pytestmark = pytest.mark.parametrize("host", ["codex"], indirect=True)


@pytest.fixture
def ground(outside, grounds, host):  # in this order they end the other way round
    return grounds(host, root=outside)


def edit_and_delete(ground):
    """Two changes; `rollback 1` is to bring back what the second one took."""
    app = os.path.join(ground.project, "src/app.py")
    return [Edit(app, "second", "SECOND")], [Shell("rm -r data")]


def rollback_command(ground):
    return [Shell(f"{ground.safekept_program} rollback 1")]


def test_sandboxed_turn_of_seven_changes(ground, host):
    model = ground.models[host.name]
    steps = [*seven_changes(ground.project)[:-1], [Shell("touch ../outside")]]
    ground.turn(host, model.plays("seven", *steps), sandbox=True)
    assert "Read-only file system" in json.dumps(model.requests[-1]), "it is no sandbox"
    del model.states["seven"][max(model.states["seven"])]  # what is refused changes nothing
    all_come_back(ground, host, "seven")


def test_sandboxed_agent_is_told_that_it_cannot_roll_back_there(ground, host):
    model = ground.models[host.name]
    steps = [*edit_and_delete(ground), rollback_command(ground)]
    ground.turn(host, model.plays("own", *steps), sandbox=True)
    _, _, deleted = model.true_states("own")
    assert difference(ground.tree(), deleted) == {}
    said = json.dumps(model.requests[-1])
    assert "Nothing was changed" in said
    assert "In the sandbox of an agent the store can only be read" in said


def test_sandboxed_agent_rolls_back_where_it_may_write_to_the_store(ground, host):
    """An ordinary user's store may be closed, too: a mode can be changed in there, root's attribute not."""
    model = ground.models[host.name]
    if os.geteuid() == 0:
        assert ground.safekept("settings", "seat_belt", "false").returncode == 0
    host.open_sandbox(ground, os.path.join(ground.user, ".local", "share", "safekept"))
    steps = [*edit_and_delete(ground), rollback_command(ground)]
    ground.turn(host, model.plays("own", *steps), sandbox=True)
    _, before_deleting, _ = model.true_states("own")
    assert difference(ground.tree(), before_deleting) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's seat belt is an attribute")
def test_sandboxed_agent_is_told_that_it_cannot_open_the_store_of_root(ground, host):
    model = ground.models[host.name]
    host.open_sandbox(ground, os.path.join(ground.user, ".local", "share", "safekept"))
    steps = [*edit_and_delete(ground), rollback_command(ground)]
    ground.turn(host, model.plays("own", *steps), sandbox=True)
    _, _, deleted = model.true_states("own")
    assert difference(ground.tree(), deleted) == {}
    said = json.dumps(model.requests[-1])
    assert "Nothing was changed" in said
    assert "cannot open what root closed: run the command outside" in said
    assert "safekept settings seat_belt false" in said


def test_sandboxed_agent_rolls_back_by_mcp(ground, host):
    model = ground.models[host.name]
    host.add_server(ground, [ground.safekept_program, "mcp"])
    steps = [
        *edit_and_delete(ground),
        [Seek("safekept roll_back")],
        [Use("roll_back", {"checkpoint": "1"})],
        [Use("roll_back", {"checkpoint": "1"}, confirm=True)],
    ]
    ground.turn(host, model.plays("tools", *steps), sandbox=True)
    _, before_deleting, *_ = model.true_states("tools")
    assert difference(ground.tree(), before_deleting) == {}
