"""The home of a real host is lost, comes back from a snapshot, and the host goes on with its conversation."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from support.real_hosts.deeds import Edit, Read
from support.real_hosts.hosts import GO_ON, HOMES


@pytest.mark.parametrize("host", GO_ON, indirect=True)
def test_lost_home_comes_back_and_its_conversation_goes_on(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    app = os.path.join(ground.project, "src/app.py")
    ground.turn(host, model.plays("first", [Read(app)], [Edit(app, "second", "SECOND")], "remember kumquats"))
    home, *beside = (os.path.join(ground.user, name) for name in HOMES[host.name])
    before = {path: os.path.exists(path) for path in (home, *beside)}
    assert all(before.values()), before
    said = ground.safekept("snapshot", "--home", home)
    assert said.returncode == 0, said.stdout + said.stderr
    shutil.rmtree(home)
    for path in beside:
        os.unlink(path)
    said = ground.safekept("restore", "latest", "--home", home, "--layout", host.name, "--yes")
    assert said.returncode == 0, said.stdout + said.stderr
    assert {path: os.path.exists(path) for path in before} == before
    ground.turn(host, model.plays("again", [Read(app)], [Edit(app, "third", "THIRD")]), again=True)
    asked = json.dumps(model.requests[-1])
    assert "scene=first" in asked and "remember kumquats" in asked
    with open(app, encoding="utf-8") as file:
        assert file.read() == "first\nSECOND\nTHIRD\n"
