"""A copy that holds the homes of several home directories: what lay below one of them comes back together,
and what did not come is named with the command that brings it."""

from __future__ import annotations

import os
import re
import shlex

import pytest

from safekept.actions.vault.keys.kit_files import write_kit
from safekept.actions.vault.opening import open_vault
from safekept.cli.console import Console
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.vault.snapshots import take


def make_claude_home(home, text):
    os.makedirs(os.path.join(home, "projects"))
    for name, words in (("CLAUDE.md", text), ("settings.json", "{}\n"), ("history.jsonl", "{}\n")):
        with open(os.path.join(home, name), "w", encoding="ascii") as file:
            file.write(words)


@pytest.fixture
def copy(tmp_path):
    """A vault with the homes of two agents below each of two home directories; and its kit."""
    here = throwaway(tmp_path / "gone")
    for name in ("ada", "bob"):
        hermes = make_hermes_home(str(tmp_path / name / ".hermes"), profiles=(), awkward=False)
        with open(os.path.join(hermes, "SOUL.md"), "w", encoding="ascii") as file:
            file.write(f"{name}\n")
        claude = str(tmp_path / name / ".claude")
        make_claude_home(claude, f"{name}\n")
        for home in (hermes, claude):
            take(here, home, check="never")
    with open_vault(here) as repository:
        kit = write_kit(here, repository, str(tmp_path))[0]
    return here.places.vault, kit


@pytest.fixture
def words(copy):
    vault, kit = copy
    return ("rebuild", vault, "--key-file", kit)


@pytest.fixture
def bare(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "bare").mkdir()
    return tmp_path / "bare"


@pytest.fixture
def say(bare, monkeypatch):
    return spoken(monkeypatch, str(bare))


@pytest.fixture
def answers(monkeypatch):
    """What is typed at each question, and what was asked."""
    typed, asked = [], []

    def answer(text, **options):
        asked.append(text)
        got = typed.pop(0)
        return options.get("default", "") if got == "" else got

    monkeypatch.setattr(Console, "can_ask", lambda _: True)
    monkeypatch.setattr("safekept.cli.questions.prompt", answer)
    return typed, asked


def came(bare):
    """What stands in each home that came: whose it was."""
    names = {".hermes": "SOUL.md", ".claude": "CLAUDE.md"}
    return {
        name: (bare / name / file).read_text().strip()
        for name, file in names.items()
        if (bare / name / file).exists()
    }


def test_the_choice_is_a_home_directory_and_all_of_its_homes_come(words, say, bare, tmp_path, answers):
    typed, asked = answers
    typed.append("1")
    done = say(*words, "--home-only")
    assert done.code == 0, done.err
    assert came(bare) == {".hermes": "ada", ".claude": "ada"}
    assert re.search(rf"\n +1  \S+  {re.escape(str(tmp_path))}/ada: \.claude, \.hermes  ", done.err), done.err
    assert re.search(rf"\n +2  \S+  {re.escape(str(tmp_path))}/bob: \.claude, \.hermes  ", done.err), done.err
    assert len(asked) == 1


def test_what_did_not_come_is_named_with_the_command_that_brings_it(words, say, bare, tmp_path, answers):
    answers[0].append("1")
    done = say(*words, "--home-only")
    plain = " ".join(done.out.split())
    for name in (".claude", ".hermes"):
        assert f"Left there {tmp_path}/bob/{name} on {os.uname().nodename}, 1 snapshot" in plain, plain
    commands = re.findall(rf"`safekept (rebuild [^`]*--of {re.escape(str(tmp_path))}/bob/[^`]*)`", plain)
    assert len(commands) == 2, done.out
    assert f"--of {tmp_path}/ada" not in plain, "these are here"
    for command in commands:
        assert say(*shlex.split(command), "--home-only").code == 0, command
    assert came(bare) == {".hermes": "ada", ".claude": "ada"}, (
        "no home of the other is put over one that came"
    )
    found = sorted(
        (bare / name / file).read_text().strip()
        for name in os.listdir(bare)
        for file in ("SOUL.md", "CLAUDE.md")
        if (bare / name / file).exists()
    )
    assert found == ["ada", "ada", "bob", "bob"]


def test_without_a_terminal_the_printed_command_brings_all_of_them(words, say, bare):
    refused = say(*words)
    assert refused.code == 2
    commands = re.findall(r"`safekept (rebuild [^`]*)`", refused.err)
    assert len(commands) == 2, refused.err
    assert say(*shlex.split(commands[1]), "--home-only").code == 0
    assert came(bare) == {".hermes": "bob", ".claude": "bob"}


