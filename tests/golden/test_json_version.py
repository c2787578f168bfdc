"""Every document that a program gets says which shape it has: a walk over all commands that have `--json`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator

import click
import pytest

from safekept.cli.console import VERSION, document_text
from safekept.cli.main import cli
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.vault.snapshots import take

#: What each needs to be called with, so that it does something and harms nothing; `!` in front: it fails, and
#: the document is that of an error.
CALLS = {
    "status": "",
    "backup create": "--dry-run",
    "backup keygen": "",
    "import": "! missing.zip",
    "snapshot create": "--dry-run",
    "snapshot list": "",
    "snapshot show": "",
    "snapshot diff": "",
    "snapshot restore": "latest --dry-run",
    "snapshot pin": "latest",
    "snapshot forget": "--dry-run",
    "snapshot prune": "--dry-run",
    "snapshot adopt": "--dry-run",
    "restore": "--dry-run",
    "settings": "",
    "history": "SOUL.md",
    "sessions list": "",
    "sessions search": "turn",
    "sessions show": "! none",
    "sessions restore": "! none",
    "vault init": "!",
    "vault check": "",
    "vault repair": "--dry-run",
    "vault stats": "",
    "vault key list": "",
    "vault key add": "! --passphrase-command false",
    "vault key remove": "! none --dry-run",
    "vault key renew": "!",
    "vault key export": "",
    "vault kit": "",
    "vault unlock": "--dry-run",
    "vault open": "",
    "vault close": "",
    "vault prune": "--dry-run",
    "keeper status": "!",
    "keeper acknowledge": "! nobody",
    "checkpoint create": "project",
    "checkpoint status": "",
    "checkpoint list": "",
    "checkpoint prune": "--dry-run",
    "checkpoint clear": "--dry-run",
    "checkpoint clear-legacy": "--dry-run",
    "checkpoint adopt": "",
    "rollback": "--dir project",
    "connect": "",
    "drill": "",
    "push": "! nowhere",
    "pull": "! nowhere",
    "rebuild": "! nowhere",
    "destinations add": "sftp://",
    "destinations remove": "! nowhere",
    "destinations list": "",
    "destinations show": "! nowhere",
    "destinations test": "! nowhere",
    "fleet": "! nowhere",
    "helper status": "",
    "helper stop": "",
    "log": "",
    "undo": "! none",
    "doctor": "",
    "schedule install": "--dry-run",
    "schedule show": "",
    "schedule remove": "! --dry-run",
    "schedule run": "--dry-run",
    "notify test": "!",
    "setup": "--dry-run",
    "uninstall": "--dry-run",
    "manual": "-o pages --dry-run",
}


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command that has `--json`."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        elif any("--json" in option.opts for option in command.params):
            yield " ".join((*path, name))


def test_every_command_that_has_json_is_called_here():
    # By `test_json.py`, since it takes seconds, and by `test_keeper_install.py`, on a machine of its own.
    elsewhere = {"demo", "keeper install", "keeper remove"}
    assert CALLS.keys() | elsewhere == set(commands())


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """Somebody with a home, a snapshot of it and a project."""
    here = throwaway(tmp_path_factory.mktemp("json"))
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    take(here, home)
    os.makedirs(os.path.join(here.places.user_home, "project", ".git"))
    return here.places.user_home


@pytest.mark.parametrize("name", CALLS)
def test_its_document_has_the_version(name, user, monkeypatch):
    call = CALLS[name].split()
    fails = call[:1] == ["!"]
    said = spoken(monkeypatch, user)(*name.split(), *call[fails:], "--json")
    document = json.loads(said.out)
    assert document["version"] == VERSION
    assert ("error" in document) == fails, said.out
    assert next(iter(document)) == "version", "first, where a person looks"


def test_one_operation_of_the_log_and_bad_usage_have_it_too(user, monkeypatch):
    say = spoken(monkeypatch, user)
    newest = json.loads(say("log", "--json").out)["operations"][0]["operation"]
    assert json.loads(say("log", newest, "--json").out)["version"] == VERSION
    assert json.loads(say("snapshot", "--nope", "--json").out)["version"] == VERSION


@pytest.mark.parametrize("words", [("guard", "--no-backup"), ("run",)])
def test_a_report_has_the_version(words, user, monkeypatch, tmp_path):
    report = str(tmp_path / "report.json")
    say = spoken(monkeypatch, user)
    monkeypatch.chdir(os.path.join(user, "project"))
    said = say(words[0], "--report", report, *words[1:], "--", shutil.which("true"))
    with open(report, encoding="utf-8") as file:
        assert json.load(file)["version"] == VERSION, said.err


def test_what_has_a_version_of_its_own_does_not_change_that_of_the_document():
    assert json.loads(document_text({"ok": True, "version": 7})) == {"version": VERSION, "ok": True}
