"""What went wrong in the field because protection was wired to some front ends and tools, and not to others.

Rows of facts/field-failures.md F and G, each through the real Hermes 0.19.0 with the plugin in its home.
What is about checkpoints themselves is in test_hermes_taking.py and test_field_failures_rollback.py;
container back ends (#113518, #114923, #113530, #113539, #54356) are in test_hermes_plugin.py, and the bad
agent (tests/e2e) does the same to every other integration.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from support.hosts.real_hermes import HermesProcess, User, hermes_process, put, read
from support.hosts.scripted_model import ScriptedModel, scripted_model

pytestmark = pytest.mark.real

BLOCKER = """
def register(ctx):
    def veto(tool_name="", args=None, **rest):
        if "forbidden" in str(args):
            return {"action": "block", "message": "not allowed"}
    ctx.register_hook("pre_tool_call", veto)
"""


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as made:
        yield made


@pytest.fixture(scope="module")
def agent(
    hermes_python: str, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HermesProcess]:
    """Hermes with its own checkpoints switched on, another plugin that forbids things, and ours."""
    user = User(str(tmp_path_factory.mktemp("wiring")), model.config(), checkpoints={"enabled": True})
    put(
        f"{user.home}/plugins/blocker/plugin.yaml",
        "name: blocker\nversion: '1'\nprovides_hooks: [pre_tool_call]\n",
    )
    put(f"{user.home}/plugins/blocker/__init__.py", BLOCKER)
    with open(f"{user.home}/config.yaml", "a", encoding="utf-8") as file:
        file.write("plugins:\n  enabled:\n  - blocker\n")
    user.connect()
    with hermes_process(hermes_python, user) as process:
        yield process


@pytest.fixture
def user(agent: HermesProcess, model: ScriptedModel, request: pytest.FixtureRequest) -> User:
    """The same user in a project of this test's own."""
    user = agent.user
    user.project = os.path.join(user.directory, "projects", request.node.name.replace("/", "_")[:80])
    put(f"{user.project}/pyproject.toml", "")
    put(f"{user.project}/a.txt", "old")
    agent("enter", user.project)
    agent("workspace", "task", user.project)
    assert model.steps == [], "the last test left something unsaid"
    return user


def undone(user: User, target: str = "1") -> None:
    user.settled()
    done = user.safekept("rollback", target)
    assert done.code == 0, done.out + done.err


def hermes_own_points(user: User) -> bool:
    return os.path.isdir(f"{user.home}/checkpoints/store")


# ── front ends ─────────────────────────────────────────────────────────────────────────────────────


def test_11409_the_gateway_takes_a_checkpoint(agent, model, user):
    """#11409, #18841, #11555, #61103, #68195: enabled, and never passed on to the agent of the gateway."""
    model.say([("write_file", {"path": f"{user.project}/a.txt", "content": "bad"})], "done")
    assert agent("gateway", "please do it") == "done"
    assert not hermes_own_points(user), "Hermes's gateway takes its own now; this note is out of date"
    undone(user)
    assert read(f"{user.project}/a.txt") == b"old"


