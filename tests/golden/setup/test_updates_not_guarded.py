"""Where `setup` cannot put its script before `hermes update`, it says so, with the command that mends it."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from support.users.first_hour import Newcomer, files_of

SETUP = ("setup", "--yes", "--at", "no")


@pytest.fixture
def new(tmp_path):
    """The only `hermes` is the system's, and the user has no directory of programs."""
    machine = Newcomer(tmp_path, profiles=())
    hermes = os.path.join(machine.programs, "hermes")
    with open(hermes, "w", encoding="ascii") as file:
        file.write('#!/bin/sh\necho "theirs: $*"\n')
    os.chmod(hermes, 0o755)
    os.rmdir(machine.own)
    os.rmdir(os.path.dirname(machine.own))
    return machine


def set_up(machine, *more, **environment):
    done = machine.run(*SETUP, "--passphrase-file", machine.secret, *more, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_it_is_said_with_the_command_that_mends_it_and_that_command_does(new):
    path = f"{new.programs}:/usr/bin:/bin"
    said = set_up(new, PATH=path, SHELL="/bin/sh")
    flat = " ".join(said.stdout.split())
    theirs = f"{new.programs}/hermes lies outside your home directory"
    assert f"Updates `hermes update` takes no snapshot first: {theirs}" in flat, said.stdout
    assert "~/.local/bin does not come before it on your PATH" in flat, said.stdout
    assert "`safekept guard -- hermes update`" in flat and "`safekept setup`" in flat, said.stdout
    mend = re.search(r"`(echo [^`]*)`", said.stdout)[1]
    assert not os.path.exists(os.path.join(new.user, ".profile")), "only a person changes that"

    environment = {**new.environment, "PATH": path}
    subprocess.run(["sh", "-c", mend], env=environment, check=True)
    line = '. "$HOME/.profile"; echo "$PATH"'
    later = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True).stdout.strip()
    assert later == f"{new.own}:{path}"
    again = set_up(new, PATH=later)
    assert "`hermes update` takes a snapshot first and looks for losses after" in again.stdout, again.stdout
    assert os.access(os.path.join(new.own, "hermes"), os.X_OK)


def test_a_command_of_somebody_else_is_called_that(new, monkeypatch):
    monkeypatch.setattr("safekept.integrations.hermes.update_wrapper._may_change", lambda path: False)
    said = new.run("setup", "--dry-run", PATH=f"{new.programs}:/usr/bin:/bin").stdout
    assert f"{new.programs}/hermes is not yours to change" in " ".join(said.split()), said


@pytest.mark.parametrize(("shell", "file"), [("/bin/bash", ".bashrc"), ("/usr/bin/zsh", ".zshrc")])
def test_the_command_writes_where_that_shell_reads(new, shell, file):
    plan = new.run("setup", "--dry-run", PATH=f"{new.programs}:/usr/bin:/bin", SHELL=shell)
    assert f"`echo 'PATH=~/.local/bin:$PATH' >> ~/{file}`" in plan.stdout, plan.stdout


def test_a_plan_a_second_run_and_a_program_are_told_too(new):
    path = f"{new.programs}:/usr/bin:/bin"
    plan = json.loads(new.run("setup", "--dry-run", "--json", PATH=path).stdout)
    assert [one["state"] for one in plan["steps"] if one["step"] == "updates"] == ["left out"]
    for _ in range(2):
        document = json.loads(set_up(new, "--json", PATH=path).stdout)
        [step] = [one for one in document["steps"] if one["step"] == "updates"]
        assert step["state"] == "left out" and step["error"]["code"] == "update-not-guarded"
        assert {"verb": "setup", "arguments": []} in step["error"]["commands"]


def test_nothing_is_said_of_it_where_hermes_is_not_to_be_connected(new):
    quiet = set_up(new, "--no-connect", PATH=f"{new.programs}:/usr/bin:/bin")
    assert "hermes update" not in quiet.stdout


def test_a_directory_that_is_on_the_path_and_missing_is_made_and_taken_back(new):
    before = files_of(new.user)
    set_up(new, PATH=f"{new.own}:{new.programs}:/usr/bin:/bin")
    assert os.access(os.path.join(new.own, "hermes"), os.X_OK)
    stores = [os.path.join(new.user, *way) for way in ((".local", "share"), (".config",), (".cache",))]
    environment = {"PATH": f"{new.own}:{new.programs}:/usr/bin:/bin"}
    set_up(new, **environment)  # a second run does not forget who made it
    assert new.run("uninstall", "--yes", **environment).returncode == 0
    after = files_of(new.user, *stores)
    left = {name: fact for name, fact in after.items() if not name.startswith("safekept-kit-")}
    del left[".local"]  # above the stores, which stay
    assert left == before


def test_a_dead_command_of_the_users_own_is_named(new):
    os.makedirs(new.own)
    os.symlink("/nowhere/hermes", os.path.join(new.own, "hermes"))
    said = set_up(new, PATH=f"{new.own}:{new.programs}:/usr/bin:/bin").stdout
    flat = " ".join(said.split())
    assert "~/.local/bin/hermes is in its place, and does not run" in flat, said
    assert "`mv ~/.local/bin/hermes ~/.local/bin/hermes.old`" in flat, said
    assert os.readlink(os.path.join(new.own, "hermes")) == "/nowhere/hermes"
