"""The plugin in the real Hermes 0.19.0: before each tool changes something, what was there is kept.

Every call goes through Hermes's own way of dispatch, in its own Python; what acts is the plugin that it
found in its home. What was kept is asked for by safekept's own command line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from support.hosts.real_hermes import HermesProcess, User, hermes_process, put, read

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def agent(hermes_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HermesProcess]:
    user = User(str(tmp_path_factory.mktemp("agent")))
    user.connect()
    with hermes_process(hermes_python, user) as process:
        assert process("loaded") == {"safekept": [True, None]}
        yield process


@pytest.fixture
def user(agent: HermesProcess, request: pytest.FixtureRequest) -> User:
    """The same user in a project of this test's own."""
    user = agent.user
    user.project = os.path.join(user.directory, "projects", request.node.name.replace("/", "_")[:80])
    put(f"{user.project}/pyproject.toml", "")
    agent("enter", user.project)
    agent("workspace", "task", user.project)
    return user


def newest(user: User) -> dict:
    """The newest point of the project."""
    return user.ask("rollback")["checkpoints"][0]


def rolled_back(user: User, point: str = "1") -> None:
    """Undo everything since a point, by the command line."""
    done = user.safekept("rollback", point)
    assert done.code == 0, done.out + done.err


# ── tools that name files ──────────────────────────────────────────────────────────────────────────


def test_what_write_file_replaces_is_kept_before(agent, user):
    put(f"{user.project}/a.txt", b"old \xff\r\n")
    agent.tool("write_file", {"path": "a.txt", "content": "new"})
    assert read(f"{user.project}/a.txt") == b"new"
    point = newest(user)
    assert point["reason"] == "before write_file a.txt"
    assert (point["session"], point["turn"]) == ("session", "turn")
    rolled_back(user)
    assert read(f"{user.project}/a.txt") == b"old \xff\r\n"


def test_every_state_within_one_turn_is_kept(agent, user):
    put(f"{user.project}/a.txt", "0")
    for number in range(1, 4):
        agent.tool("write_file", {"path": "a.txt", "content": str(number)})
    rolled_back(user, "2")
    assert read(f"{user.project}/a.txt") == b"1"


def test_a_file_that_was_not_there_is_gone_again(agent, user):
    agent.tool("write_file", {"path": "new/deep/file.txt", "content": "x"})
    rolled_back(user)
    assert read(f"{user.project}/new/deep/file.txt") is None


