"""A rebuild where the agent was installed first: its program stays, and the plan says what goes aside."""

from __future__ import annotations

import os

from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.vault.snapshots import take


def test_a_program_that_was_installed_in_the_home_is_still_there_after_a_rebuild(tmp_path, monkeypatch):
    old = throwaway(tmp_path / "old")
    take(old, make_hermes_home(os.path.join(old.places.user_home, ".hermes"), profiles=(), awkward=False))
    new = throwaway(tmp_path / "new")
    say = spoken(monkeypatch, new.places.user_home)
    home = os.path.join(new.places.user_home, ".hermes")
    program = os.path.join(home, "hermes-agent", "venv", "bin", "hermes")
    os.makedirs(os.path.dirname(program))
    with open(program, "w") as file:
        file.write("#!/bin/sh\n")
    with open(os.path.join(home, "config.yaml"), "w") as file:
        file.write("model: fresh\n")
    words = ("rebuild", old.places.vault, "--key-file", old.places.vault_key_file)
    plan = say(*words, "--dry-run").out
    assert "Puts aside config.yaml, as " in plan
    assert "Stays      hermes-agent: the program Hermes Agent itself" in plan
    done = say(*words, "--yes")
    assert done.code == 0, done.err
    assert "Install it" not in done.out and "in no backup" not in done.out
    assert os.path.isfile(program) and os.path.isfile(os.path.join(home, "SOUL.md"))
    (aside,) = [name for name in os.listdir(new.places.user_home) if "before-rebuild" in name]
    assert os.listdir(os.path.join(new.places.user_home, aside)) == ["config.yaml"]
