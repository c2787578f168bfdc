"""One turn of a real host: each change is a point, and each point gives back the very bytes."""

from __future__ import annotations

import json
import os

import pytest

from support.real_hosts.deeds import Await, Delegate, Edit, Read, Seek, Shell, Write
from support.real_hosts.seven import (
    all_come_back,
    difference,
    points,
    rolled_back,
    seven_changes,
    three_changes,
)


def test_turn_of_seven_changes(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    ground.turn(host, model.plays("seven", *seven_changes(ground.project)))
    assert len(model.true_states("seven")) == 7
    all_come_back(ground, host, "seven")


def test_folder_without_git(grounds, host):
    ground = grounds(host, git=False)
    model = ground.models[host.name]
    ground.turn(host, model.plays("three", *three_changes(ground.project)))
    all_come_back(ground, host, "three")


def test_started_in_a_subdirectory(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    inside = os.path.join(ground.project, "src", "deep")
    prompt = model.plays(
        "inside",
        [Read(os.path.join(inside, "inner.py"))],
        [Edit(os.path.join(inside, "inner.py"), "inner", "INNER")],
        [Shell("find ../../data -delete")],
        [Write(os.path.join(inside, "new.py"), "new\n")],
    )
    ground.turn(host, prompt, inside)
    all_come_back(ground, host, "inside")


#: Not Gemini: its own tools write nothing above the directory that it was started in.
@pytest.mark.parametrize(
    "host", ["claude-code", "codex", "opencode", "qwen", "copilot", "cline"], indirect=True
)
def test_changes_above_the_directory_it_was_started_in(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    inside = os.path.join(ground.project, "src", "deep")
    ground.turn(host, model.plays("three", *three_changes(ground.project)), inside)
    all_come_back(ground, host, "three")


@pytest.mark.parametrize("host", ["gemini"], indirect=True)
def test_refused_call_leaves_no_point(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    inside = os.path.join(ground.project, "src", "deep")
    ground.turn(host, model.plays("three", *three_changes(ground.project)), inside)
    assert json.dumps(model.requests[-1]).count("Path not in workspace") == 2
    before, still, _ = model.true_states("three")
    assert difference(still, before) == {}
    (command,) = points(ground)
    assert "find" in str(command["reason"])
    assert difference(rolled_back(ground, 1), before) == {}


def test_parallel_calls(grounds, host):
    """The points of a batch are taken before its first tool: the oldest of them is the state before it."""
    ground = grounds(host)
    model = ground.models[host.name]
    app = os.path.join(ground.project, "src/app.py")
    prompt = model.plays(
        "batch",
        [Read(app)],
        [
            Edit(app, "second", "SECOND"),
            Write(os.path.join(ground.project, "new.txt"), "new\n"),
            Shell("echo by command > made.txt"),
        ],
    )
    ground.turn(host, prompt)
    (before,) = model.true_states("batch")
    now = ground.tree()
    assert {"new.txt", "made.txt"} <= now.keys() and now["src/app.py"] != before["src/app.py"]
    assert difference(rolled_back(ground, len(points(ground))), before) == {}
    assert ground.safekept("rollback", "--undo").returncode == 0
    assert difference(ground.tree(), now) == {}


def test_background_command(grounds, host):
    """What a command in the background writes while the turn goes on is the agent's."""
    ground = grounds(host)
    model = ground.models[host.name]
    # Between two calls it could not be told from the person's, so it waits until the second one runs.
    sign = os.path.join(ground.root, "the-second-call-runs")
    late = f"timeout 60 sh -c 'until test -e {sign}; do sleep 0.1; done'; echo late > late.txt"
    prompt = model.plays(
        "behind",
        [Shell(f"{late}; echo more >> README.md", background=True)],
        [Shell(f"touch {sign}; while ! grep -q more README.md; do sleep 0.1; done")],
    )
    ground.turn(host, prompt)
    before = model.true_states("behind")[0]
    assert {"late.txt"} <= ground.tree().keys()
    assert difference(rolled_back(ground, len(points(ground))), before) == {}


def test_subagent(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    app = os.path.join(ground.project, "src/app.py")
    inner = model.plays(
        "inner", [Read(app)], [Edit(app, "second", "SECOND")], [Shell("echo by command > made.txt")]
    )
    outer = [Seek("spawn_agent wait_agent")], [Delegate(inner)], [Await()]
    ground.turn(host, model.plays("outer", *outer))
    before, between = model.true_states("inner")
    now = ground.tree()
    assert difference(rolled_back(ground, 1), between) == {}
    assert ground.safekept("rollback", "--undo").returncode == 0
    assert difference(ground.tree(), now) == {}
    assert difference(rolled_back(ground, len(points(ground))), before) == {}
