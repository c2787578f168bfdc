"""A place on a server is tried by making it: one that cannot be made is not saved, and another is named."""

from __future__ import annotations

import os
import shlex
import shutil

import pytest

from support.commands.in_process import spoken
from support.users.first_hour import Newcomer
from support.users.states import made


@pytest.fixture
def say(tmp_path, monkeypatch):
    return spoken(monkeypatch, made("fresh", tmp_path).user)


def test_a_directory_that_the_server_does_not_make_is_refused_with_one_that_it_would(say, sftp_server):
    place = sftp_server.place()
    with open(os.path.join(place.directory, "file"), "w", encoding="utf-8") as file:
        file.write("no directory")
    options = ("--option", f"ssh_config={sftp_server.ssh_config}")
    said = say("destinations", "add", f"{place.url}/file/backups", *options)
    assert said.code == 1 and "Nothing was written into the settings" in said.out
    assert "does not let us make that directory" in said.out
    host = place.url.removeprefix("sftp://").partition("/")[0]
    assert f"Use one below the directory of that login: `sftp://{host}/~/backups`" in said.out
    assert "sftp" not in say("destinations", "list").out


def test_a_directory_that_is_not_there_yet_is_made_and_tried(say, sftp_server):
    place = sftp_server.place()
    options = ("--elsewhere", "--option", f"ssh_config={sftp_server.ssh_config}")
    dry = say("destinations", "add", f"{place.url}/new/one", *options, "--dry-run")
    assert dry.code == 0 and not os.path.exists(os.path.join(place.directory, "new"))
    said = say("destinations", "add", f"{place.url}/new/one", *options)
    assert said.code == 0 and ": usable\n" in said.out and "not there" not in said.out
    assert os.listdir(os.path.join(place.directory, "new", "one")) == []


def test_setup_does_not_take_a_place_that_cannot_be_made(tmp_path, sftp_server):
    place, machine = sftp_server.place(), Newcomer(tmp_path)
    ssh = os.path.join(machine.programs, "ssh")
    with open(ssh, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {shlex.quote(sftp_server.ssh_config)} "$@"\n')
    os.chmod(ssh, 0o755)
    with open(os.path.join(place.directory, "file"), "w", encoding="utf-8") as file:
        file.write("no directory")
    refused = machine.run(
        *("setup", "--yes", "--passphrase-file", machine.secret, "--elsewhere"),
        *("--destination", f"{place.url}/file/backups"),
    )
    assert refused.returncode == 1 and "does not let us make that directory" in refused.stderr
    assert not os.path.exists(os.path.join(machine.user, ".config", "safekept", "config.toml"))


@pytest.mark.parametrize(
    ("typed", "address"),
    [("ada@nas:backups", "sftp://ada@nas/~/backups"), ("ada@nas:/srv/b", "sftp://ada@nas/srv/b")],
)
def test_what_scp_takes_is_taken_by_every_command(say, typed, address):
    said = say("destinations", "add", typed, "--no-test")
    assert said.code == 0 and f"Added the destination nas: {address}\n" in said.out
    assert (
        f"`{address}`" in say("destinations", "test", typed).out or address in say("destinations", "list").out
    )


def test_an_alias_of_ssh_is_answered_with_its_address(say):
    said = say("destinations", "add", "mynas:backups")
    assert said.code == 2 and "A server by SSH is `sftp://mynas/~/backups`" in said.err
