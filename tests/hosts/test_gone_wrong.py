"""What goes wrong around a real host: a turn cut off and a safekept that is gone."""

from __future__ import annotations

import os
import signal

from support.projects.checkpoints import put
from support.real_hosts.deeds import Edit, Read, Shell, Silence, Write
from support.real_hosts.ground import PATIENT
from support.real_hosts.seven import difference, rolled_back


def test_interrupted_turn_leaves_the_edits_of_the_person(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    app = os.path.join(ground.project, "src/app.py")
    prompt = model.plays(
        "cut",
        [Read(app)],
        [Edit(app, "second", "SECOND")],
        [Shell("echo by command > made.txt")],
        Silence(),
    )
    process = ground.start(host, prompt)
    assert model.silent.wait(PATIENT), "the turn never came so far"
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENT)
    before, between = model.true_states("cut")
    notes = os.path.join(ground.project, "README.md")
    put(notes, "# The project\nwritten by the person, after the interruption\n")
    own = {"README.md": ground.tree()["README.md"]}
    assert difference(rolled_back(ground, 1), {**between, **own}) == {}
    assert difference(rolled_back(ground, 2), {**before, **own}) == {}


def test_safekept_is_gone_and_the_host_goes_on(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    os.unlink(ground.safekept_program)
    app = os.path.join(ground.project, "src/app.py")
    prompt = model.plays(
        "gone",
        [Read(app)],
        [Edit(app, "second", "SECOND")],
        [Write(os.path.join(ground.project, "new.txt"), "new\n")],
        [Shell("echo by command > made.txt")],
    )
    ground.turn(host, prompt)
    found = ground.tree()
    assert found["src/app.py"][1] == b"first\nSECOND\nthird\n"
    assert found["new.txt"][1] == b"new\n"
    assert found["made.txt"][1] == b"by command\n"
