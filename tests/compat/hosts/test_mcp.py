"""The MCP server, driven by the client of the official SDK: every tool, every refusal, both protocols.

What is proven: nothing changes without the token of exactly the plan that was shown; nothing outside the
roots is touched; a bad client harms nobody.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

import anyio
import pytest
from mcp import MCPError

import safekept
from safekept.actions.hosts.turn_words import keep_words
from safekept.actions.projects.home_points.take import before_home_change
from safekept.actions.projects.turns.turn import turn_id
from safekept.integrations import plan_tokens as tokens
from safekept.integrations.mcp.caller import Caller, client_roots, fallback_roots
from safekept.integrations.mcp.server import make_server
from safekept.settings import load_settings
from safekept.settings.context import context_of
from support.commands.terminals import Terminal
from support.home.homes import differences, make_hermes_home, tree_facts
from support.hosts.mcp_agent import MODES, Agent, Ground, talking
from support.projects.checkpoints import put
from support.projects.turns import Agent as TurnAgent

READ = {"list_checkpoints", "diff", "list_snapshots", "history", "status"}
DESTRUCTIVE = {"roll_back", "restore", "undo"}
TOOLS = READ | DESTRUCTIVE | {"checkpoint", "snapshot"}


@pytest.fixture
def ground(tmp_path, monkeypatch) -> Ground:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    return Ground(str(tmp_path / "user"))


@pytest.fixture
def with_home(ground: Ground) -> Ground:
    make_hermes_home(ground.home, profiles=(), awkward=False)
    return ground


async def changed(agent: Agent, ground: Ground) -> str:
    """A checkpoint, and a change after it; the id."""
    said = await agent.call("checkpoint", reason="before the change")
    assert not said.failed, said
    ground.write("a.txt", "two\n")
    ground.write("new.txt", "new\n")
    os.unlink(ground.path("src", "b.txt"))
    return str(said.data["checkpoint"]["id"])


# ── what is offered ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", MODES)
def test_every_tool_says_whether_it_reads_adds_or_changes(ground, mode):
    async def play(agent: Agent) -> None:
        tools = {tool.name: tool for tool in (await agent.client.list_tools()).tools}
        assert set(tools) == TOOLS
        for name, tool in tools.items():
            hints = tool.annotations
            assert hints is not None, name
            assert hints.read_only_hint is (name in READ), name
            assert hints.destructive_hint is (name in DESTRUCTIVE), name
            assert hints.idempotent_hint is (name in READ), name
            assert hints.open_world_hint is False, name
            assert tool.description, name
            properties = tool.input_schema["properties"]
            assert "roots" not in properties, "what the client's host names is no argument of the agent"
            assert ("confirm" in properties) is (name in DESTRUCTIVE), name
            assert all(one.get("description") for one in properties.values()), name

    ground.run(play, mode=mode)


# ── projects ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", MODES)
def test_a_project_goes_back_and_forth(ground, mode):
    async def play(agent: Agent) -> None:
        before = ground.tree()
        point = await changed(agent, ground)
        after = ground.tree()
        listed = await agent.call("list_checkpoints")
        assert [row["id"] for row in listed.data["checkpoints"]] == [point]
        assert f"#1   {point}" in listed.text
        seen = await agent.call("diff")
        assert "-one\n+two" in seen.data["diff"]
        assert set(seen.data["files"]) == {"a.txt", "new.txt", "src/b.txt"}
        one = await agent.call("diff", checkpoint=point, files=["a.txt"], lines=2)
        assert one.data["files"] == ["a.txt"]
        assert one.data["lines_left_out"] > 0

        plan = await agent.call("roll_back")
        assert not plan.failed
        assert "Nothing was changed" in plan.text
        assert {(step["path"], step["action"]) for step in plan.data["plan"]["steps"]} >= {
            ("a.txt", "restore"),
            ("new.txt", "remove"),
            ("src/b.txt", "recreate"),
        }
        assert ground.tree() == after
        done = await agent.call("roll_back", confirm=plan.token)
        assert not done.failed, done
        assert done.data["changed"] is True
        assert ground.tree() == before

        back = await agent.done("undo")
        assert not back.failed, back
        assert ground.tree() == after

    ground.run(play, mode=mode)


def test_a_whole_turn_goes_back_with_the_token_of_its_plan_within_the_roots_only(with_home, tmp_path):
    ground = with_home
    outside = str(tmp_path / "outside")
    put(os.path.join(outside, "pyproject.toml"), "")
    agent_before = TurnAgent(context_of(load_settings(dict(os.environ))), "session", ground.home)
    before = ground.tree()
    agent_before.turn("turn-1", {ground.project: {"a.txt": "two\n"}}, {"SOUL.md": "another\n"})
    keep_words(agent_before.context.places.data_directory, "session", "turn-1", "private words")
    after = ground.tree()

    async def play(agent: Agent) -> None:
        listed = await agent.call("list_checkpoints")
        name = turn_id("session", "turn-1")
        assert f"turn {name}" in listed.text and "private words" not in listed.text + str(listed.data)
        assert (await agent.call("roll_back", turn=name, files=["a.txt"])).failed
        plan = await agent.call("roll_back", turn="newest")
        assert not plan.failed and "private words" not in plan.text + str(plan.data)
        assert ground.tree() == after
        assert (await agent.call("roll_back", turn=name, confirm="wrong")).failed
        assert ground.tree() == after
        done = await agent.call("roll_back", turn="newest", confirm=plan.token)
        assert not done.failed, done
        assert ground.tree() == before
        back = await agent.done("undo")
        assert not back.failed, back
        assert ground.tree() == after
        agent_before.turn("turn-2", {ground.project: {"a.txt": "3\n"}, outside: {"x.txt": "x\n"}})
        said = await agent.call("roll_back", turn=turn_id("session", "turn-2"))
        assert said.failed and "outside the roots" in said.text

    ground.run(play)


def test_only_the_named_file_goes_back(ground):
    async def play(agent: Agent) -> None:
        point = await changed(agent, ground)
        done = await agent.done("roll_back", checkpoint=point, files=["a.txt"])
        assert not done.failed, done
        assert ground.read("a.txt") == "one\n"
        assert ground.read("new.txt") == "new\n"

    ground.run(play)


def test_what_nothing_would_change_asks_for_no_token(ground):
    async def play(agent: Agent) -> None:
        point = str((await agent.call("checkpoint")).data["checkpoint"]["id"])
        said = await agent.call("roll_back", checkpoint=point)
        assert not said.failed
        assert "confirm" not in said.data
        assert "nothing to confirm" in said.text

    ground.run(play)


# ── the token ──────────────────────────────────────────────────────────────────────────────────────


def test_no_token_but_the_right_one_changes_anything(ground):
    async def play(agent: Agent) -> None:
        await changed(agent, ground)
        other = make_server(ground.roots())
        async with talking(other) as stranger:
            foreign = (await stranger.call("roll_back")).token
        narrow = (await agent.call("roll_back", files=["a.txt"])).token
        mine = (await agent.call("roll_back")).token
        tree = ground.tree()
        nonce, seal = mine.split(".")
        flipped = seal[:-1] + ("0" if seal[-1] != "0" else "1")
        wrong = {
            "foreign": foreign,
            "of another plan": narrow,
            "altered seal": f"{nonce}.{flipped}",
            "no seal": nonce,
            "another nonce": f"x{nonce}.{seal}",
            "rubbish": "yes",
            "long": "x" * 100_000,
        }
        for what, token in wrong.items():
            said = await agent.call("roll_back", confirm=token)
            assert said.failed, what
            assert said.data["error"]["code"] == "confirmation-refused", what
            assert "Kept: Nothing was changed" in said.text, what
            assert said.data["plan"]["steps"], f"{what}: the answer is the plan"
            assert said.data["changed"] is False
            assert ground.tree() == tree, what
        assert not (await agent.call("roll_back", confirm=mine)).failed, "the right one still holds"
        assert ground.read("a.txt") == "one\n"

    ground.run(play)


def test_a_token_is_good_for_one_deed_only(ground):
    async def play(agent: Agent) -> None:
        point = await changed(agent, ground)
        plan = await agent.call("roll_back", checkpoint=point)
        changes = ground.tree()
        assert not (await agent.call("roll_back", checkpoint=point, confirm=plan.token)).failed
        assert not (await agent.done("undo")).failed
        assert ground.tree() == changes, "the very same plan again"
        said = await agent.call("roll_back", checkpoint=point, confirm=plan.token)
        assert said.failed
        assert "it was used already" in said.text
        assert ground.tree() == changes

    ground.run(play)


def test_a_token_ends_when_what_it_is_about_changes(ground):
    async def play(agent: Agent) -> None:
        await changed(agent, ground)
        plan = await agent.call("roll_back")
        ground.write("a.txt", "three\n")
        tree = ground.tree()
        said = await agent.call("roll_back", confirm=plan.token)
        assert said.failed
        assert "changed since" in said.text
        assert ground.tree() == tree
        assert not (await agent.call("roll_back", confirm=said.token)).failed, "the plan as it is now"
        assert ground.read("a.txt") == "one\n"

    ground.run(play)


def test_a_change_between_the_check_and_the_deed_stops_it(ground, monkeypatch):
    """Somebody writes after the token was checked and before the rollback plans for the last time."""
    from safekept.actions.projects import rollback as action

    async def play(agent: Agent) -> None:
        await changed(agent, ground)
        plan = await agent.call("roll_back")
        real = action.plan_rollback

        def late(*arguments: object, **options: object) -> object:
            if not options.get("looking"):
                ground.write("a.txt", "at the last moment\n")
            return real(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(action, "plan_rollback", late)
        said = await agent.call("roll_back", confirm=plan.token)
        assert said.failed
        assert said.data["error"]["code"] == "confirmation-refused"
        assert ground.read("a.txt") == "at the last moment\n"
        assert ground.read("new.txt") == "new\n"

    ground.run(play)


def test_a_project_that_is_gone_comes_back_with_a_token_only(ground):
    async def play(agent: Agent) -> None:
        before = ground.tree()
        assert not (await agent.call("checkpoint", directory=ground.project)).failed
        shutil.rmtree(ground.project)
        for token in ("", "wrong"):
            said = await agent.call("roll_back", directory=ground.project, confirm=token)
            assert said.data["plan"]["steps"]
            assert not os.path.lexists(ground.project), "nothing was made but a plan"
        assert not (await agent.call("roll_back", directory=ground.project, confirm=said.token)).failed
        assert ground.tree() == before

    ground.run(play, roots=ground.roots(os.path.dirname(ground.project)))


def test_a_token_is_good_for_ten_minutes_and_no_longer():
    now = [1000.0]
    given = tokens.Confirmations(clock=lambda: now[0])
    token = given.give("plan")
    now[0] += tokens.LIFETIME
    assert given.refusal(token, "plan") == ""
    now[0] += 1
    assert given.refusal(token, "plan") == tokens.EXPIRED
    assert given.spend(token, "plan") == tokens.EXPIRED
    assert tokens.Confirmations().refusal(token, "plan") == tokens.UNKNOWN
    fresh = given.give("plan")
    assert given.refusal(fresh, "another plan") == tokens.OTHER
    assert given.spend(fresh, "plan") == ""
    assert given.spend(fresh, "plan") == tokens.USED
    assert given.refusal("é.ü", "plan") == tokens.UNKNOWN


def test_two_who_use_one_token_at_once_do_it_once():
    given = tokens.Confirmations()
    for _ in range(50):
        token, answers = given.give("plan"), []
        gate = threading.Barrier(4)

        def spend(token: str = token, gate: threading.Barrier = gate, answers: list[str] = answers) -> None:
            gate.wait()
            answers.append(given.spend(token, "plan"))

        threads = [threading.Thread(target=spend) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers).count("") == 1


# ── the home ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", MODES)
def test_a_file_of_the_home_comes_back(with_home, mode):
    ground = with_home
    soul = os.path.join(ground.home, "SOUL.md")
    with open(soul, encoding="utf-8") as file:
        was = file.read()

    async def play(agent: Agent) -> None:
        taken = await agent.call("snapshot", quick=True, label="before")
        assert not taken.failed, taken
        assert taken.data["complete"] is True
        put(soul, "You are somebody else.\n")
        broken = tree_facts(ground.home, databases="ignore")
        listed = await agent.call("list_snapshots")
        assert [one["label"] for one in listed.data["snapshots"]] == ["before"]
        known = await agent.call("history", path="SOUL.md", diff=True)
        assert known.data["live"] == "changed"
        assert len(known.data["versions"]) == 1

        for token in (
            "",
            "wrong",
            (await agent.call("restore", paths=["memories"])).data.get("confirm", "x"),
        ):
            said = await agent.call("restore", paths=["SOUL.md"], confirm=token)
            assert said.data["plan"]["replace"] == ["SOUL.md"]
            assert tree_facts(ground.home, databases="ignore") == broken
        stale = (await agent.call("restore", paths=["SOUL.md"])).token
        put(soul, "You are a third one.\n")
        assert "changed since" in (await agent.call("restore", paths=["SOUL.md"], confirm=stale)).text
        done = await agent.done("restore", paths=["SOUL.md"])
        assert not done.failed, done
        with open(soul, encoding="utf-8") as file:
            assert file.read() == was

        back = await agent.call("undo", home=ground.home)
        assert back.data["plan"]["returns"] == ["SOUL.md"]
        assert not (await agent.call("undo", home=ground.home, confirm=back.token)).failed
        with open(soul, encoding="utf-8") as file:
            assert file.read() == "You are a third one.\n"
        status = await agent.call("status")
        assert status.data["verdict"]["level"]
        assert status.data["homes"][0]["home"] == ground.home

    ground.run(play, mode=mode)


def test_a_file_of_the_home_is_in_the_timeline_of_the_project(with_home):
    """What hooks kept before a skill changed comes back by its id, with plan and token."""
    ground = with_home
    soul = os.path.join(ground.home, "SOUL.md")
    here = context_of(load_settings(os.environ))
    point = before_home_change(here, ground.home, "hermes", [soul], reason="before skill_manage")
    with open(soul, encoding="utf-8") as file:
        was = file.read()
    put(soul, "You are somebody else.\n")

    async def play(agent: Agent) -> None:
        await changed(agent, ground)
        listed = await agent.call("list_checkpoints", every=True)
        assert [one["id"] for one in listed.data["home_points"]] == [point.id]
        assert "in the agent's home: SOUL.md  before skill_manage" in listed.text
        broken, tree = tree_facts(ground.home, databases="ignore"), ground.tree()
        seen = await agent.call("diff", checkpoint=point.id)
        assert not seen.failed, seen
        assert (seen.data["home"], seen.data["files"]) == (ground.home, ["SOUL.md"])
        assert "+You are somebody else." in seen.data["diff"]
        plan = await agent.call("roll_back", checkpoint=point.id)
        assert plan.data["plan"]["replace"] == ["SOUL.md"]
        assert (await agent.call("roll_back", checkpoint=point.id, confirm="wrong")).failed
        assert tree_facts(ground.home, databases="ignore") == broken
        done = await agent.call("roll_back", checkpoint=point.id, confirm=plan.token)
        assert not done.failed, done
        with open(soul, encoding="utf-8") as file:
            assert file.read() == was
        assert ground.tree() == tree
        assert not (await agent.done("undo", home=ground.home)).failed
        with open(soul, encoding="utf-8") as file:
            assert file.read() == "You are somebody else.\n"

    ground.run(play)


def test_paths_that_lead_out_of_the_home_are_refused(with_home):
    ground = with_home

    async def play(agent: Agent) -> None:
        assert not (await agent.call("snapshot", quick=True)).failed
        before, tree = tree_facts(ground.home, databases="ignore"), ground.tree()
        for path in ("../work/project/a.txt", "/etc/passwd", "..", "nul\0", "", "."):
            for tool, arguments in (("restore", {"paths": [path]}), ("history", {"path": path})):
                said = await agent.call(tool, **arguments)
                assert said.failed or "nothing to confirm" in said.text or said.data["plan"], (tool, path)
                assert "did not expect" not in said.text, (tool, path, said)
                outside = said.data.get("plan", {}).get("outside", [])
                assert outside == [], (tool, path)
        assert differences(before, tree_facts(ground.home, databases="ignore")) == []
        assert ground.tree() == tree

    ground.run(play)


def test_only_homes_of_this_user_are_homes(with_home, tmp_path):
    ground = with_home
    other = str(tmp_path / "other" / ".hermes")
    make_hermes_home(other, profiles=(), awkward=False)
    before = tree_facts(other)

    async def play(agent: Agent) -> None:
        link = os.path.join(ground.user, "link")
        os.symlink(other, link)
        for home in (other, link, os.path.join(ground.home, "..", "..", "other", ".hermes"), ground.project):
            for tool, more in (
                ("snapshot", {}),
                ("list_snapshots", {}),
                ("history", {"path": "SOUL.md"}),
                ("restore", {"paths": ["SOUL.md"]}),
                ("undo", {}),
                ("status", {}),
            ):
                said = await agent.call(tool, home=home, **more)
                assert said.failed, (tool, home)
                assert said.data["error"]["code"] == "not-your-home", (tool, home)
                assert "Kept: Nothing changed" in said.text
        assert tree_facts(other) == before

    ground.run(play)


# ── roots ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", MODES)
def test_a_project_outside_the_roots_of_the_client_is_refused(ground, tmp_path, mode):
    outside = str(tmp_path / "outside")
    put(os.path.join(outside, "pyproject.toml"), "[project]\n")
    os.symlink(outside, ground.path("link"))
    ways = [
        outside,
        "..",
        "../..",
        os.path.join("..", "..", "..", "outside"),
        "link",
        ground.path("link"),
        "/",
    ]

    async def play(agent: Agent) -> None:
        for directory in ways:
            for tool in ("list_checkpoints", "diff", "checkpoint", "roll_back", "undo"):
                said = await agent.call(tool, directory=directory)
                assert said.failed, (tool, directory)
                assert said.data["error"]["code"] == "outside-roots", (tool, directory)
                assert "Kept: Nothing changed" in said.text
        said = await agent.call("checkpoint", files=[os.path.join(outside, "pyproject.toml")])
        assert said.data["error"]["code"] == "outside-roots"
        assert not (await agent.call("checkpoint")).failed, "its own root is fine"

    # What the client names counts, and not where the server was started.
    ground.run(play, mode=mode, roots=ground.roots_at(outside), named=[f"file://{ground.project}"])


@pytest.mark.parametrize("mode", MODES)
def test_a_root_inside_a_project_gives_no_right_to_the_project(ground, mode):
    async def whole(agent: Agent) -> None:
        await changed(agent, ground)

    ground.run(whole, mode=mode)
    os.makedirs(ground.path("src"), exist_ok=True)
    tree = ground.tree()

    async def play(agent: Agent) -> None:
        for tool in ("checkpoint", "list_checkpoints", "diff", "roll_back"):
            said = await agent.call(tool)
            assert said.failed, tool
            assert said.data["error"]["code"] == "outside-roots", tool
            assert f"`safekept mcp --root {ground.project}`" in said.text
        assert ground.tree() == tree

    ground.run(play, mode=mode, named=[f"file://{ground.path('src')}"])


def test_what_a_person_allowed_bounds_what_a_client_names(ground, tmp_path):
    async def refused(agent: Agent) -> None:
        said = await agent.call("list_checkpoints", directory=str(tmp_path))
        assert said.data["error"]["code"] == "outside-roots"

    async def allowed(agent: Agent) -> None:
        assert not (await agent.call("checkpoint")).failed

    ground.run(refused, roots=ground.roots(ground.project), named=["file:///"])
    ground.run(allowed, roots=ground.roots(ground.project), named=["file:///"])


@pytest.mark.parametrize("named", [[], ["file://elsewhere/x"], ["file:///nul%00"]], ids=str)
def test_a_client_that_names_no_usable_root_gets_nothing(ground, named):
    async def play(agent: Agent) -> None:
        said = await agent.call("checkpoint")
        assert said.failed
        assert "This session has no root" in said.text
        assert "`safekept mcp --root DIR`" in said.text

    ground.run(play, named=named)


def test_where_a_client_has_no_roots_the_server_says_them(ground, tmp_path):
    here, claude, given = (str(tmp_path / name) for name in ("here", "claude", "given"))
    environment = {"CLAUDE_PROJECT_DIR": claude}
    assert fallback_roots([given], environment, here).usable == (given,)
    assert fallback_roots([], environment, here).usable == (claude,)
    assert fallback_roots([], {}, here).usable == (here,)


def test_only_directories_of_this_machine_are_roots(tmp_path):
    nothing = fallback_roots([], {}, str(tmp_path))
    bad = ["https://example.com/x", "/plain/path", "file:", "file://[", "file://host/x", "x" * 9999, ""]
    assert client_roots(bad, nothing).usable == ()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "place")
    assert client_roots([*bad, f"file://{link}"], nothing).usable == (str(tmp_path / "place"),)


def test_an_address_with_escapes_is_a_root(ground):
    strange = os.path.join(ground.user, "work", "a b#c")
    put(os.path.join(strange, "pyproject.toml"), "[project]\n")

    async def play(agent: Agent) -> None:
        said = await agent.call("checkpoint")
        assert said.data["project"] == strange, said

    ground.run(play, named=[f"file://{ground.user}/work/a%20b%23c"])


def test_a_bare_undo_means_the_project_of_the_session_and_names_what_is_newer_elsewhere(with_home):
    ground = with_home
    safekept.snapshot()

    async def play(agent: Agent) -> None:
        await changed(agent, ground)
        after = ground.tree()
        rolled_back = (await agent.done("roll_back")).data["operation"]
        soul = os.path.join(ground.home, "SOUL.md")
        put(soul, "You are a third one.\n")
        newer = safekept.restore(paths=["SOUL.md"], yes=True).operation
        plan = await agent.call("undo")
        assert plan.data["undoes"]["operation"] == rolled_back
        assert f"Not the newer restore {newer}" in plan.text
        assert not (await agent.call("undo", confirm=plan.token)).failed
        assert ground.tree() == after
        with open(soul, encoding="utf-8") as file:
            assert file.read() != "You are a third one.\n", "the home was left alone"

    ground.run(play)


def test_undo_does_not_reach_a_project_outside(ground, tmp_path):
    async def play(agent: Agent) -> None:
        await changed(agent, ground)
        done.append(str((await agent.done("roll_back")).data["operation"]))

    done: list[str] = []
    ground.run(play)
    tree = ground.tree()
    elsewhere = str(tmp_path / "elsewhere")
    put(os.path.join(elsewhere, "pyproject.toml"), "[project]\n")

    operation = done[0]

    async def other(agent: Agent) -> None:
        said = await agent.call("undo")
        assert said.failed
        assert said.data["error"]["code"] == "nothing-to-undo", "the last change is not one of this session's"
        for word in (operation, operation.rpartition("-")[2]):
            said = await agent.call("undo", operation=word)
            assert said.failed
            assert said.data["error"]["code"] == "outside-roots", word

    ground.run(other, roots=ground.roots_at(elsewhere))
    assert ground.tree() == tree


# ── resources ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", MODES)
def test_timelines_and_diffs_can_be_read(ground, mode):
    async def play(agent: Agent) -> None:
        client = agent.client
        templates = {one.uri_template for one in (await client.list_resource_templates()).resource_templates}
        assert templates == {"safekept://timeline/{project}", "safekept://diff/{project}/{checkpoint}"}
        assert (await client.list_resources(cache_mode="bypass")).resources == []
        point = await changed(agent, ground)
        listed = (await client.list_resources(cache_mode="bypass")).resources
        timeline, last = (str(one.uri) for one in listed)
        rows = json.loads((await client.read_resource(timeline)).contents[0].text)
        assert [row["id"] for row in rows["checkpoints"]] == [point]
        assert "+two" in (await client.read_resource(last)).contents[0].text
        by_id = last.rpartition("/")[0] + "/" + point
        assert "+two" in (await client.read_resource(by_id)).contents[0].text
        for bad in ("safekept://timeline/0000000000000000", "safekept://timeline/..%2F..", by_id + "x"):
            with pytest.raises(MCPError):
                await client.read_resource(bad)

    ground.run(play, mode=mode, roots=ground.roots(ground.project))


@pytest.mark.parametrize("mode", MODES)
def test_resources_outside_the_roots_are_neither_listed_nor_read(ground, tmp_path, mode):
    async def play(agent: Agent) -> None:
        await changed(agent, ground)
        listed = (await agent.client.list_resources(cache_mode="bypass")).resources
        addresses.extend(str(one.uri) for one in listed)

    addresses: list[str] = []
    ground.run(play, mode=mode)
    assert len(addresses) == 2
    elsewhere = str(tmp_path / "elsewhere")
    os.makedirs(elsewhere)

    async def other(agent: Agent) -> None:
        assert (await agent.client.list_resources(cache_mode="bypass")).resources == []
        for address in addresses:
            with pytest.raises(MCPError, match="within the roots of this session"):
                await agent.client.read_resource(address)

    ground.run(other, mode=mode, named=[f"file://{elsewhere}"])


# ── bad input ──────────────────────────────────────────────────────────────────────────────────────


def test_errors_say_what_happened_what_was_kept_and_what_to_do(ground):
    async def play(agent: Agent) -> None:
        said = await agent.call("roll_back", checkpoint="99")
        assert said.failed
        assert said.data["error"]["code"] == "no-checkpoints"
        await changed(agent, ground)
        said = await agent.call("roll_back", checkpoint="99")
        assert said.data["error"]["code"] == "no-such-checkpoint"
        for word in ("Error (no-such-checkpoint): ", "Kept: Nothing was changed", "Next: "):
            assert word in said.text
        tree = ground.tree()
        for tool, arguments in (
            ("roll_back", {"checkpoint": "../../etc"}),
            ("roll_back", {"files": ["../../../etc/passwd"]}),
            ("roll_back", {"files": ["nul\0"]}),
            ("roll_back", {"directory": "nul\0"}),
            ("diff", {"files": ["/etc/passwd"]}),
            ("checkpoint", {"files": ["nul\0"]}),
            ("history", {"path": "nul\0", "home": "nul\0"}),
            ("restore", {"paths": []}),
            ("roll_back", {"checkpoint": {"a": 1}}),
            ("list_checkpoints", {"limit": -1}),
            ("no_such_tool", {}),
        ):
            try:
                said = await agent.call(tool, **arguments)
            except MCPError:
                continue
            assert said.failed, (tool, arguments)
            assert "did not expect" not in said.text, said
            assert ground.tree() == tree

    ground.run(play)


def test_names_of_any_bytes_can_be_told(ground):
    async def play(agent: Agent) -> None:
        assert not (await agent.call("checkpoint")).failed
        with open(os.fsencode(ground.project) + b"/bad\xff\x1b[31m.txt", "wb") as file:
            file.write(b"x")
        said = await agent.call("roll_back")
        assert "bad\\xff\\x1b[31m.txt" in said.text
        assert "\x1b" not in said.text
        assert not (await agent.call("roll_back", confirm=said.token)).failed

    ground.run(play, mode="legacy")


def test_a_line_without_an_end_does_not_fill_the_conversation(ground):
    async def play(agent: Agent) -> None:
        ground.write("big.txt", "x\n")
        assert not (await agent.call("checkpoint")).failed
        ground.write("big.txt", "y" * 200_000 + "\n" + "z\n" * 5_000)
        said = await agent.call("diff", lines=20_000)
        assert len(said.text) < 600_000
        assert "letters)" in said.text
        short = await agent.call("diff")
        assert short.data["lines_left_out"] > 4_000

    ground.run(play)


POOL: dict[str, list[object]] = {
    "string": [
        *("", ".", "..", "../..", "/", "/etc", "a.txt", "src", "SOUL.md", "state.db", "memories", "new.txt"),
        *("1", "2", "99", "-1", "latest", "x" * 5000, "\u202e\u0000", "é\n\t", "--root", "$(id)", "`id`"),
        *("confirm", "aaaa.bbbb", "a.b.c"),
    ],
    "array": [[], ["a.txt"], ["..", "/etc/passwd"], [1], [[]], ["src/b.txt"], ["SOUL.md", "skills"], [""]],
    "integer": [1, 5, 0, -1, 10**30, 500, 501],
    "boolean": [True, False],
    "": [None, 1.5, {}, {"a": [1]}, "text", 7, [None]],
}


def test_whatever_arguments_a_model_invents_nothing_changes(with_home):
    _storm(with_home, seed=7, calls=80)


@pytest.mark.soak("hooks")
@pytest.mark.parametrize("seed", range(3))
def test_whatever_arguments_a_model_invents_nothing_changes_at_length(with_home, seed):
    _storm(with_home, seed=seed, calls=500)


def _storm(ground: Ground, seed: int, calls: int) -> None:
    """Calls with arguments out of a hat, among them tokens that belong to other plans."""
    dice = random.Random(seed)

    async def play(agent: Agent) -> None:
        schemas = {one.name: one.input_schema for one in (await agent.client.list_tools()).tools}
        assert not (await agent.call("snapshot", quick=True)).failed
        await changed(agent, ground)
        put(os.path.join(ground.home, "SOUL.md"), "changed\n")
        other = await agent.call("roll_back", files=["new.txt"])  # a plan that the hat does not hold
        strings = [*POOL["string"], other.token, ground.project, ground.home]
        tree, home = ground.tree(), tree_facts(ground.home, databases="ignore")
        for number in range(calls):
            tool, arguments = dice.choice(sorted(schemas)), dict[str, object]()
            for name, kind in [*schemas[tool]["properties"].items(), ("unknown", {})]:
                if dice.random() < 0.4 or (name in schemas[tool].get("required", ()) and dice.random() < 0.9):
                    fitting = kind.get("type", "") if dice.random() < 0.9 else ""
                    arguments[name] = dice.choice(strings if fitting == "string" else POOL[fitting])
            try:
                said = await agent.call(tool, **arguments)
            except MCPError:
                continue
            assert "did not expect" not in said.text, (number, tool, arguments, said)
        assert ground.tree() == tree
        assert differences(home, tree_facts(ground.home, databases="ignore")) == []

    ground.run(play, mode="legacy")


def test_two_clients_at_once_both_get_their_answers(ground):
    server = make_server(ground.roots())

    async def main() -> None:
        async def one(name: str) -> None:
            async with talking(server, mode="legacy") as agent:
                for number in range(3):
                    ground.write(f"{name}-{number}.txt", f"{name} {number}\n")
                    said = await agent.call("checkpoint", reason=f"{name} {number}")
                    assert not said.failed, said
                    assert not (await agent.call("list_checkpoints")).failed

        async with anyio.create_task_group() as group:
            group.start_soon(one, "first")
            group.start_soon(one, "second")
        async with talking(server) as agent:
            listed = await agent.call("list_checkpoints", every=True, limit=100)
            reasons = {row["reason"] for row in listed.data["checkpoints"]}
            assert {f"{name} {number}" for name in ("first", "second") for number in range(3)} <= reasons

    anyio.run(main)


def test_a_call_that_is_cancelled_ends_whole(ground, monkeypatch):
    """The client gives up while the rollback runs: the rollback is not cut in two."""
    from safekept.integrations.mcp import projects

    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    real = projects.rolled_back

    def slow(outcome: object) -> object:
        began.set()
        go_on.wait(300)
        ended.set()
        return real(outcome)  # type: ignore[arg-type]

    async def play(agent: Agent) -> None:
        await changed(agent, ground)
        plan = await agent.call("roll_back")
        monkeypatch.setattr(projects, "rolled_back", slow)
        async with anyio.create_task_group() as group:
            group.start_soon(_quietly, agent, plan.token)
            while not began.is_set():
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
            go_on.set()
        assert not (await agent.call("list_checkpoints")).failed, "the server goes on"
        assert ended.is_set()
        assert ground.read("a.txt") == "one\n"

    ground.run(play, mode="legacy")


@pytest.mark.parametrize("mode", MODES)
def test_long_work_says_how_far_it_is(ground, mode, monkeypatch):
    from safekept.core.events import Event
    from safekept.integrations.mcp import homes
    from safekept.integrations.mcp.answers import ToolAnswer

    heard = threading.Event()
    messages: list[str | None] = []

    def slow(caller: Caller, *arguments: object) -> ToolAnswer:
        caller.listener(Event("store", 3, 40, "files"))
        assert heard.wait(300), "nothing was told while the work went on"
        return ToolAnswer(["done"])

    async def listen(done: float, total: float | None, message: str | None) -> None:
        messages.append(message)
        heard.set()

    async def play(agent: Agent) -> None:
        monkeypatch.setattr(homes, "snapshot", slow)
        await agent.client.call_tool("snapshot", {}, progress_callback=listen)
        assert messages[0] == "store 3 of 40 files"

    ground.run(play, mode=mode)


def test_a_call_that_is_given_up_while_it_waits_is_not_begun(ground, monkeypatch):
    from safekept.integrations.mcp import projects
    from safekept.integrations.mcp.answers import ToolAnswer

    began, go_on, ran = threading.Event(), threading.Event(), []

    def slow(caller: Caller, directory: str, *arguments: object) -> ToolAnswer:
        ran.append(directory)
        began.set()
        go_on.wait(300)
        return ToolAnswer(["done"])

    async def play(agent: Agent) -> None:
        monkeypatch.setattr(projects, "list_checkpoints", slow)
        async with anyio.create_task_group() as first:
            first.start_soon(_listing, agent, "first")
            while not began.is_set():
                await anyio.sleep(0.01)
            async with anyio.create_task_group() as second:
                second.start_soon(_listing, agent, "second")
                await anyio.wait_all_tasks_blocked()
                second.cancel_scope.cancel()
            go_on.set()
        assert not (await agent.call("status")).failed, "the lane is free again"
        assert ran == ["first"]

    ground.run(play, mode="auto")


async def _listing(agent: Agent, directory: str) -> None:
    await agent.call("list_checkpoints", directory=directory)


async def _quietly(agent: Agent, token: str) -> None:
    await agent.call("roll_back", confirm=token)


# ── the real program ───────────────────────────────────────────────────────────────────────────────


def test_the_real_program_serves_every_tool_over_its_streams(with_home):
    ground = with_home
    soul = os.path.join(ground.home, "SOUL.md")

    async def main() -> None:
        async with talking(ground.program("--root", ground.project), mode="legacy") as agent:
            before = ground.tree()
            point = await changed(agent, ground)
            assert (await agent.call("list_checkpoints")).data["checkpoints"][0]["id"] == point
            assert "+two" in (await agent.call("diff")).text
            tree = ground.tree()
            assert (await agent.call("roll_back", confirm="no")).failed
            assert ground.tree() == tree
            assert not (await agent.done("roll_back")).failed
            assert ground.tree() == before
            assert not (await agent.done("undo", directory=ground.project)).failed
            assert ground.tree() == tree
            progress: list[str | None] = []

            async def heard(done: float, total: float | None, message: str | None) -> None:
                progress.append(message)

            result = await agent.client.call_tool("snapshot", {}, progress_callback=heard)
            assert not result.is_error
            put(soul, "Broken\n")
            assert (await agent.call("list_snapshots")).data["snapshots"]
            assert (await agent.call("history", path="SOUL.md")).data["live"] == "changed"
            assert not (await agent.done("restore", paths=["SOUL.md"])).failed
            assert "Partly protected: the only key of the vault" in (await agent.call("status")).text
            assert len((await agent.client.list_resources()).resources) == 2

    anyio.run(main)


def test_two_servers_of_one_user_share_the_store_and_no_token(ground):
    async def main() -> None:
        async with talking(ground.program()) as one, talking(ground.program()) as two:
            await changed(one, ground)
            plan = await one.call("roll_back")
            tree = ground.tree()
            assert (await two.call("roll_back", confirm=plan.token)).failed
            assert ground.tree() == tree
            assert not (await one.call("roll_back", confirm=plan.token)).failed
            assert ground.read("a.txt") == "one\n"

    anyio.run(main)


def talk(
    ground: Ground, lines: list[bytes], *options: str, until: int | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Say all of it, and go; but not before the answer `until`, since who goes wants no answer any more."""
    program = ground.program(*options)
    words, said = [program.command, *program.args], b"".join(line + b"\n" for line in lines)
    if until is None:
        return subprocess.run(
            words, input=said, capture_output=True, cwd=program.cwd, env=program.env, timeout=300
        )
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=program.cwd,
            env=program.env,
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(said)
        process.stdin.flush()
        heard = []
        for line in process.stdout:
            heard.append(line)
            if json.loads(line).get("id") == until:
                break
        process.stdin.close()
        heard.append(process.stdout.read())
        code = process.wait(300)
        errors.seek(0)
        return subprocess.CompletedProcess(words, code, b"".join(heard), errors.read())