def test_69737_one_shot_takes_a_checkpoint(hermes, agent, model, user):
    model.say([("write_file", {"path": "a.txt", "content": "bad"})], "done")
    done = subprocess.run(
        [hermes, "-z", "go"], env=user.environment, cwd=user.project, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert not hermes_own_points(user), "`hermes -z` takes its own now; this note is out of date"
    undone(user)
    assert read(f"{user.project}/a.txt") == b"old"


@pytest.mark.parametrize("platform", ["tui", "desktop", "acp", "cron", "slack", "a-front-end-of-tomorrow"])
def test_79625_whatever_the_front_end_is_called(agent, model, user, platform):
    """Hermes's TUI looks at a variable of the environment and nothing else; here no front end is asked."""
    model.say([("write_file", {"path": f"{user.project}/a.txt", "content": "bad"})], "done")
    assert agent("turn", "go", platform=platform)["said"] == "done"
    undone(user)
    assert read(f"{user.project}/a.txt") == b"old"


def test_68772_wired_twice_nothing_crashes_and_nothing_is_lost(hermes_python, model, tmp_path):
    """The plugin and the shell hooks of the same safekept, both called for every tool."""
    user = User(str(tmp_path), model.config(), hooks_auto_accept=True, hooks=_shell_hooks())
    put(f"{user.project}/a.txt", "old")
    user.connect()
    with hermes_process(hermes_python, user) as process:
        model.say(
            [("write_file", {"path": "a.txt", "content": "bad"})],
            [("terminal", {"command": "rm a.txt"})],
            "done",
        )
        assert process("turn", "go", session="twice")["said"] == "done"
        undone(user)
        assert read(f"{user.project}/a.txt") == b"bad"
        user.settled()
        first = user.ask("rollback", "--all")["checkpoints"][-1]["id"]
        undone(user, first)
        assert read(f"{user.project}/a.txt") == b"old"


def _shell_hooks() -> dict[str, object]:
    import sys

    command = f"{sys.executable} -I -m safekept hook hermes"
    return {event: [{"command": command, "timeout": 60}] for event in ("pre_tool_call", "post_tool_call")}


# ── tools ──────────────────────────────────────────────────────────────────────────────────────────

COMMANDS = (
    "/bin/rm a.txt",
    "\\rm a.txt",
    "find . -name a.txt -delete",
    "python3 -c 'import os; os.unlink(\"a.txt\")'",
    "perl -e 'unlink \"a.txt\"'",
    "sh -c 'unlink a.txt'",
    "echo bad | tee a.txt",
    "ln -sf /dev/null a.txt",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_69171_whatever_the_command_is_called(agent, user, command):
    """#69171, #69215: a list of command names decided what is worth a checkpoint."""
    agent.tool("terminal", {"command": command})
    assert read(f"{user.project}/a.txt") != b"old"
    undone(user)
    assert read(f"{user.project}/a.txt") == b"old" and not os.path.islink(f"{user.project}/a.txt")


def test_v22_code_is_preceded_by_a_checkpoint(agent, user):
    agent.tool("execute_code", {"code": "open('a.txt', 'w').write('by code')"})
    assert read(f"{user.project}/a.txt") == b"by code"
    undone(user)
    assert read(f"{user.project}/a.txt") == b"old"


def test_v22_what_a_process_in_the_background_does_later_can_be_undone(agent, user):
    """The return of such a command is not marked: what it writes in the rest of the turn is the agent's."""
    command = "until [ -e go ]; do sleep 0.05; done; echo bad > a.txt; touch done"
    agent.tool("terminal", {"command": command, "background": True})
    user.settled()
    put(f"{user.project}/go", "")
    for _ in range(1200):
        if os.path.exists(f"{user.project}/done"):
            break
        time.sleep(0.05)
    assert read(f"{user.project}/a.txt") == b"bad\n"
    point = user.ask("rollback", "--all")["checkpoints"][-1]
    assert point["reason"].startswith("before terminal: until")
    done = user.safekept("rollback", point["id"])
    assert done.code == 0, done.err
    assert read(f"{user.project}/a.txt") == b"old"


def test_v23_every_state_of_a_long_turn_is_there(agent, user):
    for number in range(4):
        agent.tool("write_file", {"path": "a.txt", "content": f"state {number}"})
    undone(user, "3")
    assert read(f"{user.project}/a.txt") == b"state 0"


def test_34827_a_tool_that_was_blocked_does_not_use_up_the_turn(agent, user):
    blocked = agent.tool("write_file", {"path": "a.txt", "content": "forbidden"})
    assert "not allowed" in str(blocked)
    put(f"{user.project}/b.txt", "written by the user meanwhile")
    agent.tool("write_file", {"path": "b.txt", "content": "bad"})
    undone(user)
    assert read(f"{user.project}/b.txt") == b"written by the user meanwhile"


# ── places ─────────────────────────────────────────────────────────────────────────────────────────


def test_68195_a_relative_path_is_the_file_that_the_tool_opened(hermes_python, tmp_path):
    """The process stands in one project, the tools work in another: only the second one is touched."""
    user = User(str(tmp_path))
    user.connect()
    work = os.path.join(user.directory, "workspace")
    for place in (user.project, work):
        put(f"{place}/pyproject.toml", "")
        put(f"{place}/a.txt", f"of {os.path.basename(place)}")
    with hermes_process(hermes_python, user, TERMINAL_CWD=work) as process:
        process.tool("write_file", {"path": "a.txt", "content": "bad"})
        process.tool("terminal", {"command": "rm a.txt"})
        user.settled()
        projects = {point["project"] for point in user.ask("rollback", "--all-projects")["checkpoints"]}
        assert projects == {work}
        assert user.safekept("rollback", "2", "--dir", work).code == 0
    assert read(f"{work}/a.txt") == b"of workspace" and read(f"{user.project}/a.txt") == b"of project"


def test_10505_what_was_just_taken_is_listed_from_wherever_one_stands(agent, model, user):
    """#10505, #90459, #90986: the list asked for the directory, the store knew the project."""
    put(f"{user.project}/deep/er/b.txt", "old")
    model.say([("write_file", {"path": f"{user.project}/deep/er/b.txt", "content": "bad"})], "done")
    agent("gateway", "please do it")
    user.settled()
    for place in (user.project, f"{user.project}/deep", f"{user.project}/deep/er"):
        rows = user.ask("rollback", "--dir", place)["checkpoints"]
        assert [row["reason"] for row in rows] == ["before write_file b.txt"], place
    everything = user.ask("rollback", "--all-projects")["checkpoints"]
    assert user.project in {row["project"] for row in everything}
    agent("enter", user.home)
    assert "before write_file" in agent("gateway", "/rollback")
