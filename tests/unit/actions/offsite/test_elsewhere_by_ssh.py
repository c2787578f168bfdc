"""A name in `~/.ssh/config` that means this very machine is no place elsewhere; nothing is connected to."""

from __future__ import annotations

import os

import pytest

from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.offsite.elsewhere import not_elsewhere
from support.users.contexts import throwaway

pytestmark = pytest.mark.usefixtures("ssh")

HERE = "is this very machine"


@pytest.fixture
def here(tmp_path):
    context = throwaway(tmp_path)
    return context.changed(environment={"PATH": "/usr/bin:/bin", "HOME": context.places.user_home})


def settings_of_ssh(tmp_path, text):
    path = tmp_path / "ssh_config"
    path.write_text(text)
    return str(path)


def place(config, host="nas", **more):
    return DestinationSetting("nas", f"sftp://ada@{host}/copies", options={"ssh_config": config}, **more)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "::1", os.uname().nodename])
def test_an_alias_of_this_machine_is_this_machine(here, tmp_path, name):
    config = settings_of_ssh(tmp_path, f"Host nas\n  HostName {name}\n")
    assert not_elsewhere(here, place(config)) == HERE
    assert not_elsewhere(here, place(config, elsewhere=True)) == "", "a person said that it is a tunnel"
    assert not_elsewhere(here, place(config, host="other.example")) == ""


def test_an_alias_keeps_its_case(here, tmp_path):
    config = settings_of_ssh(tmp_path, "Host Nas\n  HostName 127.0.0.1\n")
    assert not_elsewhere(here, place(config, host="Nas")) == HERE
    assert not_elsewhere(here, place(config, host="nas")) == ""


def test_an_alias_of_another_machine_is_elsewhere(here, tmp_path):
    assert not_elsewhere(here, place(settings_of_ssh(tmp_path, "Host nas\n  HostName 192.0.2.7\n"))) == ""


@pytest.mark.parametrize(
    "way", ["ProxyJump gate.example", "ProxyCommand nc gate 22", "Port 2222\n  ProxyJump bob@192.0.2.9:22"]
)
def test_a_loopback_behind_another_machine_is_that_machine(here, tmp_path, way):
    config = settings_of_ssh(tmp_path, f"Host nas\n  HostName localhost\n  {way}\n")
    assert not_elsewhere(here, place(config)) == "", "localhost of the machine that is jumped to"


def test_ssh_is_asked_as_it_would_be_called(here, tmp_path):
    asked = tmp_path / "asked"
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" > {asked}\necho "hostname 127.0.0.1"\n')
    program.chmod(0o755)
    setting = DestinationSetting("nas", "sftp://ada@nas:2222/copies")
    assert not_elsewhere(here.changed(environment={"PATH": str(program.parent)}), setting) == HERE
    assert asked.read_text() == "-G -o CanonicalizeHostname=no -p 2222 -l ada -- nas\n"


@pytest.mark.parametrize("answer", ["exit 255", "echo", "echo hostname", "printf '\\377\\n'"])
def test_an_ssh_that_does_not_answer_well_leaves_the_name_as_it_is(here, tmp_path, answer):
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    context = here.changed(environment={"PATH": str(tmp_path)})
    assert not_elsewhere(context, DestinationSetting("nas", "sftp://nas/copies")) == ""
    assert not_elsewhere(context, DestinationSetting("nas", "sftp://localhost/copies")) == HERE


def test_without_ssh_the_name_itself_counts(here):
    context = here.changed(environment={"PATH": "/nowhere"})
    assert not_elsewhere(context, DestinationSetting("nas", "sftp://nas/copies")) == ""