def message(number: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


HELLO = message(
    1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "x", "version": "1"}
)
READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def test_rubbish_from_a_client_ends_nothing_and_reaches_nobody(ground):
    rubbish = [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe\x00",
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"1.0","id":7,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":{},"method":5}',
        message(8, "no/such/method"),
        message(9, "tools/call"),
        message(10, "tools/call", name="roll_back", arguments="text"),
        b"x" * 300_000,
        b"[" * 20_000,
    ]
    done = talk(ground, [*rubbish[:6], HELLO, READY, *rubbish, message(99, "tools/list")], until=99)
    assert done.returncode == 0, done.stderr.decode()
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers), "nothing but the protocol is on stdout"
    last = [answer for answer in answers if answer.get("id") == 99]
    assert len(last[0]["result"]["tools"]) == len(TOOLS)


def test_a_client_that_goes_ends_the_server_quietly(ground):
    done = talk(ground, [HELLO, READY], until=1)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_while_the_client_is_there(ground, number):
    program = ground.program()
    with subprocess.Popen(
        [program.command, *program.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=program.cwd,
        env=program.env,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdin.write(HELLO + b"\n")
        server.stdin.flush()
        assert b'"result"' in server.stdout.readline()
        server.send_signal(number)
        assert server.wait(300) == 128 + number
        assert b"Traceback" not in server.stderr.read()


def test_a_client_that_goes_in_the_middle_leaves_no_half_rollback(ground):
    program = ground.program()
    before = ground.tree()

    async def take() -> None:
        async with talking(make_server(ground.roots())) as agent:
            await changed(agent, ground)

    anyio.run(take)
    with subprocess.Popen(
        [program.command, *program.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=program.cwd,
        env=program.env,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def say(*lines: bytes) -> None:
            server.stdin.write(b"".join(line + b"\n" for line in lines))  # type: ignore[union-attr]
            server.stdin.flush()  # type: ignore[union-attr]

        say(HELLO, READY, message(2, "tools/call", name="roll_back", arguments={}))
        while (answer := json.loads(server.stdout.readline())).get("id") != 2:
            pass
        token = answer["result"]["structuredContent"]["confirm"]
        after = ground.tree()
        say(message(3, "tools/call", name="roll_back", arguments={"confirm": token}))
        server.stdin.close()
        server.stdout.read()
        assert server.wait(300) == 0
    assert ground.tree() in (before, after), "all of it, or nothing"


def test_the_server_reads_claudes_project_directory(ground, tmp_path):
    elsewhere = str(tmp_path / "elsewhere")
    put(os.path.join(elsewhere, "pyproject.toml"), "[project]\n")

    async def main() -> None:
        program = ground.program(environment={"CLAUDE_PROJECT_DIR": elsewhere})
        async with talking(program) as agent:
            assert (await agent.call("checkpoint")).data["project"] == elsewhere

    anyio.run(main)


def test_without_the_sdk_it_says_what_to_install(ground):
    program = ground.program()
    script = (
        "import sys\nsys.modules['mcp'] = None\nfrom safekept.cli.main import run\nsys.exit(run(['mcp']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env=program.env, timeout=300, text=True
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "mcp-missing" in done.stderr
    assert "No server was started" in done.stderr
    assert f"`{sys.executable} -m pip install 'mcp>=2.3'`" in done.stderr


def test_a_person_who_starts_it_is_told_what_it_is(ground):
    words = (sys.executable, "-I", "-m", "safekept", "mcp", "--root", ground.project)
    environment = {"HOME": ground.user, "PATH": os.environ["PATH"], "TERM": "xterm"}
    with Terminal(*words, environment=environment) as terminal:
        terminal.until("an agent's host starts it and speaks to it. Ctrl-C ends it.")
        terminal.hang_up()
        terminal.process.wait(300)


def test_a_root_that_is_not_there_is_said(ground):
    done = talk(ground, [], "--root", "/no/such/place")
    assert done.returncode == 2
    assert b"no-such-root" in done.stderr
    assert done.stdout == b""


def test_no_other_command_pays_for_the_sdk(ground):
    script = "import sys\nimport safekept.cli.main, safekept.integrations\nsys.exit('mcp' in sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", script], env=ground.program().env, timeout=300)
    assert done.returncode == 0
