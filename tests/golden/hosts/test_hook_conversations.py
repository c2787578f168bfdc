"""What hosts say, from their documentation: the right call, point, answer and exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from safekept.checkpoints.rollback.rollback import plan_rollback, roll_back
from safekept.checkpoints.store.store import Store
from safekept.integrations.hosts import handle
from safekept.integrations.hosts.event import read_event
from safekept.integrations.hosts.handling import _who_it_is, find_host
from support.hosts.recorded_hosts import HOSTS, conversations, filled_in, new_user, recorded


def in_process(user, host, raw):
    answer = handle(host, raw, user.place(), user.project)
    return answer.stdout.decode(), answer.stderr.decode(), answer.exit


def by_the_program(user, host, raw):
    """As the host runs it. Hosts start hooks wherever they like; the event says where the agent works."""
    command = [sys.executable, "-I", "-m", "safekept", "hook", host]
    done = subprocess.run(command, input=raw, capture_output=True, env=user.environment, cwd="/")
    return done.stdout.decode(), done.stderr.decode(), done.returncode


def go_through(conversation, user, run):
    for number, step in enumerate(conversation["steps"]):
        event = filled_in(step["event"], user.project)
        said = run(user, conversation["host"], json.dumps(event).encode())
        where = f"step {number}: {event.get('hook_event_name') or event.get('hook')}"
        assert said == (step["stdout"], step.get("stderr", ""), step["exit"]), where
        if step["call"]["kind"] == "before":
            point = user.points()[0]
            assert point.session == filled_in(step["call"]["session"], user.project), where
            agent = step["call"].get("agent", "")
            assert not agent or point.reason.endswith(f" (by {agent})"), where
            held = user.held()
            for name, content in step["holds"].items():
                assert held.get(name) == (None if content is None else content.encode()), f"{where}: {name}"
        user.change(step.get("then", {}))


@pytest.mark.parametrize("name", conversations())
def test_before_each_change_a_point_holds_the_old_bytes_and_the_host_hears_nothing(name, tmp_path):
    conversation = recorded(name)
    # Where the hidden half is on, the prompt has a secret kept, and on a slow day before the tool is run.
    user = new_user(str(tmp_path), conversation["project"], hidden=not name.endswith("/not_kept"))
    go_through(conversation, user, in_process)
    final = conversation["steps"][-1]["call"]["host"]
    assert user.calls(final)["last_failure"] == {}


@pytest.mark.parametrize("host", HOSTS)
def test_the_same_through_the_real_program(host, tmp_path):
    """One step of each sort; the others run above, and a process costs a fifth of a second."""
    conversation = recorded(f"{host}/turn")
    user = new_user(str(tmp_path), conversation["project"])
    seen = set()
    for step in conversation["steps"]:
        sort = (step["call"]["kind"], step["call"].get("shell"))
        if sort not in seen:
            go_through({**conversation, "steps": [step]}, user, by_the_program)
        else:
            user.change(step.get("then", {}))
        seen.add(sort)
    assert len(seen) >= 5
    assert user.calls(host)["last_failure"] == {}


@pytest.mark.parametrize("name", conversations())
def test_every_event_becomes_the_call_it_is(name):
    conversation = recorded(name)
    for step in conversation["steps"]:
        event = read_event(json.dumps(filled_in(step["event"], "/project")).encode())
        host = _who_it_is(find_host(conversation["host"]), event)
        assert host.knows(event)
        call = host.call(event, "/elsewhere").as_dict()
        wanted = filled_in(step["call"], "/project")
        if wanted["kind"] == "nothing":
            assert call["kind"] == "nothing"  # nothing is done about it, so the rest does not matter
        else:
            assert call == wanted


@pytest.mark.parametrize("name", conversations())
def test_a_recording_says_where_it_is_from(name):
    conversation = recorded(name)
    assert (
        conversation["source"] and conversation["read"] and conversation["version"] and conversation["what"]
    )
    assert name.startswith(conversation["host"] + "/")
    for step in conversation["steps"]:
        if step["call"]["kind"] == "before":
            assert step["holds"], "a point that nobody looks into proves nothing"


def test_a_turn_without_a_name_is_started_by_the_prompt_and_shared_by_its_tools(tmp_path):
    conversation = recorded("gemini/turn")
    user = new_user(str(tmp_path), conversation["project"])
    go_through(conversation, user, in_process)
    first = {point.turn for point in user.points()}
    assert len(first) == 1 and first != {""}
    user.change({"a.txt": "again", "src/main.py": "again"})
    go_through(
        {**conversation, "steps": [*conversation["steps"][1:4]]} | {"steps": _written_again()},
        user,
        in_process,
    )
    assert len({point.turn for point in user.points()}) == 2


def _written_again():
    steps = recorded("gemini/turn")["steps"]
    prompt, write = steps[1], dict(steps[3])
    return [prompt, {**write, "holds": {"a.txt": "again"}, "then": {}}]


def test_a_host_that_never_told_the_prompt_still_gets_a_turn_that_ends(tmp_path):
    """Connected in the middle of a session: the tools of one turn share it, the next ones do not."""
    conversation = recorded("gemini/turn")
    user = new_user(str(tmp_path), conversation["project"])
    steps = [step for step in conversation["steps"] if step["call"]["kind"] not in ("turn", "session-end")]
    go_through({**conversation, "steps": steps}, user, in_process)
    assert len({point.turn for point in user.points()}) == 1
    user.change({"a.txt": "again", "src/main.py": "again"})
    go_through({**conversation, "steps": _written_again()[1:]}, user, in_process)
    assert len({point.turn for point in user.points()}) == 2


@pytest.mark.parametrize("host", ["claude-code", "opencode"])
def test_undoing_a_whole_turn_brings_back_an_ignored_file_that_it_edited(host, tmp_path):
    """The first point of the turn left it out; the one before its edit has it."""
    conversation = recorded(f"{host}/turn")
    user = new_user(str(tmp_path), conversation["project"])
    go_through(conversation, user, in_process)
    assert "x.local" not in user.held(len(user.points()))
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        oldest = user.points()[-1]
        done = roll_back(store, plan_rollback(store, user.project, oldest))
    assert done.complete and "x.local" not in {one.path for one in done.left}
    for name, content in conversation["project"].items():
        with open(os.path.join(user.project, name), encoding="utf-8") as file:
            assert file.read() == content, name


def test_a_project_deleted_under_the_agent_stops_nobody(tmp_path):
    conversation = recorded("claude-code/turn")
    user = new_user(str(tmp_path), conversation["project"])
    go_through({**conversation, "steps": conversation["steps"][:4]}, user, in_process)
    os.rename(user.project, user.project + "-gone")
    for step in conversation["steps"][4:]:
        event = json.dumps(filled_in(step["event"], user.project)).encode()
        out, _, code = in_process(user, "claude-code", event)
        assert code == 0
        assert out == "" or set(json.loads(out)) == {"systemMessage"}
    assert user.held()["a.txt"] == b"old a\n"
