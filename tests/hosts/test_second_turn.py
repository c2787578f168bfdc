"""A second turn of a real host: what it is told of what happened in between."""

from __future__ import annotations

import json
import os

import pytest

from support.real_hosts.deeds import Edit, Read
from support.real_hosts.hosts import GO_ON
from support.real_hosts.seven import difference, rolled_back


def edited(ground, old, new):
    app = os.path.join(ground.project, "src/app.py")
    return [Read(app)], [Edit(app, old, new)]


@pytest.mark.parametrize("host", GO_ON, indirect=True)
def test_resumed_session_is_told_of_a_rollback(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    ground.turn(host, model.plays("first", *edited(ground, "second", "SECOND")))
    (before,) = model.true_states("first")
    assert difference(rolled_back(ground, 1), before) == {}
    ground.turn(host, model.plays("again", *edited(ground, "third", "THIRD")), again=True)
    assert "restored on purpose" in json.dumps(model.requests[-1])
    assert difference(rolled_back(ground, 1), before) == {}
