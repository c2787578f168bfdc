"""An archive that brings the agent's own code: it is named before it lands, and no drill ever runs it."""

from __future__ import annotations

import json
import os
import zipfile

import pytest

from conftest import missing_part
from safekept.actions.drill.checks.interpreter import find_python
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.unprivileged import NOBODY, nobodys  # noqa: F401 - a fixture

PYTHON = "hermes-agent/venv/bin/python"


@pytest.fixture
def user(tmp_path):
    place = tmp_path / "user"
    place.mkdir()
    return str(place)


@pytest.fixture
def say(monkeypatch, user):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return spoken(monkeypatch, user)


def program(user: str) -> str:
    """One that leaves a trace when it is run."""
    return f"#!/bin/sh\ntouch {user}/ran\n"


def archive_from_elsewhere(place: str, user: str, name: str = PYTHON) -> str:
    home = make_hermes_home(os.path.join(place, "elsewhere"), profiles=(), awkward=False)
    path = os.path.join(place, "gift.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for parent, _, files in os.walk(home):
            for file in files:
                full = os.path.join(parent, file)
                archive.write(full, os.path.relpath(full, home))
        member = zipfile.ZipInfo(name)
        member.external_attr = 0o100755 << 16
        archive.writestr(member, program(user))
    return path


def agent_row(said) -> dict[str, object]:
    (row,) = (row for row in json.loads(said.out)["rows"] if row["check"] == "agent")
    return dict(row)


def test_code_of_the_agent_is_named_before_it_comes(say, user, tmp_path):
    gift = archive_from_elsewhere(str(tmp_path), user)
    said = say("import", gift, "--dry-run")
    assert "Can run" in said.out and PYTHON in said.out
    said = say("import", gift)
    assert said.code == 1 and "consent-needed" in said.err
    assert "that the agent can run would come from an archive made elsewhere" in said.err + said.out
    assert not os.path.exists(os.path.join(user, ".hermes", PYTHON))


@pytest.mark.parametrize("name", [PYTHON, "hermes-agent/.venv/bin/python"])
def test_a_drill_does_not_run_what_an_import_brought(say, user, tmp_path, name):
    gift = archive_from_elsewhere(str(tmp_path), user, name)
    assert say("import", gift, "--force").code == 0
    assert os.access(os.path.join(user, ".hermes", name), os.X_OK), "it is there, and could be run"
    assert say("snapshot").code in (0, 3)
    row = agent_row(say("drill", "--json"))
    assert not os.path.exists(os.path.join(user, "ran"))
    assert row["state"] == "left out"
    assert str(row["text"]).startswith("its code in the home came with the import of ")


def test_a_launcher_on_the_path_that_leads_into_such_a_home_is_not_run_either(
    say, user, tmp_path, monkeypatch
):
    gift = archive_from_elsewhere(str(tmp_path), user)
    assert say("import", gift, "--force").code == 0
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "hermes").write_text(f"#!{user}/.hermes/{PYTHON}\n")
    (commands / "hermes").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    assert say("snapshot").code in (0, 3)
    say("drill")
    assert not os.path.exists(os.path.join(user, "ran"))


def test_code_that_was_there_by_itself_is_run(say, user):
    """So that the others cannot pass because nothing is ever run."""
    home = make_hermes_home(os.path.join(user, ".hermes"), profiles=(), awkward=False)
    python = os.path.join(home, PYTHON)
    os.makedirs(os.path.dirname(python))
    with open(python, "w") as file:
        file.write(program(user))
    os.chmod(python, 0o755)
    assert say("snapshot").code in (0, 3)
    say("drill")
    assert os.path.exists(os.path.join(user, "ran"))


def test_a_hermes_that_others_can_change_is_not_run_and_that_is_said(say, user, tmp_path, monkeypatch):
    if os.geteuid() != 0:
        missing_part("needs root, to have a program of somebody else")
    make_hermes_home(os.path.join(user, ".hermes"), profiles=(), awkward=False)
    shared = tmp_path / "shared"
    shared.mkdir()
    for name in ("hermes", "python"):
        (shared / name).write_text(program(user))
        (shared / name).chmod(0o755)
    os.chown(shared, NOBODY, NOBODY)
    monkeypatch.setenv("PATH", f"{shared}:/usr/bin:/bin")
    assert say("snapshot").code in (0, 3)
    row = agent_row(say("drill", "--json"))
    assert not os.path.exists(os.path.join(user, "ran"))
    assert row["state"] == "left out"
    assert row["text"] == "the Hermes Agent that is installed here can be changed by others, and is not run"


def test_a_home_of_somebody_else_that_a_backup_names_gives_no_interpreter(nobodys):  # noqa: F811
    """An archive can claim any home; what lies there is not run by us."""
    if os.geteuid() != 0:
        missing_part("needs root, to have a home of somebody else")
    python = os.path.join(nobodys, PYTHON)
    os.makedirs(os.path.dirname(python))
    with open(python, "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod(python, 0o755)
    assert find_python(nobodys, "hermes-agent", {"PATH": "/nowhere"}) == ""
    os.chown(nobodys, 0, 0)
    assert find_python(nobodys, "hermes-agent", {"PATH": "/nowhere"}) == python
    os.chown(os.path.dirname(python), NOBODY, NOBODY)
    assert find_python(nobodys, "hermes-agent", {"PATH": "/nowhere"}) == ""
