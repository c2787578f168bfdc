"""A link out of the home: nothing is called well while what matters lies behind one, unless it is meant."""

from __future__ import annotations

import json
import os

import pytest

from support.commands.in_process import spoken
from support.projects.checkpoints import put
from support.users.states import made
from support.users.troubles import leads_out


@pytest.fixture(autouse=True)
def room(monkeypatch):
    monkeypatch.setattr("safekept.core.trash.free_bytes", lambda path: 1 << 40)


def checked(say) -> set[int]:
    """What each of those says who are asked by a program; the doctor has notes of its own."""
    reasons = {one["code"] for one in json.loads(say("status", "--json").out)["verdict"]["reasons"]}
    doctor = {one["code"] for one in json.loads(say("doctor", "--json").out)["findings"]}
    assert ("leads-out" in reasons) == ("leads-out" in doctor)
    return {say("status", "--check").code, say("status", "--short", "--check").code}


@pytest.mark.parametrize("name", ["state.db", ".env", "SOUL.md", "memories", "profiles/coder"])
def test_what_lies_behind_a_link_is_not_called_kept_until_somebody_says_so_once(name, tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    put(os.path.join(state.home, "profiles", "coder", "config.yaml"), "model: x\n")
    put(os.path.join(state.home, "profiles", "coder", "SOUL.md"), "Be kind.\n")
    say = spoken(monkeypatch, state.user)
    leads_out(state, name)
    taken = say("snapshot")
    assert taken.code == 3 and name in taken.out + taken.err
    assert checked(say) == {3}
    assert "Behind a link, not taken" in say("snapshot", "--dry-run").out
    assert name != "memories" or say("backup").code == 3
    (one,) = [
        one
        for one in json.loads(say("status", "--json").out)["verdict"]["reasons"]
        if one["code"] == "leads-out"
    ]
    assert one["text"] == f"{name} in {state.home} leads out of it: no snapshot has what is there"
    words = ["--acknowledge", f"leads-out:{state.home}:{name}"]
    assert one["commands"] == [{"verb": "status", "arguments": words}]
    assert say("status", "--acknowledge", one["declinable"]).code == 0
    assert checked(say) == {0}

    assert "Behind a link, not taken" not in say("snapshot", "--dry-run").out
    assert say("snapshot").code == 0, "what is meant is not missing, and retention goes on"
    if name == "memories":
        assert "Behind a link, not taken" not in say("backup", "--dry-run").out
        archive = say("backup", "--json")
        assert archive.code == 0 and json.loads(archive.out)["complete"], "nor is it in an archive"
        assert ", incomplete" not in say("status").out.lower()
    assert checked(say) == {0}
    gaps = json.loads(say("status", "--json").out)["homes"][0]["not_covered"]["gaps"]
    assert [(gap["outcome"], gap["reason"][-27:]) for gap in gaps if gap["path"] == name] == [
        ("excluded", "; you said that it is meant")
    ]


def test_another_link_counts_and_what_came_back_is_kept(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    there = leads_out(state, "memories")
    assert say("status", "--acknowledge", f"leads-out:{state.home}:memories").code == 0
    assert say("snapshot").code == 0
    leads_out(state, "SOUL.md")
    assert say("snapshot").code == 3
    assert checked(say) == {3}
    told = say("status", "--check").out
    assert "SOUL.md in ~/.hermes leads out of it" in told and "memories" not in told
    for name in ("SOUL.md", "memories"):
        os.unlink(os.path.join(state.home, name))
        os.rename(os.path.join(os.path.dirname(there), name), os.path.join(state.home, name))
    assert say("snapshot").code == 0
    assert checked(say) == {0}
