"""Whoever mistypes a passphrase at a terminal may type it again; a program that gives one is asked once."""

from __future__ import annotations

import os

import click
import pytest

from safekept.actions.archives.sealing import identity_of, new_passphrase
from safekept.actions.vault.keys.keys import add_passphrase
from safekept.actions.vault.keys.passphrase import PASSPHRASE_TRIES, PassphraseTooShort
from safekept.actions.vault.opening import open_vault
from safekept.cli import options
from safekept.cli.commands.vault.options import new_passphrase as new_vault_passphrase
from safekept.cli.console import Console
from safekept.settings import load_settings
from safekept.vault.errors import WrongKey
from safekept.vault.repo import Secret
from support.users.contexts import throwaway


@pytest.fixture
def typed(monkeypatch):
    """What will be typed, and every question that was asked."""
    answers, asked = [], []

    def prompt(text, **_):
        asked.append(text)
        return answers.pop(0)

    monkeypatch.setattr(click, "prompt", prompt)
    monkeypatch.setattr(Console, "can_ask", lambda _: True)
    return answers, asked


def test_a_new_passphrase_of_the_vault_that_is_too_short_is_asked_for_again(typed, capsys):
    answers, asked = typed
    answers += ["short", "four words are enough"]
    secret = new_vault_passphrase(Console(as_json=False), "", "", None, "New passphrase")
    assert secret.text == "four words are enough" and len(asked) == 2
    assert "A passphrase of 5 characters is too short: at least 8" in capsys.readouterr().err
    answers += ["short"] * PASSPHRASE_TRIES
    with pytest.raises(PassphraseTooShort):
        new_vault_passphrase(Console(as_json=False), "", "", None, "New passphrase")
    assert answers == []


def test_the_vault_opens_with_the_third_passphrase_that_is_typed_and_not_with_the_fourth(
    typed, tmp_path, monkeypatch, capsys
):
    here = throwaway(tmp_path)
    with open_vault(here, create=True) as repository:
        add_passphrase(here, repository, Secret("four words are enough"), recovery=True)
    key = here.places.vault_key_file

    os.unlink(key)
    settings = load_settings({"HOME": here.places.user_home})
    answers, asked = typed
    answers += ["a wrong one", "another one", "four words are enough"]
    context = options.context_from(settings, can_ask=True)
    with open_vault(context):
        assert len(asked) == 3
    answers += ["one", "two", "three", "four words are enough"]
    with pytest.raises(WrongKey):
        open_vault(options.context_from(settings, can_ask=True))
    assert len(answers) == 1


def test_what_a_program_gives_is_taken_or_refused_once(tmp_path):
    asked = []

    def short(question, new):
        asked.append(question)
        return "short"

    here = throwaway(tmp_path)
    given = here.changed(ask_passphrase=short, passphrase_is_given=True)
    with pytest.raises(PassphraseTooShort):
        new_passphrase(given, "Passphrase", "nothing")
    assert len(asked) == 1 and identity_of(given).tries == 1
    with pytest.raises(PassphraseTooShort):
        new_passphrase(here.changed(ask_passphrase=short), "Passphrase", "nothing")
    assert len(asked) == 1 + PASSPHRASE_TRIES
    assert asked[-1] == "Too short: at least 8 characters. Passphrase"
    assert identity_of(here.changed(ask_passphrase=short)).tries == PASSPHRASE_TRIES
