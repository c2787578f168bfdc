"""One turn of a real host: each change is a point, and each point gives back the very bytes."""

from __future__ import annotations

import os

import pytest

from support.real_hosts.seven import all_come_back, seven_changes, three_changes


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


#: Not Gemini: above the directory that it was started in it made one change of the three, the command's.
#: opencode was not tried yet.
@pytest.mark.parametrize("host", ["claude-code", "codex"], indirect=True)
def test_started_in_a_subdirectory(grounds, host):
    ground = grounds(host)
    model = ground.models[host.name]
    inside = os.path.join(ground.project, "src", "deep")
    ground.turn(host, model.plays("three", *three_changes(ground.project)), inside)
    all_come_back(ground, host, "three")
