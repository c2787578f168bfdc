"""Somebody who uses another agent: nobody tells him about Hermes."""

from __future__ import annotations

import os

import pytest

from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.projects.checkpoints import put

COMMANDS = (
    ("status",),
    ("status", "--check"),
    ("doctor",),
    ("snapshot",),
    ("backup",),
    ("sessions", "list"),
    ("drill",),
    ("setup", "--dry-run"),
)


@pytest.fixture
def home(tmp_path, monkeypatch) -> str:
    monkeypatch.delenv("HERMES_HOME", raising=False)
    return os.path.realpath(tmp_path / "user")


def of_opencode(home: str) -> None:
    put(os.path.join(home, ".config", "opencode", "opencode.json"), "{}\n")


def of_claude_and_codex(home: str) -> None:
    put(os.path.join(home, ".claude", "history.jsonl"), "{}\n")
    put(os.path.join(home, ".codex", "history.jsonl"), "{}\n")


@pytest.mark.parametrize("agent", [of_opencode, of_claude_and_codex])
def test_nobody_without_hermes_is_told_about_hermes(agent, home, monkeypatch):
    agent(home)
    say = spoken(monkeypatch, home)
    for words in COMMANDS:
        said = say(*words)
        assert "hermes" not in (said.out + said.err).replace(home, "~").lower(), words


def test_the_schedule_looks_after_the_agents_that_are_here(home, monkeypatch):
    of_claude_and_codex(home)
    say = spoken(monkeypatch, home)
    shown = say("schedule", "show").out
    assert "hermes" not in (shown + say("schedule", "run", "--dry-run").out).replace(home, "~").lower()
    for name in (".claude", ".codex"):
        assert f"snapshot of {home}/{name}\n" in shown, shown
    assert say("schedule", "run").code == 0
    listed = say("snapshot", "list", "--all").out
    assert ".claude" in listed and ".codex" in listed, listed


def test_a_machine_without_any_home_says_just_that(home, monkeypatch):
    of_opencode(home)
    say = spoken(monkeypatch, home)
    assert say("status").out.startswith("Not protected: no agent's home was found here, and none is kept\n")
    said = say("snapshot")
    assert said.err == (
        "No agent's home was found here\n\n"
        "  Kept       Nothing changed\n"
        "  Next       Name the home with `--home PATH` if it is elsewhere\n"
        "             To bring one back onto this machine: `safekept import FILE`\n"
        "  Error      home-not-found\n"
    )


def test_the_schedule_of_a_machine_without_any_home_names_none(home, monkeypatch):
    of_opencode(home)
    shown = spoken(monkeypatch, home)("schedule", "show").out
    assert "hermes" not in shown.replace(home, "~").lower(), shown
    assert shown.endswith(
        "No agent's home was found here, so nothing of one is kept\n"
        "If it is elsewhere, name it: `safekept setup --home PATH`\n"
    )


def test_the_homes_that_are_here_are_named(home, monkeypatch):
    of_claude_and_codex(home)
    said = spoken(monkeypatch, home)("snapshot")
    assert said.code == 1
    assert "There are homes of agents here, and none was named" in said.err
    assert f"`--home PATH`: `{home}/.claude`, `{home}/.codex`" in " ".join(said.err.split())


@pytest.mark.parametrize("how", ["variable", "kept before"])
def test_whoever_has_hermes_is_told_which_home_is_not_there(how, home, monkeypatch):
    of_claude_and_codex(home)
    if how == "variable":
        monkeypatch.setenv("HERMES_HOME", os.path.join(home, "elsewhere"))
        gone = os.path.join(home, "elsewhere")
    else:
        gone = os.path.join(home, ".hermes")
        make_hermes_home(gone, profiles=(), awkward=False)
        assert spoken(monkeypatch, home)("snapshot").code == 0
        os.rename(gone, gone + "-away")
    said = spoken(monkeypatch, home)("snapshot")
    assert f"There is no Hermes Agent home at `{gone}`" in " ".join(said.err.split())
