"""What is said in two places is the same in both: hosts, tools that only read, markers of projects."""

from __future__ import annotations

import json
import os
import re

import pytest
from ruamel.yaml import YAML

from safekept import __version__
from safekept.checkpoints import project
from safekept.core.spelling import FLAGS
from safekept.integrations import entry
from safekept.integrations.connecting import hosts as connecting
from safekept.integrations.connecting.host import SECONDS
from safekept.integrations.connecting.program import Program
from safekept.integrations.helper import client
from safekept.integrations.hermes.plugin import elsewhere, link
from safekept.integrations.hermes.plugin.hooks import Hooks
from safekept.integrations.hermes.plugin.messages import UserMessages
from safekept.integrations.hosts.event import Event
from safekept.integrations.hosts.handling import find_host
from support.places import CHECKOUT
from support.users.contexts import throwaway

PROGRAM = Program(("/usr/bin/safekept",))


def test_every_host_that_can_be_connected_has_a_hook_by_the_lean_way_and_no_other():
    assert list(entry.HOSTS) == list(connecting.HOSTS)
    for name in entry.HOSTS:
        found = find_host(name)
        assert found is not None and found.name == name == connecting.HOSTS[name].name


def test_the_plugin_knows_a_project_by_the_same_markers():
    assert elsewhere.MARKERS == project.MARKERS


def test_the_lean_client_takes_the_same_words_for_no():
    assert [word for word in FLAGS if not client.wanted({"SAFEKEPT_HELPER": word})] == [
        word for word, flag in FLAGS.items() if not flag
    ]


def test_the_plugin_announces_the_hooks_that_it_registers():
    with open(os.path.join(os.path.dirname(link.__file__), "plugin.yaml"), encoding="utf-8") as file:
        announced = YAML(typ="safe", pure=True).load(file)["provides_hooks"]
    registered = [name for name, _ in Hooks(link.Link(UserMessages()), UserMessages()).callbacks()]
    assert sorted(announced) == sorted([*registered, "pre_gateway_dispatch"])


def written(tmp_path, name: str) -> str:
    [file] = connecting.HOSTS[name].files(throwaway(tmp_path), "")
    return file.put(None, PROGRAM).decode()


@pytest.mark.parametrize("name", ["claude-code", "gemini"])
def test_a_matcher_leaves_out_what_the_hook_would_let_through_and_nothing_else(tmp_path, name):
    before = {"claude-code": "PreToolUse", "gemini": "BeforeTool"}[name]
    matcher = re.compile(json.loads(written(tmp_path, name))["hooks"][before][0]["matcher"])
    answering = find_host(name)
    assert not [tool for tool in answering.tools.reads if matcher.search(tool)]
    for tool in (*answering.tools.writes, "a_tool_that_nobody_knows", "TaskForce", "Reads"):
        assert matcher.search(tool) and answering.tools.touched(tool, Event({}, " ")).anything, tool
    # What a subagent's tools do is told by themselves.
    assert name != "claude-code" or not (matcher.search("Task") or matcher.search("Agent"))


def test_the_matcher_of_cursor_has_every_tool_that_changes_something(tmp_path):
    [entry_] = json.loads(written(tmp_path, "cursor"))["hooks"]["preToolUse"]
    matcher, tools = re.compile(f"^(?:{entry_['matcher']})$"), find_host("cursor").tools
    for tool in (*tools.writes, *tools.patches, "Shell", "MCP:anything"):
        assert matcher.search(tool), tool
    assert not [tool for tool in tools.reads if matcher.search(tool)]


def test_the_file_for_opencode_asks_for_everything_but_what_only_reads(tmp_path):
    text = written(tmp_path, "opencode")
    found = re.search(r"^const reading = new Set\((\[.*\])\)$", text, re.MULTILINE)
    assert set(json.loads(found[1])) == find_host("opencode").tools.reads
    assert f", {SECONDS * 1000})" in text and "MILLISECONDS" not in text


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("claude-code", "claude-code/hooks/hooks.json"),
        ("codex", "codex/hooks/hooks.json"),
        ("gemini", "gemini/hooks/hooks.json"),
    ],
)
def test_the_plugin_of_a_host_has_the_hooks_that_connect_writes(tmp_path, name, file):
    (settings,) = connecting.HOSTS[name].files(throwaway(tmp_path), "")
    with open(os.path.join(CHECKOUT, "extensions", file), encoding="utf-8") as found:
        there = json.load(found)["hooks"]
    assert there == json.loads(settings.lines(Program(("safekept",))))["hooks"]


def test_the_manifests_of_plugins_have_our_version():
    for file in (
        ".claude-plugin/marketplace.json",
        "extensions/claude-code/.claude-plugin/plugin.json",
        "extensions/codex/.codex-plugin/plugin.json",
        "extensions/gemini/gemini-extension.json",
    ):
        with open(os.path.join(CHECKOUT, file), encoding="utf-8") as found:
            document = json.load(found)
        document = document.get("plugins", [document])[0]
        assert (document["name"], document["version"]) == ("safekept", __version__)


def test_the_skill_is_one_wherever_it_is_taken_from():
    """A link among them once became a file with its target in it, which no agent can read."""
    texts = set()
    for above in ("skills", "extensions/claude-code/skills", "extensions/codex/skills"):
        with open(os.path.join(CHECKOUT, above, "safekept", "SKILL.md"), encoding="utf-8") as file:
            texts.add(file.read())
    (text,) = texts
    assert text.startswith("---\nname: safekept\ndescription: ")


def test_every_host_is_given_the_same_time_and_the_plugin_in_hermes_a_third_of_its_limit(tmp_path):
    assert link.DEADLINE + 2 <= 10
    for name, unit in (("claude-code", 1), ("codex", 1), ("cursor", 1), ("gemini", 1000)):
        found = re.findall(r'"timeout": (\d+)', written(tmp_path, name))
        # Codex gives the two events at the end of a turn three seconds, and complains where more is asked.
        shorter = {3} if name == "codex" else set()
        assert found and set(map(int, found)) == {SECONDS * unit} | shorter
