"""The commands of profiles lie outside the home: every plan names them, and uninstall says whose they are."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from support.home.homes import make_hermes_home
from support.vault.snapshots import take


@pytest.fixture
def home(here):
    path = os.path.join(here.places.user_home, ".hermes")
    return make_hermes_home(path, profiles=("coder", "writer"), awkward=False)


@pytest.fixture
def another_machine(monkeypatch):
    """Called: from now on this is a machine that made none of the snapshots."""

    def move() -> None:
        system, _, *rest = os.uname()
        monkeypatch.setattr(os, "uname", lambda: os.uname_result((system, "a-new-machine", *rest)))

    return move


@pytest.fixture
def commands(here):
    return os.path.join(here.places.user_home, ".local", "bin")


def states(document):
    return {one["profile"]: (one["state"], one["path"]) for one in document["wrappers"]}


def shown(text):
    return [" ".join(line.split()) for line in text.replace("\n             ", " ").splitlines()]


def test_a_restore_on_the_same_machine_makes_no_command_that_was_not_there(here, home, say, commands):
    take(here, home)
    for gone in (os.path.join(home, "profiles", "writer"), home):
        shutil.rmtree(gone)
        assert json.loads(say("restore", "--dry-run", "--json").out)["wrappers"] == []
        done = say("restore", "--yes")
        assert done.code == 0 and "Command" not in done.out, done
        assert not os.path.exists(commands) and "Removed" not in say("undo").out
        assert say("restore", "--yes").code == 0


@pytest.mark.needs("modes", "a file whose mode the disk does not keep counts as changed")
@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_a_restore_names_the_commands_it_will_make_and_makes_those(
    here, home, say, commands, another_machine
):
    take(here, home)
    another_machine()
    shutil.rmtree(os.path.join(home, "profiles", "writer"))
    os.makedirs(commands)
    with open(os.path.join(commands, "coder"), "w", encoding="utf-8") as file:
        file.write("mine\n")
    path = os.path.join(commands, "writer")
    dry = say("restore", "--dry-run", "--yes")
    assert any(line.startswith(f"Command {path} will start profile writer") for line in shown(dry.out))
    assert any("none for profile coder: another file has that name" in line for line in shown(dry.out))
    planned = json.loads(say("restore", "--dry-run", "--json").out)
    assert states(planned) == {
        "coder": ("skipped", os.path.join(commands, "coder")),
        "writer": ("new", path),
    }
    assert not os.path.exists(path)
    said = say("restore", "--yes").out
    assert said.count(path) == 1, "the plan says it, once"
    assert os.access(path, os.X_OK)
    dry = say("undo", "--dry-run").out
    assert f"Removes {path}" in shown(dry), dry
    assert f"Removed {path}, which the restore had made" in shown(say("undo").out)
    assert not os.path.exists(path)
    assert f"Made again {path}" in shown(say("undo").out)
    os.unlink(path)
    done = json.loads(say("restore", "--yes", "--json").out)
    assert states(done)["writer"] == ("made", path) and os.access(path, os.X_OK)


def test_a_command_that_cannot_be_written_is_said_after_the_restore(
    here, home, say, commands, another_machine
):
    take(here, home)
    another_machine()
    os.makedirs(os.path.dirname(commands), exist_ok=True)
    with open(commands, "w", encoding="utf-8"):
        pass  # a file where the directory should be
    done = shown(say("restore", "--yes").out)
    assert any("none for profile writer: it cannot be written" in line for line in done), done


@pytest.mark.needs("modes", "a file whose mode the disk does not keep counts as changed")
def test_a_command_starts_nothing_before_its_program_is_installed(
    here, home, say, commands, monkeypatch, another_machine
):
    take(here, home)
    another_machine()
    programs = os.path.join(here.places.user_home, "programs")
    os.makedirs(programs)
    monkeypatch.setenv("PATH", programs)
    path = os.path.join(commands, "writer")
    once = f"Command {path} will start profile writer once `hermes` is installed here"
    assert any(line.startswith(once) for line in shown(say("restore", "--dry-run", "--yes").out))
    assert any(line.startswith(once) for line in shown(say("restore", "--yes").out))
    os.unlink(path)
    with open(os.path.join(programs, "hermes"), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o755)
        file.write("#!/bin/sh\n")
    done = shown(say("restore", "--yes").out)
    assert any(line.startswith(f"Command {path} will start profile writer (") for line in done), done


@pytest.mark.needs("proc or programs", "it asks who has a database open")
def test_an_exact_restore_names_no_command_for_a_profile_that_it_removes(
    here, home, say, commands, another_machine
):
    take(here, home)
    another_machine()
    shutil.copytree(os.path.join(home, "profiles", "writer"), os.path.join(home, "profiles", "later"))
    planned = json.loads(say("restore", "--exact", "--dry-run", "--json").out)
    assert set(states(planned)) == {"coder", "writer"}
    done = json.loads(say("restore", "--exact", "--yes", "--json").out)
    assert set(states(done)) == set(os.listdir(commands)) == {"coder", "writer"}


def test_parts_of_a_home_and_another_place_bring_no_commands(
    here, home, say, commands, tmp_path, another_machine
):
    take(here, home)
    another_machine()
    for words in (("SOUL.md",), ("--into", str(tmp_path / "elsewhere"))):
        assert json.loads(say("restore", "--dry-run", "--json", *words).out)["wrappers"] == []
        assert say("restore", "--yes", *words).code == 0
    assert not os.path.exists(commands)


def test_an_import_names_them_too(home, say, commands, tmp_path):
    archive = str(tmp_path / "home.zip")
    assert say("backup", "-o", archive).code == 0
    shutil.rmtree(home)
    planned = json.loads(say("import", archive, "--dry-run", "--json").out)
    assert {state for state, _ in states(planned).values()} == {"new"}
    assert "will start profile writer" in say("import", archive, "--dry-run").out
    done = json.loads(say("import", archive, "--force", "--json").out)
    assert {name: path for name, (state, path) in states(done).items() if state == "made"} == {
        name: path for name, (_, path) in states(planned).items()
    }


def test_so_does_a_rebuild(here, home, say, commands):
    take(here, home)
    shutil.rmtree(home)
    words = ("rebuild", here.places.vault, "--key-file", here.places.vault_key_file, "--home-only")
    assert "will start profile writer" in say(*words, "--dry-run").out
    planned = json.loads(say(*words, "--dry-run", "--json").out)
    done = json.loads(say(*words, "--yes", "--json").out)
    assert {name: path for name, (_, path) in states(planned).items()} == {
        name: os.path.join(commands, name) for name in ("coder", "writer")
    }
    assert {state for state, _ in states(done).values()} == {"made"}


def test_uninstall_says_that_they_are_the_agents_and_leaves_them(here, home, say, commands, another_machine):
    take(here, home)
    another_machine()
    assert say("restore", "--yes").code == 0
    path, other = os.path.join(commands, "writer"), os.path.join(commands, "coder")
    with open(other, "a", encoding="utf-8") as file:
        file.write("# mine now\n")
    dry = say("uninstall", "--dry-run")
    said = " ".join(dry.out.split())
    assert "~/.local/bin/writer (starts profile writer of your agent; it came with a restore)" in said
    assert "local/bin/coder" not in said, "somebody made it his own"
    remains = json.loads(say("uninstall", "--stores", "--dry-run", "--json").out)["remains"]
    assert [one["store"] for one in remains if one["path"] == path] == [False]
    done = say("uninstall", "--stores", "--word", "delete")
    assert done.code == 0 and "~/.local/bin/writer" in done.out and os.path.exists(path)
