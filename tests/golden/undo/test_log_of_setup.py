"""`log` has a line for a setup and for each destination that comes or goes, and says how to take it back."""

from __future__ import annotations

import json
import os

import pytest

from support.users.first_hour import Newcomer


@pytest.fixture
def machine(tmp_path):
    return Newcomer(tmp_path, profiles=())


def operations(machine, *more):
    return json.loads(machine.run("log", "--all", *more, "--json").stdout)["operations"]


def facts_of(machine, operation):
    document = json.loads(machine.run("log", operation, "--json").stdout)
    return {name: value for line in document["lines"] for name, value in line["facts"].items()}


def set_up(machine, *more):
    words = ("setup", "--yes", "--passphrase-file", machine.secret, "--no-connect", "--at", "no")
    return machine.run(*words, *more)


def test_a_setup_is_one_line_with_its_steps_and_its_home(machine):
    place = os.path.join(machine.place, "usb")
    done = json.loads(set_up(machine, "--destination", place, "--elsewhere", "--json").stdout)
    found = operations(machine)
    assert found[0]["verb"] == "setup" and found[0]["outcome"] == "done" and found[0]["seconds"] > 0
    assert found[0]["operation"] == done["operation"]
    assert [one["verb"] for one in found].count("setup") == 1
    assert [one["outcome"] for one in found if one["verb"] == "destination-add"] == ["done"]
    facts = facts_of(machine, done["operation"])
    steps = ["vault", "passphrase", "snapshot", "push", "proof", "kit"]
    assert [one["step"] for one in facts["steps"]] == steps and facts["homes"] == [machine.home]
    assert "setup" in [one["verb"] for one in operations(machine, "--home", machine.home)]
    shown = machine.run("log", "-n", "1").stdout.splitlines()[1]
    assert "setup" in shown and shown.endswith(".hermes"), shown
    undo = machine.run("undo", done["operation"])
    assert undo.returncode == 1 and "safekept uninstall" in undo.stderr, undo.stderr

    again = json.loads(set_up(machine, "--json").stdout)
    assert again["steps"] == [] and again["operation"] is None
    setups = [one for one in operations(machine) if one["verb"] == "setup"]
    assert setups == found[:1], "a run that finds nothing to do is no operation"


def test_a_setup_that_was_cut_off_is_a_line_too(machine, monkeypatch):
    def cut(*words, **named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("safekept.actions.snapshots.create.create_snapshot", cut)
        assert set_up(machine).returncode == 130
    last = operations(machine)[0]
    assert (last["verb"], last["outcome"]) == ("setup", "interrupted")
    assert [one["step"] for one in facts_of(machine, last["operation"])["steps"]] == ["vault", "passphrase"]


def test_a_setup_of_which_a_step_failed_is_incomplete(machine, monkeypatch):
    from safekept.core.errors import SafekeptError

    def failing(*words, **named):
        raise SafekeptError("no page", kept="Nothing", next_steps=("Wait",))

    monkeypatch.setattr("safekept.actions.vault.keys.kit_files.write_kit", failing)
    assert set_up(machine).returncode == 3
    last = operations(machine)[0]
    assert (last["verb"], last["outcome"]) == ("setup", "incomplete")
    assert facts_of(machine, last["operation"])["steps"][-1] == {
        "step": "kit",
        "state": "failed",
        "text": "no page",
    }


def test_destinations_that_come_and_go_are_lines(machine):
    place = os.path.join(machine.place, "usb")
    words = ("destinations", "add", place, "--name", "disk", "--same-disk")
    assert machine.run(*words, "--dry-run").returncode == 0
    assert operations(machine) == [], "a dry run is no operation"
    assert machine.run(*words).returncode == 0
    assert machine.run("destinations", "remove", "disk", "--dry-run").returncode == 0
    [added] = operations(machine)
    assert (added["verb"], added["outcome"]) == ("destination-add", "done")
    assert machine.run("log").stdout.splitlines()[1].endswith(" disk")
    refused = machine.run("undo", added["operation"]).stderr
    assert "safekept destinations remove disk" in refused, refused

    assert machine.run("destinations", "remove", "disk").returncode == 0
    removed = operations(machine)[0]
    assert (removed["verb"], removed["outcome"]) == ("destination-remove", "done")
    assert facts_of(machine, removed["operation"])["place"] == f"file:{place}"
    refused = machine.run("undo", removed["operation"]).stderr
    assert f"safekept destinations add file:{place}" in refused, refused
    assert machine.run("destinations", "remove", "disk").returncode != 0
    assert len(operations(machine)) == 2, "what was refused changed nothing"
