"""The programs themselves: each surface of the real Hermes in a process of its own, with the plugin in it."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Iterator

import pytest

from support.commands.waiting import PATIENT
from support.hosts.real_hermes import User, put, read, run_hermes
from support.hosts.scripted_model import ScriptedModel, scripted_model

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as made:
        yield made


@pytest.fixture
def user(model: ScriptedModel, tmp_path) -> Iterator[User]:
    user = User(str(tmp_path), model.config())
    user.connect()
    put(f"{user.project}/a.txt", "old")
    yield user
    user.stop_helper()


def changed_and_back(user: User) -> None:
    """The agent has changed the file; one rollback, and it has not."""
    assert read(f"{user.project}/a.txt") == b"new"
    user.settled()
    assert [one["reason"] for one in user.ask("rollback")["checkpoints"]] == ["before write_file a.txt"]
    assert user.safekept("rollback", "1").code == 0
    assert read(f"{user.project}/a.txt") == b"old"


def wait_for_snapshot(user: User) -> None:
    """The one at the end of a session, made by a process that nobody waits for."""
    ends = time.monotonic() + PATIENT
    found: list[dict] = []
    while time.monotonic() < ends:
        found = user.ask("snapshot", "list").get("snapshots", [])
        if any("end of a session" in str(row.get("label")) for row in found):
            return
        time.sleep(0.1)
    raise AssertionError(f"there is none: {found}")


WRITE = [("write_file", {"path": "a.txt", "content": "new"})]


def test_one_question_is_protected_and_ends_with_a_snapshot_of_the_home(hermes, model, user):
    """`hermes -z` tells nobody that it ends, and ends without its exit handlers."""
    model.say(WRITE, "answered")
    done = run_hermes(hermes, user, "-z", "go")
    assert (done.returncode, done.stdout, done.stderr) == (0, "answered\n", "")
    changed_and_back(user)
    wait_for_snapshot(user)


def test_the_chat_at_the_terminal_is_protected(hermes, model, user):
    model.say(WRITE, "said at the terminal")
    done = run_hermes(hermes, user, "chat", "-q", "go")
    assert done.returncode == 0 and "said at the terminal" in done.stdout, done.stderr
    assert "safekept" not in done.stdout + done.stderr, "silent while all is well"
    changed_and_back(user)
    wait_for_snapshot(user)


def test_the_tui_is_protected_and_knows_our_verbs(hermes_python, model, user):
    """Hermes takes no checkpoints here unless a variable is set (#79625)."""
    model.say(WRITE, "said in the TUI")
    with (
        open(f"{user.directory}/tui.err", "wb") as errors,
        subprocess.Popen(
            [hermes_python, "-m", "tui_gateway.entry"],
            env=user.environment,
            cwd=user.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as server,
    ):
        try:
            session = asked(server, 1, "session.create", cwd=user.project)["session_id"]
            asked(server, 2, "prompt.submit", session_id=session, text="go")
            event(server, "message.complete")
            listed = asked(server, 3, "slash.exec", session_id=session, command="rewind")["output"]
        finally:
            server.kill()
    assert f"Checkpoints for {user.project}" in listed and "before write_file" in listed
    changed_and_back(user)


def asked(server: subprocess.Popen[bytes], number: int, method: str, **given: object) -> dict:
    question = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
    server.stdin.write(json.dumps(question).encode() + b"\n")
    server.stdin.flush()
    while True:
        answer = heard(server)
        if answer.get("id") == number:
            return answer["result"]


def event(server: subprocess.Popen[bytes], kind: str) -> None:
    while heard(server).get("params", {}).get("type") != kind:
        pass


def heard(server: subprocess.Popen[bytes]) -> dict:
    line = server.stdout.readline() if select.select([server.stdout], [], [], 300)[0] else b""
    assert line, "the TUI's server does not answer"
    return json.loads(line)


ROLLBACK = """
import types, cli
from hermes_cli.plugins import discover_plugins
discover_plugins()
discover_plugins()
for enabled in (False, True):
    manager = types.SimpleNamespace(enabled=enabled, list_checkpoints=lambda cwd: [])
    me = types.SimpleNamespace(agent=types.SimpleNamespace(_checkpoint_mgr=manager))
    cli.HermesCLI._handle_rollback_command(me, "/rollback")
    print("----")
"""


def test_rollback_at_the_terminal_says_where_the_points_are(hermes_python, user):
    """Hermes answers it itself, and does not know that the project is kept."""
    done = subprocess.run(
        [hermes_python, "-c", ROLLBACK],
        env=user.environment,
        cwd=user.project,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    off, on, _ = done.stdout.split("----")
    assert "Checkpoints are not enabled." in off and "Enable with: hermes --checkpoints" in off
    assert off.count("/rewind 1 goes back") == 1, "once, however often plugins are looked for"
    assert "/rewind" not in on, "where Hermes has checkpoints of its own, it says enough"


def test_hermes_safekept_is_the_program_itself(hermes, user):
    done = run_hermes(hermes, user, "safekept", "rollback", "--json", "--dir", user.project)
    assert json.loads(done.stdout)["directory"] == user.project
    failed = run_hermes(hermes, user, "safekept", "rollback", "no-such-point")
    assert failed.returncode == 1 and "kept" in failed.stderr
