"""What safekept takes out of a home's settings itself is no loss; what others take out is one."""

from __future__ import annotations

import json
import os

import pytest

from safekept.actions.alarms.alarms import acknowledge
from support.commands.in_process import spoken


@pytest.fixture
def say(state, monkeypatch):
    return spoken(monkeypatch, state.user)


def losses(say) -> list[str]:
    found = json.loads(say("status", "--json").out)["verdict"]["reasons"]
    found += json.loads(say("doctor", "--json").out)["findings"]
    return [one["text"] for one in found if one["code"] in ("lost-since", "alarm-loss")]


def test_settings_that_only_connecting_made_are_not_lost_when_it_takes_them_back(state, say):
    settings = os.path.join(state.home, "config.yaml")
    os.unlink(settings)
    assert say("connect", "hermes", "--yes").code == 0 and os.path.exists(settings)
    assert say("snapshot").code == 0
    acknowledge(state.context)  # of the first one, which the person removed
    assert losses(say) == []
    assert say("connect", "hermes", "--remove", "--yes").code == 0 and not os.path.exists(settings)
    assert losses(say) == []
    assert say("snapshot").code == 0
    assert losses(say) == []


def test_settings_that_go_after_connecting_was_taken_back_are_lost(state, say):
    settings = os.path.join(state.home, "config.yaml")
    assert say("connect", "hermes", "--yes").code == say("snapshot").code == 0
    assert say("connect", "hermes", "--remove", "--yes").code == 0 and os.path.exists(settings)
    assert losses(say) == []
    os.unlink(settings)
    assert losses(say) and "settings" in losses(say)[0]


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_such_settings_stops_neither_status_nor_doctor_nor_snapshot(state, say):
    settings = os.path.join(state.home, "config.yaml")
    assert say("connect", "hermes", "--yes").code == say("snapshot").code == 0
    assert say("connect", "hermes", "--remove", "--yes").code == 0
    os.unlink(settings)
    os.mkfifo(settings)
    for words in (("status",), ("doctor",), ("snapshot",)):
        assert say(*words).code in (0, 3, 4), words
