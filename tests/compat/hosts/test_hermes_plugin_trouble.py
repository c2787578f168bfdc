"""What the plugin does in the real Hermes when safekept is not well: the tool runs, and it is said."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from collections.abc import Iterator

import pytest

from support.hosts.real_hermes import SAFEKEPT, HermesProcess, User, hermes_process, put, read
from support.places import CHECKOUT

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def process(hermes_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HermesProcess]:
    user = User(str(tmp_path_factory.mktemp("trouble")))
    user.connect()
    with hermes_process(hermes_python, user) as made:
        yield made


@pytest.fixture
def agent(process: HermesProcess, request: pytest.FixtureRequest) -> HermesProcess:
    """Hermes with the plugin freshly connected and found, in a project of this test's own."""
    user = process.user
    user.project = os.path.join(user.directory, "projects", request.node.name[:80])
    put(f"{user.project}/pyproject.toml", "")
    process("enter", user.project)
    process("workspace", "task", user.project)
    connected(process)
    return process


def connected(agent: HermesProcess, *command: str) -> None:
    """By this command; and Hermes looks for its plugins again."""
    agent.user.connect(command or SAFEKEPT)
    agent("again")
    agent.news()


@pytest.fixture
def user(agent: HermesProcess) -> User:
    return agent.user


def write(agent: HermesProcess, content: str, session: str = "session") -> None:
    """The tool does its work, whatever becomes of ours."""
    answer = agent.tool("write_file", {"path": "a.txt", "content": content}, session=session)
    assert answer["files_modified"] == [f"{agent.user.project}/a.txt"]
    assert read(f"{agent.user.project}/a.txt") == content.encode()


def kept(user: User) -> int:
    return len(user.ask("rollback")["checkpoints"])


def begin(agent: HermesProcess, session: str, platform: str = "cli") -> None:
    agent("hook", "pre_llm_call", session_id=session, task_id="t", turn_id="u", platform=platform)


def failure(user: User) -> str:
    """What `status` will say of the last call."""
    content = read(f"{user.data}/integrations/hermes.json")
    return json.loads(content or b"{}").get("last_failure", {}).get("what", "")


def test_a_helper_that_was_killed_is_started_again_and_no_call_is_lost(agent, user):
    for number in range(3):
        write(agent, f"{number}")
        if pid := user.helper_pid():
            os.kill(pid, signal.SIGKILL)
    assert kept(user) == 3
    assert agent.news() == ""


def test_a_helper_that_hangs_costs_a_moment_and_no_call_is_lost(agent, user):
    write(agent, "0")
    pid = user.running_helper()
    os.kill(pid, signal.SIGSTOP)
    try:
        write(agent, "1")
        write(agent, "2")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert kept(user) == 3


def test_a_data_directory_that_is_deleted_in_mid_turn_is_made_anew(agent, user):
    write(agent, "0")
    user.stop_helper()
    user.remove_data()
    write(agent, "1")
    write(agent, "2")
    assert user.safekept("rollback", "1").code == 0
    assert read(f"{user.project}/a.txt") == b"1"


def test_a_data_directory_deleted_under_a_running_helper_stops_no_tool(agent, user):
    write(agent, "0")
    user.remove_data()
    for number in range(3):
        write(agent, f"{number}")
    assert kept(user) >= 1


def test_a_place_that_cannot_be_written_is_said_and_stops_no_tool(agent, user):
    user.stop_helper()
    user.remove_data()
    put(user.data, "a file where a directory should be")
    try:
        begin(agent, "unwritable")
        write(agent, "x", "unwritable")
        write(agent, "y", "unwritable")
        said = agent.news().splitlines()
        assert said and all(line.startswith("safekept: not protecting: ") for line in said)
        assert len(said) == len(set(said)), "each thing is said once in a session"
        assert agent("command", "rewind").startswith("❌")
    finally:
        os.unlink(user.data)


def test_settings_of_ours_that_are_broken_leave_the_project_protected(agent, user):
    put(f"{user.directory}/.config/safekept/config.toml", "this is = = not toml")
    write(agent, "x")
    os.unlink(f"{user.directory}/.config/safekept/config.toml")
    assert kept(user) == 1


# ── another machine ────────────────────────────────────────────────────────────────────────────────


GONE = "safekept: not protecting: safekept is not installed here (`/nowhere/bin/safekept` is gone)"


def test_on_a_machine_without_safekept_it_is_said_once_a_session_and_nothing_breaks(agent, user):
    """The plugin travels with the home; the program does not."""
    user.stop_helper()
    user.remove_data()
    connected(agent, "/nowhere/bin/safekept")
    assert agent("loaded") == {"safekept": [True, None]}
    for session in ("first", "second"):
        begin(agent, session)
        for number in range(3):
            write(agent, str(number), session)
    assert agent.news().splitlines() == [GONE, GONE]
    assert "safekept is not installed here" in agent("command", "rewind")
    assert "safekept is not installed here" in agent("command", "safekept")
    assert agent("rewritten", {"text": "/rollback 1"}) == [], "Hermes answers with its own"
    for name in ("on_session_end", "on_session_finalize", "on_session_start"):
        agent("hook", name, session_id="first", task_id="t", turn_id="u", platform="cli")
    assert not os.path.exists(user.data), "nothing is left on such a machine"


