"""Before an agent changes its own home: the files at once, the whole of it by another process when due."""

from __future__ import annotations

import dataclasses
import os

import pytest

from safekept.actions.projects.home_points.timeline import home_points
from safekept.actions.snapshots.listing import list_home
from safekept.actions.vault.opening import open_vault
from safekept.integrations.calls import Call
from safekept.integrations.protect import Place, protect
from support.hosts.throwaway_helper import throwaway
from support.projects.checkpoints import put


@pytest.fixture
def started(monkeypatch):
    calls = []
    monkeypatch.setattr("safekept.integrations.in_process.run_apart", lambda call, _: calls.append(call))
    return calls


@pytest.fixture
def user(tmp_path):
    made = throwaway(tmp_path)
    for name in ("config.yaml", "SOUL.md", "memories/MEMORY.md", "skills/one/SKILL.md"):
        put(os.path.join(made.home, ".hermes", name), f"{name}\n")
    return made


def change(user, place, path="skills/one", **more):
    home = os.path.realpath(os.path.join(user.home, ".hermes"))
    call = Call(
        "before",
        "hermes",
        "skill_manage",
        (os.path.join(home, path),),
        directory=user.home,
        session="s",
        reason="before skill_manage: patch",
        home=home,
        **more,
    )
    return home, protect(call, place)


def test_the_first_change_of_a_home_starts_a_snapshot_that_nobody_waits_for(user, started):
    place = Place.load(user.environment)
    home, outcome = change(user, place)
    assert outcome.failures == () and outcome.home_point
    (call,) = started
    assert (call.kind, call.home, call.reason, call.paths) == (
        "session-end",
        home,
        "before skill_manage: patch",
        (),
    )
    # What that process does: a quick snapshot, after which none is due.
    assert protect(call, dataclasses.replace(place, apart=True)).failures == ()
    with open_vault(place.context) as repository:
        kinds = [(one.kind, one.label) for one in list_home(repository, home).of_home]
    assert sorted(kinds) == [
        ("pre-change", "before skill_manage: patch"),
        ("quick", "before skill_manage: patch"),
    ]
    put(os.path.join(home, "skills/one/SKILL.md"), "changed\n")
    change(user, place)
    assert started == [call] and len(home_points(place.context)) == 2


def test_whoever_wants_none_gets_none(user, started):
    place = Place.load({**user.environment, "SAFEKEPT_INTEGRATIONS_SESSION_SNAPSHOT_HOURS": "0"})
    _, outcome = change(user, place)
    assert outcome.home_point and started == []


def test_a_change_that_could_not_be_kept_starts_nothing(user, started, monkeypatch):
    from safekept.core.errors import SafekeptError

    def refuse(*given, **more):
        raise SafekeptError("no room", kept="Nothing was changed", next_steps=())

    monkeypatch.setattr("safekept.actions.projects.home_points.take.before_home_change", refuse)
    _, outcome = change(user, Place.load(user.environment))
    assert [one.what for one in outcome.failures] == ["no room"] and started == []


def test_a_session_in_a_profile_ends_with_a_snapshot_of_its_home(user):
    home = os.path.realpath(os.path.join(user.home, ".hermes"))
    put(os.path.join(home, "profiles/coder/config.yaml"), "model: x\n")
    place = Place.load({**user.environment, "HERMES_HOME": os.path.join(home, "profiles/coder")})
    end = Call("session-end", "hermes", session="s", home=os.path.join(home, "profiles/coder"))
    assert protect(end, dataclasses.replace(place, apart=True)).failures == ()
    with open_vault(place.context) as repository:
        assert [one.kind for one in list_home(repository, home).shown] == ["quick"]
