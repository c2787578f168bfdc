"""A home that another user made: what can run in it is shown, and its connection is none here."""

from __future__ import annotations

import json
import os

import pytest

from safekept.integrations.connecting.hosts import HOSTS
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.hosts.connected import connect, program_in
from support.users.contexts import throwaway


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Made by another user on this host, whose Hermes is connected and has a plugin of its own."""
    other = throwaway(tmp_path / "other").changed(user_home=str(tmp_path / "other" / "olga"))
    home = make_hermes_home(os.path.join(other.places.user_home, ".hermes"), profiles=(), awkward=False)
    own = other.changed(environment={"HOME": other.places.user_home})
    connect(own, HOSTS["hermes"], program_in(tmp_path, "hermes"))
    os.makedirs(os.path.join(home, "plugins", "weather"))
    with open(os.path.join(home, "plugins", "weather", "__init__.py"), "w") as file:
        file.write("print('rain')\n")
    path = str(tmp_path / "other.zip")
    assert spoken(monkeypatch, other.places.user_home)("backup", "-o", path).code in (0, 3)
    return path


@pytest.fixture
def say(monkeypatch, tmp_path, archive):
    return spoken(monkeypatch, throwaway(tmp_path / "me").places.user_home)


def test_our_own_plugin_does_not_hide_what_another_one_would_run(archive, say):
    shown = say("import", archive, "--dry-run")
    listed = shown.out.partition("Can run")[2]
    assert "plugins/weather/__init__.py" in listed
    assert "plugins/safekept/__init__.py" not in listed
    asked = json.loads(say("import", archive, "--dry-run", "--json").out)
    assert "plugins/weather/__init__.py" in asked["plan"]["executable"]
    assert not any(path.endswith("safekept/__init__.py") for path in asked["plan"]["executable"])


def test_a_file_under_our_name_with_other_bytes_is_shown(archive, say, tmp_path, monkeypatch):
    home = str(tmp_path / "other" / "olga" / ".hermes")
    with open(os.path.join(home, "plugins", "safekept", "__init__.py"), "a") as file:
        file.write("import evil\n")
    changed = str(tmp_path / "changed.zip")
    mine = os.environ["HOME"]
    assert spoken(monkeypatch, os.path.dirname(home))("backup", "-o", changed).code in (0, 3)
    shown = spoken(monkeypatch, mine)("import", changed, "--dry-run").out
    assert "plugins/safekept/__init__.py" in shown.partition("Can run")[2]


def test_a_connection_that_came_with_the_home_is_not_one_here(archive, say):
    assert say("import", archive, "--yes").code in (0, 3)
    shown = " ".join(say("status").out.split())
    assert "hermes not connected here: `safekept connect hermes`" in shown
    assert "hermes connected" not in shown
    assert say("connect", "hermes", "--yes").code == 0
    assert "not connected here" not in say("status").out