def test_a_patch_by_replacing_is_undone(agent, user):
    put(f"{user.project}/a.py", "x = 1\n")
    patch = {"mode": "replace", "path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}
    assert agent.tool("patch", patch)["success"] is True
    rolled_back(user)
    assert read(f"{user.project}/a.py") == b"x = 1\n"


def test_every_file_of_a_patch_text_is_kept_also_where_it_is_ignored(agent, user):
    """Moved, deleted, added and updated in one call; none of them is what a pass would have taken."""
    put(f"{user.project}/.gitignore", "ignored/\n")
    before = {
        "ignored/a.txt": b"alpha\n",
        "ignored/gone.txt": b"gone\n",
        "ignored/moved.txt": b"moved\n",
    }
    for name, content in before.items():
        put(f"{user.project}/{name}", content)
    text = """*** Begin Patch
*** Update File: ignored/a.txt
@@
-alpha
+beta
*** Delete File: ignored/gone.txt
*** Move File: ignored/moved.txt -> ignored/there.txt
*** Add File: ignored/new.txt
+new
*** End Patch"""
    assert agent.tool("patch", {"mode": "patch", "patch": text})["success"] is True
    assert read(f"{user.project}/ignored/there.txt") == b"moved\n"
    rolled_back(user)
    assert {name: read(f"{user.project}/{name}") for name in before} == before
    assert read(f"{user.project}/ignored/there.txt") is None
    assert read(f"{user.project}/ignored/new.txt") is None


def test_a_tool_that_only_reads_costs_no_point(agent, user):
    put(f"{user.project}/a.txt", "x")
    agent.tool("read_file", {"path": "a.txt"})
    agent.tool("search_files", {"pattern": "x", "path": "."})
    assert user.ask("rollback")["checkpoints"] == []


def test_strange_arguments_reach_the_tool_as_they_are(agent, user):
    """The tool complains; the plugin does not."""
    for arguments in ({}, {"path": 3, "content": None}, {"path": "a\0b", "content": "x"}):
        assert "error" in agent.tool("write_file", arguments)
    assert "error" in agent.tool("patch", {"mode": "patch", "patch": "*** Update File: "})
    assert "safekept:" not in agent.said()


# ── which path it really is ────────────────────────────────────────────────────────────────────────


def test_a_relative_path_follows_the_cd_of_the_terminal(agent, user):
    put(f"{user.project}/sub/a.txt", "in sub")
    put(f"{user.project}/a.txt", "above")
    agent.tool("terminal", {"command": "cd sub"})
    answer = agent.tool("write_file", {"path": "a.txt", "content": "new"})
    assert answer["resolved_path"] == f"{user.project}/sub/a.txt"
    rolled_back(user)
    assert read(f"{user.project}/sub/a.txt") == b"in sub"
    assert read(f"{user.project}/a.txt") == b"above"


def test_a_patch_text_is_applied_where_its_shell_stands(agent, user):
    """Hermes resolves these names twice, in two ways (its shell is shared by all tasks): both are kept."""
    other = f"{user.directory}/elsewhere-{os.path.basename(user.project)[:20]}"
    for place in (user.project, other):
        put(f"{place}/pyproject.toml", "")
        put(f"{place}/a.txt", "one\n")
    agent.tool("terminal", {"command": f"cd {other}"}, task="another")
    text = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch"
    agent.tool("patch", {"mode": "patch", "patch": text})
    changed = [place for place in (user.project, other) if read(f"{place}/a.txt") == b"two\n"]
    assert len(changed) == 1
    done = user.safekept("rollback", "1", cwd=changed[0])
    assert done.code == 0, done.err
    assert read(f"{changed[0]}/a.txt") == b"one\n"


def test_the_workspace_of_a_conversation_is_its_own(agent, user):
    """As the TUI and editors set it: two conversations in one process, in two projects."""
    other = f"{user.project}-other"
    put(f"{other}/pyproject.toml", "")
    put(f"{other}/a.txt", "theirs")
    agent("workspace", "task-2", other)
    agent.tool("write_file", {"path": "a.txt", "content": "new"}, task="task-2", session="second")
    assert read(f"{other}/a.txt") == b"new"
    done = user.safekept("rollback", "1", cwd=other)
    assert done.code == 0, done.err
    assert read(f"{other}/a.txt") == b"theirs"


def test_a_file_behind_a_link_is_kept_where_it_lies(agent, user):
    put(f"{user.project}/real/a.txt", "real")
    os.symlink("real", f"{user.project}/link")
    agent.tool("write_file", {"path": "link/a.txt", "content": "new"})
    rolled_back(user)
    assert read(f"{user.project}/real/a.txt") == b"real"


def test_a_guess_that_was_wrong_is_said_and_counted(agent, user):
    """Told by Hermes's own answer, in which it says what it opened."""
    given = {
        "tool_name": "write_file",
        "args": {"path": "a.txt", "content": "x"},
        "task_id": "task",
        "session_id": "session",
        "tool_call_id": "wrong",
        "turn_id": "turn",
    }
    agent("hook", "pre_tool_call", **given)
    result = json.dumps({"resolved_path": "/somewhere/else", "files_modified": ["/somewhere/else"]})
    agent("hook", "post_tool_call", **given, status="ok", result=result, duration_ms=1)
    (record,) = json_of(user, "integrations", "hermes.json")
    what = record["last_failure"]["what"]
    assert what.startswith("`write_file` wrote `/somewhere/else`, which was not foreseen")
    assert "1 files were written that had not been foreseen" in agent("command", "safekept")


def json_of(user: User, *names: str) -> Iterator[dict]:
    content = read(os.path.join(user.directory, ".local", "share", "safekept", *names))
    if content:
        yield json.loads(content)


# ── tools that can touch anything ──────────────────────────────────────────────────────────────────


def test_what_a_command_destroys_comes_back(agent, user):
    before = {"a.txt": b"a\n", "src/b.py": b"b\n", "data/c.bin": bytes(range(256))}
    for name, content in before.items():
        put(f"{user.project}/{name}", content)
    agent.tool("terminal", {"command": "rm -rf src data && echo x > a.txt && echo y > new.txt"})
    user.settled()
    assert newest(user)["reason"].startswith("before terminal: rm -rf src data")
    rolled_back(user)
    assert {name: read(f"{user.project}/{name}") for name in before} == before
    assert read(f"{user.project}/new.txt") is None


def test_a_command_with_a_directory_of_its_own_is_kept_there(agent, user):
    other = f"{user.project}-other"
    put(f"{other}/pyproject.toml", "")
    put(f"{other}/a.txt", "theirs")
    agent.tool("terminal", {"command": "rm a.txt", "workdir": other})
    user.settled()
    assert user.safekept("rollback", "1", cwd=other).code == 0
    assert read(f"{other}/a.txt") == b"theirs"


def test_another_project_that_a_command_names_is_kept_too(agent, user):
    other = f"{user.project}-named"
    put(f"{other}/pyproject.toml", "")
    put(f"{other}/src/a.txt", "theirs")
    agent.tool("terminal", {"command": f"cd ../{os.path.basename(other)} && rm -rf src"})
    user.settled()
    assert user.safekept("rollback", "1", cwd=other).code == 0
    assert read(f"{other}/src/a.txt") == b"theirs"


def test_what_code_changes_comes_back(agent, user):
    put(f"{user.project}/a.txt", "old")
    code = "import os; os.unlink('a.txt'); open('b.txt', 'w').write('new')"
    assert agent.tool("execute_code", {"code": code})["status"] == "success"
    assert read(f"{user.project}/a.txt") is None
    user.settled()
    assert newest(user)["reason"] == "before execute_code"
    rolled_back(user)
    assert read(f"{user.project}/a.txt") == b"old"
    assert read(f"{user.project}/b.txt") is None


def test_a_tool_that_code_calls_is_kept_for_itself(agent, user):
    """Hermes gives such a call no session: it belongs to the turn whose code it is."""
    put(f"{user.project}/.gitignore", "ignored\n")
    put(f"{user.project}/ignored", "only copy")
    code = "from hermes_tools import write_file\nwrite_file('ignored', 'new')"
    assert agent.tool("execute_code", {"code": code})["status"] == "success"
    assert read(f"{user.project}/ignored") == b"new"
    user.settled()
    point = newest(user)
    assert point["reason"] == "before write_file ignored"
    assert (point["session"], point["turn"]) == ("session", "turn")
    rolled_back(user)
    assert read(f"{user.project}/ignored") == b"only copy"


def test_a_tool_that_nobody_knows_is_taken_for_one_that_can_do_anything(agent, user):
    put(f"{user.project}/a.txt", "old")
    for tool in ("mcp__files__write", "a_tool_of_another_plugin"):
        agent("hook", "pre_tool_call", tool_name=tool, args={}, task_id="task", session_id="s", turn_id=tool)
        put(f"{user.project}/a.txt", f"by {tool}")
    assert [one["reason"] for one in user.ask("rollback")["checkpoints"]] == [
        "before a_tool_of_another_plugin",
        "before mcp__files__write",
    ]


def test_a_later_edit_of_the_users_own_is_told_from_the_agents(agent, user):
    """The mark after a command: what changed since is not the agent's."""
    put(f"{user.project}/a.txt", "old")
    agent.tool("terminal", {"command": "echo by the agent > a.txt"})
    user.settled()
    put(f"{user.project}/mine.txt", "my own")
    rolled_back(user)
    assert read(f"{user.project}/a.txt") == b"old"
    assert read(f"{user.project}/mine.txt") == b"my own"


def test_many_at_once_are_all_kept(agent, user):
    names = [f"f{number}.txt" for number in range(8)]
    for name in names:
        put(f"{user.project}/{name}", f"old {name}")
    agent("together", [["write_file", {"path": name, "content": "new"}] for name in names])
    points = user.ask("rollback")["checkpoints"]
    rolled_back(user, points[-1]["id"])
    assert [read(f"{user.project}/{name}") for name in names] == [f"old {name}".encode() for name in names]


# ── the home ───────────────────────────────────────────────────────────────────────────────────────

SKILL = "---\nname: {0}\ndescription: a skill\n---\n\n# {0}\n\n{1}\n"


@pytest.fixture
def at_work(agent: HermesProcess, user: User) -> User:
    """A turn in which the agent also changes the project: its home points stand in that timeline."""
    agent.tool("write_file", {"path": "a.txt", "content": "x"})
    return user


def test_a_skill_that_was_changed_comes_back_by_the_same_timeline(agent, at_work):
    user = at_work
    name = "kept-skill"
    put(f"{user.home}/skills/{name}/SKILL.md", SKILL.format(name, "first"))
    put(f"{user.home}/skills/{name}/references/more.md", "more")
    edit = {"action": "edit", "name": name, "content": SKILL.format(name, "second")}
    assert agent.tool("skill_manage", edit)["success"] is True
    point = user.home_point("before skill_manage")
    rolled_back(user, point)
    assert read(f"{user.home}/skills/{name}/SKILL.md") == SKILL.format(name, "first").encode()


def test_a_skill_that_was_deleted_comes_back_whole(agent, at_work):
    user = at_work
    name = "deleted-skill"
    put(f"{user.home}/skills/some-category/{name}/SKILL.md", SKILL.format(name, "text"))
    put(f"{user.home}/skills/some-category/{name}/scripts/run.py", "print(1)\n", 0o755)
    assert agent.tool("skill_manage", {"action": "delete", "name": name})["success"] is True
    assert read(f"{user.home}/skills/some-category/{name}/SKILL.md") is None
    rolled_back(user, user.home_point("before skill_manage"))
    assert read(f"{user.home}/skills/some-category/{name}/SKILL.md") == SKILL.format(name, "text").encode()
    script = f"{user.home}/skills/some-category/{name}/scripts/run.py"
    assert read(script) == b"print(1)\n" and os.stat(script).st_mode & 0o777 == 0o755


def test_a_skill_that_was_made_is_gone_again(agent, at_work):
    user = at_work
    made = {"action": "create", "name": "made-skill", "content": SKILL.format("made-skill", "text")}
    assert agent.tool("skill_manage", made)["success"] is True
    rolled_back(user, user.home_point("before skill_manage"))
    assert not os.path.exists(f"{user.home}/skills/made-skill/SKILL.md")


def test_a_cron_job_that_was_removed_comes_back(agent, at_work):
    user = at_work
    made = agent.tool("cronjob", {"action": "create", "schedule": "every 1h", "prompt": "say hello"})
    before = read(f"{user.home}/cron/jobs.json")
    assert made["success"] and before
    assert agent.tool("cronjob", {"action": "remove", "job_id": made["job_id"]})["success"]
    assert read(f"{user.home}/cron/jobs.json") != before
    rolled_back(user, user.home_point("before cronjob"))
    assert read(f"{user.home}/cron/jobs.json") == before


def test_a_file_written_into_the_home_is_kept_in_its_point(agent, at_work):
    user = at_work
    put(f"{user.home}/memories/NOTES.md", "what I know")
    agent.tool("write_file", {"path": f"{user.home}/memories/NOTES.md", "content": "nothing"})
    assert read(f"{user.home}/memories/NOTES.md") == b"nothing"
    rolled_back(user, user.home_point("before write_file"))
    assert read(f"{user.home}/memories/NOTES.md") == b"what I know"


def test_a_command_that_names_the_home_is_preceded_by_a_point_of_it(agent, user):
    put(f"{user.home}/SOUL.md", "who I am")
    agent.tool("terminal", {"command": f"rm {user.home}/SOUL.md"})
    assert read(f"{user.home}/SOUL.md") is None
    rolled_back(user, user.home_point("before terminal: rm "))
    assert read(f"{user.home}/SOUL.md") == b"who I am"


# ── out of reach ───────────────────────────────────────────────────────────────────────────────────


BACK_ENDS = {
    "docker": "a Docker container",
    "ssh": "another machine (ssh)",
    "modal": "a Modal sandbox",
    "singularity": "a Singularity container",
    "daytona": "a Daytona sandbox",
    "brand-new": "the back end `brand-new`",
}


def test_a_container_or_another_machine_is_recognised_and_nothing_is_mis_saved(hermes_python, tmp_path):
    """Only the hooks run: such a path means something inside the container, and a stranger out here."""
    user = User(str(tmp_path))
    user.connect()
    put(f"{user.project}/a.txt", "of the host")
    with hermes_process(hermes_python, user) as agent:
        for name, words in BACK_ENDS.items():
            agent("environment", TERMINAL_ENV=name)
            agent("hook", "pre_llm_call", session_id=name, turn_id="u", platform="cli")
            for tool, args in (
                ("write_file", {"path": f"{user.project}/a.txt"}),
                ("terminal", {"command": "rm -rf ."}),
            ):
                given = {"tool_name": tool, "args": args, "task_id": "t", "session_id": name, "turn_id": "u"}
                assert agent("hook", "pre_tool_call", **given) == []
            assert f"The tools work in {words}" in agent("command", "safekept")
            assert f"`write_file` works in {words}, out of safekept's reach" in agent.said()
            assert f"`terminal` works in {words}, out of safekept's reach" in agent.said()
        assert user.ask("rollback", "--all-projects")["checkpoints"] == []
        # The server of an MCP tool runs beside Hermes, and the directory in the container is not its own.
        put(f"{user.directory}/stranger/pyproject.toml", "")
        agent("workspace", "t", f"{user.directory}/stranger")
        given = {"tool_name": "mcp__a__b", "args": {}, "task_id": "t", "session_id": "s", "turn_id": "u"}
        agent("hook", "pre_tool_call", **given)
    (point,) = user.ask("rollback", "--all-projects")["checkpoints"]
    assert (point["project"], point["reason"]) == (user.project, "before mcp__a__b")
