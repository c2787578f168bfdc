"""An agent's home at an unusual place: named once, at `setup`, and every later command knows it.

So it is with a home that was brought over from another machine, with the plugin of that machine in it.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib

import pytest

from support.home.homes import make_hermes_home
from support.users.first_hour import Newcomer


def settled(machine):
    """What the settings file says."""
    with open(os.path.join(machine.user, ".config", "safekept", "config.toml"), "rb") as file:
        return tomllib.load(file)


def set_up(machine, home, *more):
    words = ("setup", "--yes", "--passphrase-file", machine.secret, "--at", "04:10", "--home", home)
    done = machine.run(*words, *more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def scopes_of(machine):
    """The homes and profiles of Hermes that are connected and work."""
    hosts = json.loads(machine.run("connect", "--json").stdout)["hosts"]
    places = next(one["places"] for one in hosts if one["host"] == "hermes")
    return [one["scope"] for one in places if not one["trouble"]]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A machine whose one home is at `~/agents/hermes`, set up; and what `setup` said."""
    machine = Newcomer(tmp_path_factory.mktemp("elsewhere"), agent=False)
    home = os.path.join(machine.user, "agents", "hermes")
    make_hermes_home(home, profiles=("coder",), awkward=False)
    return machine, home, set_up(machine, home)


def test_the_home_that_setup_was_given_is_remembered_and_said_so(elsewhere):
    machine, home, said = elsewhere
    assert settled(machine)["home"] == home
    assert "Home       ~/agents/hermes, remembered: no command needs `--home` for it" in said


def test_plain_commands_know_that_home(elsewhere):
    machine, home, _ = elsewhere
    assert machine.run("snapshot").returncode == 0
    assert f"Restore into {home}" in machine.run("restore", "SOUL.md", "--dry-run").stdout
    assert machine.run("history", "memories/MEMORY.md").stdout.startswith("memories/MEMORY.md: 1 version")
    shown = machine.run("status").stdout
    assert "~/agents/hermes (hermes)" in shown and "04:10" in shown, shown


def test_the_schedule_is_of_that_home_and_due_at_the_time_that_was_answered(elsewhere):
    machine, home, _ = elsewhere
    shown = machine.run("schedule", "show").stdout
    assert f"snapshot of {home}" in shown and ".hermes" not in shown
    assert "within the hour" not in shown and "at 04:10" in shown, shown
    ran = machine.run("schedule", "run")
    assert ran.returncode == 0 and ran.stdout.startswith("Nothing is due"), ran.stdout + ran.stderr
    assert "SAFEKEPT_HOME" not in machine.crontab(), "the settings say it, to every caller alike"


def test_its_agent_and_profiles_are_connected_and_plain_connect_says_so(elsewhere):
    machine, home, said = elsewhere
    assert "Connected  Hermes, Hermes (coder)" in said
    assert scopes_of(machine) == [home, os.path.join(home, "profiles", "coder")]
    again = json.loads(machine.run("connect", "hermes", "--dry-run", "--json").stdout)
    assert again["scope"] == home and not [one for one in again["files"] if one["changes"]]


def test_a_second_home_beside_the_usual_one_takes_nothing_from_it(tmp_path):
    machine = Newcomer(tmp_path, profiles=())
    first = machine.run("setup", "--yes", "--passphrase-file", machine.secret, "--at", "04:10")
    assert first.returncode == 0, first.stderr
    assert "home" not in settled(machine), "what is found anyway is not written down"
    other = os.path.join(machine.user, "agents", "hermes")
    make_hermes_home(other, profiles=(), awkward=False)
    said = set_up(machine, other)
    assert settled(machine)["schedule"]["homes"] == [machine.home, other] and "home" not in settled(machine)
    words = "Home ~/agents/hermes, remembered: looked after every night, beside ~/.hermes"
    assert words in " ".join(said.split())
    shown = machine.run("schedule", "show").stdout
    assert f"snapshot of {machine.home}" in shown and f"snapshot of {other}" in shown
    assert scopes_of(machine) == [machine.home, other]
    assert f'"home": "{machine.home}"' in machine.run("snapshot", "--json").stdout, "as before"


