"""Questions: asked in our own words, until there is an answer, and with nothing drawn over them."""

from __future__ import annotations

import ast
import glob
import os

import click
import pytest
from click.testing import CliRunner

from safekept.cli.commands.setup import answers
from safekept.cli.commands.setup.answers import Answers, Needs, Questions
from safekept.cli.console import Console
from safekept.cli.questions import confirm, prompt
from safekept.core.objects.sftp.connections import Host, _host_key
from safekept.core.owner import Owner
from support.users.contexts import throwaway
from test_map import SOURCE


def asked(question, typed):
    @click.command()
    def command():
        click.echo(f"answer: {question()}")

    return CliRunner().invoke(command, input=typed).output


@pytest.mark.parametrize(("typed", "answer"), [("maybe\ny\n", True), ("ja\nNO\n", False), ("\n", True)])
def test_what_is_neither_yes_nor_no_is_asked_for_again_in_plain_words(typed, answer):
    said = asked(lambda: confirm("Go on?", default=True), typed)
    assert f"answer: {answer}" in said and "Error" not in said
    assert said.count("Go on? [Y/n]: ") == said.count("Please type y or n") + 1 == typed.count("\n")


def test_a_bar_is_off_the_screen_before_anything_is_asked(monkeypatch):
    """Drawn beside a question it takes what stands in brackets for its own markup."""

    class Bar:
        held = paused = False

        def pause(self):
            self.paused = True

    bar, seen = Bar(), []
    monkeypatch.setattr(Console, "_progress", bar)
    monkeypatch.setattr("click.prompt", lambda text, **_: seen.append((text, bar.paused, bar.held)) or "k")
    assert prompt("[k]eep it", default="k") == "k"
    assert seen == [("[k]eep it", True, True)] and not bar.held


def test_every_question_is_asked_in_one_place():
    found = set()
    for path in glob.glob(os.path.join(SOURCE, "**", "*.py"), recursive=True):
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        found |= {
            os.path.relpath(path, SOURCE)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr in ("prompt", "confirm")
            and getattr(node.value, "id", "") == "click"
        }
    assert found == {os.path.join("cli", "questions.py")}


def questions(tmp_path, monkeypatch, typed):
    """The questions of setup with these answers; whoever asks more often than that has no end."""
    left = iter(typed)
    monkeypatch.setattr(answers, "prompt", lambda *_, **__: next(left))
    needs = Needs(passphrase=False, destination=True, connect=False, schedule=False)
    return Questions(Console(as_json=False), throwaway(tmp_path), needs, Answers())


def test_setup_asks_for_a_place_as_long_as_one_is_named_and_says_how_the_same_disk_is_meant(
    tmp_path, monkeypatch, capsys
):
    # Tests may lie in memory, of which other words are said.
    monkeypatch.setattr("safekept.actions.offsite.elsewhere.in_memory", lambda path: False)
    place = str(tmp_path / "second")
    ask = questions(tmp_path, monkeypatch, [place, place, place, f"{place} --same-disk"])
    ask._destination()
    assert ask.answers.destination["url"] == place and ask.answers.destination["same_disk"] is True
    said = " ".join(capsys.readouterr().out.split())
    assert said.count(f"If that disk is meant, type `{place} --same-disk`;") == 3
    assert "same_disk = true" not in said, "there is no table yet"
    assert "No second copy yet" not in said


def test_a_passphrase_that_is_made_is_shown_as_soon_as_it_opens_the_vault(tmp_path, monkeypatch, capsys):
    questions(tmp_path, monkeypatch, [""])._passphrase()
    said = " ".join(capsys.readouterr().out.split())
    assert "one is then made, and shown as soon as it opens the vault." in said


def test_what_is_wrong_with_a_passphrase_is_a_sentence_that_begins_as_one(tmp_path, monkeypatch, capsys):
    questions(tmp_path, monkeypatch, ["abc", "four words are enough", "four words are enough"])._passphrase()
    said = " ".join(capsys.readouterr().out.split())
    assert " A passphrase of 3 characters is too short: at least 8. Once more:" in said


def test_a_server_whose_key_is_unknown_is_refused_with_the_command_that_makes_it_known(
    tmp_path, monkeypatch, capsys
):
    host = Host(name="nas", user="ada", port=2222)

    def refused(*_, **__):
        raise _host_key("sftp://ada@nas:2222/b", host, changed=False)

    monkeypatch.setattr(answers, "tried_place", refused)
    ask = questions(tmp_path, monkeypatch, ["sftp://ada@nas:2222/b", "nowhere yet"])
    ask._destination()
    said = " ".join(capsys.readouterr().out.split())
    assert "compare the fingerprint: `ssh -p 2222 ada@nas`" in said and "No second copy yet" in said


def test_root_is_not_sent_to_a_sudo_that_is_not_there(monkeypatch):
    ada = Owner(1000, 1000, (1000,), "ada", "/home/ada")
    monkeypatch.setattr("safekept.core.owner.ownership._SUDO", ())
    assert ada.in_front == "runuser -u ada --"
    monkeypatch.setattr("safekept.core.owner.ownership._SUDO", ("/",))
    assert ada.in_front == "sudo -u ada"
