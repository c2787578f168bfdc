"""Where a vault holds several homes, a rebuild shows them by their paths and asks which one is meant."""

from __future__ import annotations

import os
import re

import pytest

from safekept.actions.vault.keys.kit_files import write_kit
from safekept.actions.vault.opening import open_vault
from safekept.cli.console import Console
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.vault.snapshots import take


@pytest.fixture
def kit(tmp_path):
    """Of a vault with two homes of one agent and machine, as after a rebuild under another path."""
    here = throwaway(tmp_path / "gone")
    for name, times in (("before", 2), ("now", 1)):
        home = make_hermes_home(str(tmp_path / name / ".hermes"), profiles=(), awkward=False)
        with open(os.path.join(home, "SOUL.md"), "w", encoding="ascii") as file:
            file.write(f"{name}\n")
        for _ in range(times):
            take(here, home, check="never")
    with open_vault(here) as repository:
        return write_kit(here, repository, str(tmp_path))[0]


@pytest.fixture
def say(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "bare").mkdir()
    return spoken(monkeypatch, str(tmp_path / "bare"))


def soul(tmp_path) -> str:
    return (tmp_path / "bare" / ".hermes" / "SOUL.md").read_text()


def test_they_are_listed_by_their_paths_with_their_times_and_a_command_each(kit, say, tmp_path):
    refused = say("rebuild", kit)
    assert refused.code == 2
    lines = refused.err.splitlines()
    time = r"newest \d{4}-\d\d-\d\d \d\d:\d\d, \d+ s old"
    new, old = (rf"{re.escape(str(tmp_path))}/{name}/\.hermes  hermes" for name in ("now", "before"))
    assert re.fullmatch(rf"    1  \S+  {old}  2 snapshots, {time}", lines[1]), lines
    assert re.fullmatch(rf"    2  \S+  {new}  1 snapshot, {time}", lines[2]), lines
    commands = re.findall(r"Home (\d): `safekept ([^`]*)`", refused.err)
    assert [number for number, _ in commands] == ["1", "2"]
    assert say(*commands[0][1].split(), "--home-only", "--yes").code == 0
    assert soul(tmp_path) == "before\n"


@pytest.mark.parametrize(("typed", "meant"), [([""], "now"), (["x", "3", "1"], "before")])
def test_at_a_terminal_it_asks_and_the_newest_is_the_default(kit, say, tmp_path, monkeypatch, typed, meant):
    asked = []

    def answer(text, **options):
        asked.append((text, options.get("default")))
        return typed.pop(0) or options["default"]

    monkeypatch.setattr(Console, "can_ask", lambda _: True)
    monkeypatch.setattr("safekept.cli.questions.prompt", answer)
    done = say("rebuild", kit, "--home-only")
    assert done.code == 0, done.err
    assert soul(tmp_path) == f"{meant}\n" and typed == []
    assert set(asked) == {("Which one? [2]", "2")}
    assert f"  2  {os.uname().nodename}  {tmp_path}/now/.hermes" in done.err
    assert len(asked) == 1 or "Please type a number from 1 to 2" in done.err


def test_who_says_yes_beforehand_is_not_asked_and_nothing_is_guessed(kit, say, tmp_path, monkeypatch):
    monkeypatch.setattr(Console, "can_ask", lambda _: True)
    monkeypatch.setattr("safekept.cli.questions.prompt", lambda *_, **__: pytest.fail("asked"))
    assert say("rebuild", kit, "--yes").code == 2
    nothing = say("rebuild", kit, "--of", "/nowhere")
    assert nothing.code == 10 and "No place that the kit names holds what was asked for:" in nothing.err
    assert not os.path.exists(tmp_path / "bare" / ".hermes")
