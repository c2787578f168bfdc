"""One conversation of a real host is lost, comes back from a snapshot, and the host resumes it by its id."""

from __future__ import annotations

import json
import os

import pytest

from support.real_hosts.deeds import Edit, Read
from support.real_hosts.hosts import HOMES


@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini", "opencode"], indirect=True)
def test_lost_conversation_comes_back_and_is_resumed(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    app = os.path.join(ground.project, "src/app.py")
    ground.turn(host, model.plays("first", [Read(app)], [Edit(app, "second", "SECOND")], "remember kumquats"))
    ground.turn(host, model.plays("other", "other done"))
    home = os.path.join(ground.user, HOMES[host.name][0])
    said = ground.safekept("snapshot", "--home", home)
    assert said.returncode == 0, said.stdout + said.stderr
    said = ground.safekept("sessions", "search", "kumquats", "--home", home, "--json")
    (found,) = json.loads(said.stdout)["sessions"]
    session = found["id"]
    assert session in host.listed(ground)
    host.delete(ground, session)
    assert session not in host.listed(ground)
    said = ground.safekept("sessions", "restore", session, "--home", home, "--json")
    assert said.returncode == 0, said.stdout + said.stderr
    assert session in host.listed(ground)
    ground.done(host, ground.launch(host, host.resume(model.plays("again", [Read(app)], "yes"), session)))
    asked = json.dumps(model.requests[-1])
    assert "scene=first" in asked and "remember kumquats" in asked