def test_with_the_kit_alone_the_choice_is_the_same(copy, say, bare, answers):
    answers[0].append("2")
    done = say("rebuild", copy[1], "--home-only")
    assert done.code == 0, done.err
    assert came(bare) == {".hermes": "bob", ".claude": "bob"}


def test_at_the_place_where_they_were_all_of_them_come_without_a_question(words, tmp_path, monkeypatch):
    """The very case of a machine that burnt, and was set up again under the same name."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    os.rename(tmp_path / "ada", tmp_path / "burnt")
    (tmp_path / "ada").mkdir()
    done = spoken(monkeypatch, str(tmp_path / "ada"))(*words, "--home-only")
    assert done.code == 0, done.err
    assert came(tmp_path / "ada") == {".hermes": "ada", ".claude": "ada"}


def test_the_order_is_that_of_the_paths_whichever_is_newest(words, say, tmp_path):
    def listed():
        return re.findall(r"^ +(\d)  \S+  (\S+)", say(*words).err, re.M)

    first = listed()
    assert [path for _, path in first] == [f"{tmp_path}/{name}:" for name in ("ada", "bob")], first


def test_a_single_home_of_them_can_still_be_named(words, say, bare, tmp_path):
    done = say(*words, "--of", f"{tmp_path}/ada/.claude", "--home-only")
    assert done.code == 0, done.err
    assert came(bare) == {".claude": "ada"}
    plain = " ".join(done.out.split())
    assert f"--of {tmp_path}/ada/.hermes" in plain, "the other of the same machine did not come"


def test_a_second_home_of_an_agent_stands_by_itself_and_is_named(words, say, bare, tmp_path, answers):
    here = throwaway(tmp_path / "gone")
    home = make_hermes_home(str(tmp_path / "ada" / "trial"), profiles=(), awkward=False)
    take(here, home, check="never")
    answers[0].append("1")
    done = say(*words, "--home-only")
    assert done.code == 0, done.err
    assert f"{tmp_path}/ada: .claude, .hermes  " in done.err and f"{tmp_path}/ada/trial  hermes" in done.err
    assert came(bare) == {".hermes": "ada", ".claude": "ada"} and len(answers[1]) == 1
    assert f"--of {tmp_path}/ada/trial" in " ".join(done.out.split())


# Where the place is named: only what belongs there.


def test_a_place_that_is_named_gets_only_the_home_of_its_agent(words, say, bare, answers, tmp_path):
    answers[0].append("")
    done = say(*words, "--home", "h/.hermes", "--home-only")
    assert done.code == 0, done.err
    assert ".claude  " not in done.err, "what does not belong there is no choice"
    assert (bare / "h" / ".hermes" / "SOUL.md").read_text() in ("ada\n", "bob\n")
    assert not (bare / "h" / ".hermes" / "CLAUDE.md").exists()


def test_where_the_place_does_not_say_which_agent_is_meant_a_number_has_to_be_typed(
    words, say, bare, answers, tmp_path
):
    typed, asked = answers
    typed += ["", "2"]
    done = say(*words, "--home", "h/somewhere", "--home-only")
    assert done.code == 0, done.err
    assert asked == ["Which one?"] * 2 and "Please type a number from 1 to 4" in done.err
    assert (bare / "h" / "somewhere" / "SOUL.md").read_text() == "ada\n"


def test_a_home_of_another_agent_than_the_name_says_is_asked_about(words, say, bare, tmp_path):
    claude = f"{tmp_path}/ada/.claude"
    refused = say(*words, "--home", "h/.hermes", "--of", claude, "--home-only")
    assert refused.code != 0 and not (bare / "h").exists()
    plain = " ".join((refused.out + refused.err).split())
    assert "/h/.hermes` is for Hermes Agent, and what comes is a home of Claude Code" in plain, plain
    meant = say(*words, "--home", "h/.hermes", "--of", claude, "--home-only", "--yes")
    assert meant.code == 0 and (bare / "h" / ".hermes" / "CLAUDE.md").read_text() == "ada\n"


# A kit that is there, and was not named rightly.


def test_a_misspelt_kit_and_a_directory_with_a_kit_are_answered_with_that_kit(copy, say, tmp_path, bare):
    (tmp_path / "usb").mkdir()
    kit = str(tmp_path / "usb" / os.path.basename(copy[1]))
    os.rename(copy[1], kit)
    for typed in (kit[:-1], str(tmp_path / "usb"), os.path.join("..", "usb", "safekept-kit-x.tx")):
        refused = say("rebuild", typed)
        assert refused.code == 10, refused
        assert f"A kit is there: `safekept rebuild {kit}`" in " ".join(refused.err.split()), refused.err