def test_in_a_gateway_it_goes_to_the_log_and_to_no_stream(agent, user):
    connected(agent, "/nowhere/bin/safekept")
    begin(agent, "a-chat", platform="telegram")
    write(agent, "x", "a-chat")
    assert agent.news() == ""
    assert b"not protecting: safekept is not installed here" in read(f"{user.home}/logs/errors.log")


def test_a_program_that_fails_is_said_and_status_knows_it(agent, user):
    user.stop_helper()
    program = f"{user.directory}/failing/safekept"
    put(program, "#!/bin/sh\nexit 3\n", 0o755)
    user.environment["SAFEKEPT_LAUNCHER"] = program
    try:
        assert user.safekept("connect", "hermes", "--yes").code == 0
        agent("again")
        begin(agent, "failing")
        write(agent, "x", "failing")
        assert "safekept: not protecting: safekept does not answer" in agent.news()
        assert failure(user).startswith("nothing was kept before `write_file`: safekept does not answer")
        said = " ".join(user.safekept("status").out.split())
        wanted = (
            "the last call of Hermes failed: nothing was kept before `write_file`: safekept does not answer"
        )
        assert wanted in said, said
    finally:
        user.safekept("connect", "--remove", "hermes", "--yes")
        del user.environment["SAFEKEPT_LAUNCHER"]


def test_a_connection_file_that_is_spoilt_breaks_nothing(agent, user):
    """Then the program is looked for on the PATH, as by the pip way in."""
    place = f"{user.home}/plugins/safekept/connection.json"
    agent("environment", PATH=on_path(user))
    spoilt = [b"[", b'{"command": [3]}', b"\xff\xfe", None]
    for number, content in enumerate(spoilt):
        os.unlink(place)
        if content is not None:
            put(place, content)
        agent("again")
        write(agent, str(number))
        put(place, "")
    agent("environment", PATH=user.environment["PATH"])
    assert kept(user) == len(spoilt)


def on_path(user: User) -> str:
    """A PATH on which safekept can be found by its name."""
    put(f"{user.directory}/bin/safekept", f'#!/bin/sh\nexec {" ".join(SAFEKEPT)} "$@"\n', 0o755)
    return f"{user.directory}/bin:{user.environment['PATH']}"


# ── more than one ──────────────────────────────────────────────────────────────────────────────────


def test_two_copies_in_one_hermes_do_not_act_twice(agent, user):
    other = f"{user.home}/plugins/more/safekept-too"
    shutil.copytree(f"{user.home}/plugins/safekept", other)
    config = read(f"{user.home}/config.yaml")
    both = config.replace(b"- safekept\n", b"- safekept\n    - more/safekept-too\n")
    put(f"{user.home}/config.yaml", both)
    try:
        agent("again")
        assert agent("loaded") == {"safekept": [True, None], "more/safekept-too": [True, None]}
        user.settled()
        before = calls(user)
        write(agent, "x")
        user.settled()
        assert calls(user) == before + 1
    finally:
        put(f"{user.home}/config.yaml", config)
        shutil.rmtree(os.path.dirname(other))
    agent("again")
    write(agent, "y")
    assert kept(user) == 2


def calls(user: User) -> int:
    return int(json.loads(read(f"{user.data}/integrations/hermes.json") or b"{}").get("calls", 0))


def test_the_pip_way_in_protects_as_well(hermes_python, tmp_path):
    """safekept beside Hermes in one environment: the entry point of its package, by Hermes's own search."""
    user = User(str(tmp_path))
    beside = str(tmp_path / "site")
    about = "Metadata-Version: 2.1\nName: safekept\nVersion: 0.1.0\n"
    put(f"{beside}/safekept-0.1.0.dist-info/METADATA", about)
    entry = "[hermes_agent.plugins]\nsafekept = safekept.integrations.hermes.entry\n"
    put(f"{beside}/safekept-0.1.0.dist-info/entry_points.txt", entry)
    put(f"{user.home}/config.yaml", "plugins:\n  enabled: [safekept]\n")
    path = f"{beside}:{os.path.join(CHECKOUT, 'src')}"
    with hermes_process(hermes_python, user, PYTHONPATH=path, PATH=on_path(user)) as agent:
        assert agent("loaded") == {"safekept": [True, None]}
        write(agent, "x")
        rooms = agent("modules", "safekept.")
        assert {name.split(".")[1] for name in rooms} == {"integrations"}, "more than the plugin is loaded"
    assert kept(user) == 1


def test_the_entry_point_in_the_package_is_a_module_with_register():
    import tomllib

    with open(os.path.join(CHECKOUT, "pyproject.toml"), "rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["hermes_agent.plugins"]
    assert points == {"safekept": "safekept.integrations.hermes.entry"}
    from safekept.integrations.hermes import entry

    assert callable(entry.register)


def test_the_files_in_a_home_are_for_reading_and_only_the_standard_library_is_used(tmp_path):
    import ast
    import sys

    user = User(str(tmp_path))
    user.connect()
    place = f"{user.home}/plugins/safekept"
    own = {name.removesuffix(".py") for name in os.listdir(place)}
    for name in os.listdir(place):
        assert stat.S_IMODE(os.stat(f"{place}/{name}").st_mode) == 0o644, name
        if not name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(read(f"{place}/{name}"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            roots = {one.split(".")[0] for one in names}
            assert roots <= sys.stdlib_module_names, (name, roots)
            if isinstance(node, ast.ImportFrom) and node.level and node.module:
                assert node.module in own, (name, node.module)
