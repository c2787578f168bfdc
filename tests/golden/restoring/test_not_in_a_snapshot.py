"""What no snapshot holds, the program of an agent and the command of a profile: said, and left in place."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.vault.snapshots import take

INSTALL = "The program Hermes Agent itself is in no backup. Install it on this machine"


@pytest.fixture
def home(here):
    path = os.path.join(here.places.user_home, ".hermes")
    return make_hermes_home(path, profiles=("writer",), awkward=False)


def command(here, monkeypatch, text):
    directory = os.path.join(here.places.user_home, ".local", "bin")
    os.makedirs(directory)
    path = os.path.join(directory, "hermes")
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)
    monkeypatch.setenv("PATH", directory)


def notes(say, *words):
    done = say("restore", *words, "--yes", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)["notes"]


def test_a_home_that_was_gone_comes_back_without_the_program_and_says_so(here, home, say, monkeypatch):
    command(here, monkeypatch, f'#!/bin/sh\nexec {home}/hermes-agent/venv/bin/hermes "$@"\n')
    take(here, home)
    shutil.rmtree(home)
    assert notes(say) == [INSTALL]


def test_a_program_that_lies_elsewhere_is_not_asked_for(here, home, say, monkeypatch):
    command(here, monkeypatch, "#!/bin/sh\nexec /opt/hermes/bin/hermes\n")
    take(here, home)
    shutil.rmtree(home)
    assert notes(say) == []


def test_a_profile_that_came_back_without_its_command_says_what_starts_it(here, home, say, monkeypatch):
    command(here, monkeypatch, "#!/bin/sh\n")
    take(here, home)
    shutil.rmtree(os.path.join(home, "profiles", "writer"))
    assert notes(say, "profiles/writer") == ["Profile writer has no command of its own: `hermes -p writer`"]
    assert notes(say, "SOUL.md") == []


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