def test_a_dry_run_says_that_it_would_be_remembered_and_writes_nothing(tmp_path):
    machine = Newcomer(tmp_path, agent=False)
    home = os.path.join(machine.user, "agents", "hermes")
    make_hermes_home(home, profiles=(), awkward=False)
    said = machine.run("setup", "--home", home, "--dry-run").stdout
    assert "Save       the home ~/agents/hermes (config.toml in ~/.config/safekept)" in said
    assert not os.path.exists(os.path.join(machine.user, ".config", "safekept"))


@pytest.fixture
def brought(tmp_path):
    """A home that was connected on another machine, and lies at an unusual place of this one."""
    dead = Newcomer(tmp_path, profiles=("coder",))
    for more in ((), ("--home", os.path.join(dead.home, "profiles", "coder"))):
        assert dead.run("connect", "hermes", "--yes", *more).returncode == 0
    machine = dead.moved("carol")
    home = os.path.join(machine.user, "agents", "hermes")
    os.makedirs(os.path.dirname(home))
    shutil.move(dead.home, home)
    machine.dead = dead.user
    return machine, home


def users_called_for(home):
    """The HOME in the plugin's `connection.json`, of the home and of its profile."""
    found = []
    for place in (home, os.path.join(home, "profiles", "coder")):
        with open(os.path.join(place, "plugins", "safekept", "connection.json")) as file:
            found.append(json.load(file)["environment"]["HOME"])
    return found


def enabled_in(home):
    """Which settings below a home have Hermes load the plugin."""
    found = []
    for place in (home, os.path.join(home, "profiles", "coder")):
        with open(os.path.join(place, "config.yaml")) as file:
            found += [place] if "safekept" in file.read() else []
    return found


def test_setup_asks_about_a_connection_that_belongs_to_another_machine_and_writes_it_anew(brought):
    machine, home = brought
    assert users_called_for(home) == [machine.dead] * 2
    planned = json.loads(machine.run("setup", "--home", home, "--dry-run", "--json").stdout)
    assert [one["profile"] for one in planned["missing"]["connect"]] == [None, "coder"]
    said = set_up(machine, home)
    assert "Connected  Hermes, Hermes (coder)" in said
    assert users_called_for(home) == [machine.user] * 2


def test_uninstall_takes_the_plugin_out_of_every_profile_of_such_a_home(brought):
    machine, home = brought
    assert machine.run("settings", "home", home).returncode == 0
    assert enabled_in(home) == [home, os.path.join(home, "profiles", "coder")]
    done = machine.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert "Done: nothing in this home directory calls safekept any more" in done.stdout
    assert enabled_in(home) == [] and not os.path.exists(os.path.join(home, "plugins", "safekept"))


def test_uninstall_does_not_say_that_nothing_calls_it_where_something_does(brought, monkeypatch):
    machine, home = brought
    assert machine.run("settings", "home", home).returncode == 0
    monkeypatch.setattr("safekept.integrations.connecting.agents.carry_out", lambda *given: [])
    done = machine.run("uninstall", "--yes", "--json")
    assert done.returncode == 3
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["code"] == "still-called" and f"Hermes in {home}" in problem["what"]
    said = machine.run("uninstall", "--yes")
    assert "any more" not in said.stdout + said.stderr and "Not everything could be taken back" in said.stdout


def test_uninstall_tells_two_homes_of_one_agent_apart(tmp_path):
    machine = Newcomer(tmp_path, profiles=("coder",))
    other = os.path.join(machine.user, "agents", "hermes")
    make_hermes_home(other, profiles=(), awkward=False)
    assert machine.run("settings", "schedule.homes", f'["{machine.home}", "{other}"]').returncode == 0
    for home in (machine.home, other):
        assert machine.run("connect", "hermes", "--yes", "--home", home).returncode == 0
    said = " ".join(machine.run("uninstall", "--dry-run").stdout.split())
    assert "Connected Hermes in ~/.hermes, Hermes in ~/agents/hermes" in said, said
