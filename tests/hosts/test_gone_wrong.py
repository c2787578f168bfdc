"""What goes wrong around a real host: a turn cut off, a safekept that is gone, a trust that lapsed."""

from __future__ import annotations

import os
import signal
import time

import pytest

from support.projects.checkpoints import put
from support.real_hosts.deeds import Edit, Read, Shell, Silence, Write
from support.real_hosts.ground import PATIENT
from support.real_hosts.seven import difference, points, rolled_back


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


@pytest.mark.parametrize("host", ["codex"], indirect=True)
def test_trust_lapses_and_status_says_so(grounds, host):
    """The entries changed, since safekept lies elsewhere: Codex passes over them until they are trusted."""
    ground = grounds(host)
    model = ground.models[host.name]
    app = os.path.join(ground.project, "src/app.py")
    ground.turn(host, model.plays("trusted", [Edit(app, "second", "SECOND")]))
    assert len(points(ground)) == 1
    moved = os.path.join(ground.user, "elsewhere", "safekept")
    os.makedirs(os.path.dirname(moved))
    os.rename(ground.safekept_program, moved)
    ground.safekept_program = moved
    said = ground.safekept("connect", "codex", "--yes")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "trust" in said.stdout
    directory = os.path.join(ground.user, ".codex")
    renewed = time.time()
    ground.turn(host, model.plays("lapsed", [Edit(app, "third", "THIRD")]))
    assert ground.tree()["src/app.py"][1] == b"first\nSECOND\nTHIRD\n"
    assert len(points(ground)) == 1, "it was trusted all the same"
    used = max(os.stat(os.path.join(directory, name)).st_mtime for name in os.listdir(directory))
    assert used > renewed
    os.utime(directory, (used + 120, used + 120))  # as if that turn had come two minutes later
    assert "was used and has not called since its entries were renewed" in ground.safekept("status").stdout
    host.connected(ground)
    ground.turn(host, model.plays("again", [Edit(app, "first", "FIRST")]))
    assert len(points(ground)) == 2
    assert "has not called" not in ground.safekept("status").stdout
