"""Today's state is read by the safekept of tomorrow; that of tomorrow is refused by today's, untouched."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from golden.test_json_version import CALLS
from safekept.core.versions import StateIsNewer, mark_state, refuse_newer_state, version_text
from safekept.core.versions import state as state_version
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home, tree_facts
from support.users.contexts import throwaway

#: Works in a place of its own, or knows nothing of a user's state.
OF_NOBODY = {"demo"}


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """Somebody whose state today's safekept wrote."""
    here = throwaway(tmp_path_factory.mktemp("state"))
    user = here.places.user_home
    make_hermes_home(os.path.join(user, ".hermes"), profiles=(), awkward=False)
    os.makedirs(os.path.join(user, "project", ".git"))
    with open(os.path.join(user, "project", "a.txt"), "w", encoding="utf-8") as file:
        file.write("before")
    with pytest.MonkeyPatch.context() as patch:
        say = spoken(patch, user)
        assert say("snapshot").code == 0
        assert say("checkpoint", "project").code == 0
    return user


def marker(user: str) -> str:
    return os.path.join(user, ".local", "share", "safekept", state_version.STATE_FILE)


def read(user: str) -> dict[str, object]:
    with open(marker(user), encoding="utf-8") as file:
        return json.load(file)


def test_the_directory_says_its_version_and_who_wrote_it(user):
    assert read(user) == {"version": state_version.VERSION, "tool": f"safekept {version_text()}"}


@pytest.mark.parametrize("marked", [True, False])
def test_tomorrow_reads_what_today_wrote_and_marks_it_only_when_it_writes(
    user, monkeypatch, marked, tmp_path
):
    monkeypatch.setattr(state_version, "VERSION", state_version.VERSION + 1)
    say = spoken(monkeypatch, user)
    before = read(user)
    if not marked:
        os.unlink(marker(user))
    try:
        assert len(json.loads(say("snapshot", "list", "--json").out)["snapshots"]) == 1
        assert json.loads(say("log", "--json").out)["operations"][-1]["verb"] == "snapshot"
        assert say("status").code == 0
        assert json.loads(say("restore", "--dry-run", "--json").out)["dry_run"]
        assert os.path.exists(marker(user)) == marked and (not marked or read(user) == before), (
            "looking marks nothing"
        )
        archive = str(tmp_path / "one.zip")
        assert say("backup", "-o", archive).code == 0
        assert read(user)["version"] == state_version.VERSION
    finally:
        with open(marker(user), "w", encoding="utf-8") as file:
            json.dump(before, file)


@pytest.fixture
def newer(user):
    before = read(user)
    with open(marker(user), "w", encoding="utf-8") as file:
        json.dump({"version": 7, "tool": "safekept 3.0.0", "more": "of tomorrow"}, file)
    yield user
    with open(marker(user), "w", encoding="utf-8") as file:
        json.dump(before, file)


def test_every_command_refuses_a_newer_state_and_touches_nothing(newer, monkeypatch):
    say = spoken(monkeypatch, newer)
    before = tree_facts(newer, databases="bytes")
    for name in CALLS.keys() - OF_NOBODY:
        call = [word for word in CALLS[name].split() if word != "!"]
        said = say(*name.split(), *call, "--json")
        error = json.loads(said.out)["error"]
        assert (said.code, error["code"]) == (1, "state-newer"), name
    assert tree_facts(newer, databases="bytes") == before


def test_it_says_what_is_newer_and_what_to_do(newer, monkeypatch):
    said = spoken(monkeypatch, newer)("snapshot")
    place = os.path.dirname(marker(newer))
    assert said.code == 1
    assert f"`{place}` was written by safekept 3.0.0, which is newer than this safekept" in said.err
    assert "its state has version 7, and this safekept knows 1" in said.err
    assert "Kept       Nothing changed there" in said.err
    assert "Next       Install safekept 3.0.0 or a newer one, then run the same command again" in said.err


@pytest.mark.parametrize("helper", ["0", "1"])
def test_a_hook_keeps_nothing_there_says_so_and_lets_the_agent_go_on(newer, helper):
    project = os.path.join(newer, "project")
    call = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": project, "tool_name": "Bash"}
    call["tool_input"] = {"command": "true"}
    before = tree_facts(newer, databases="bytes")
    done = subprocess.run(
        [sys.executable, "-I", "-m", "safekept", "hook", "claude-code"],
        input=json.dumps(call),
        env={
            "HOME": newer,
            "PATH": os.environ["PATH"],
            "SAFEKEPT_HELPER": "running" if helper == "1" else "0",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "nothing was kept before this" in done.stderr and "safekept 3.0.0" in done.stderr
    assert tree_facts(newer, databases="bytes") == before


def test_a_program_gets_the_error(newer, monkeypatch):
    import safekept

    monkeypatch.setenv("HOME", newer)
    with pytest.raises(StateIsNewer):
        safekept.snapshots()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": "9"}', '{"version": true}', "\x00" * 9000])
def test_a_marker_that_is_none_is_taken_for_the_first_version_and_written_again(tmp_path, text):
    (tmp_path / state_version.STATE_FILE).write_text(text)
    refuse_newer_state(str(tmp_path))
    mark_state(str(tmp_path))
    assert json.loads((tmp_path / state_version.STATE_FILE).read_text())["version"] == state_version.VERSION


def test_marking_leaves_a_newer_one_as_it_is(tmp_path):
    (tmp_path / state_version.STATE_FILE).write_text('{"version": 9}')
    mark_state(str(tmp_path))
    assert (tmp_path / state_version.STATE_FILE).read_text() == '{"version": 9}'
    with pytest.raises(StateIsNewer, match="was written by a newer safekept"):
        refuse_newer_state(str(tmp_path))
