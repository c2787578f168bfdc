"""Cline's hooks are scripts: ours come and go, others stay, and none of them can stop a tool."""

from __future__ import annotations

import os
import subprocess

import pytest

from safekept.integrations.connecting.hosts import HOSTS
from safekept.integrations.connecting.overview import host_statuses
from safekept.integrations.connecting.settings_file import SettingsLeftAlone
from support.hosts.connected import connect, disconnect, program_in, read, tree, write
from support.users.contexts import throwaway

HOST = HOSTS["cline"]


@pytest.fixture
def user(tmp_path):
    return throwaway(tmp_path)


def hooks(user) -> str:
    return os.path.join(user.places.user_home, ".cline", "hooks")


def test_a_script_for_each_event_comes_and_goes_and_those_of_others_stay(user, tmp_path):
    write(os.path.join(hooks(user), "PreToolUse"), b"#!/bin/sh\necho theirs\n", 0o755)
    before = tree(user.places.user_home)
    connect(user, HOST, program_in(tmp_path))
    names = {name for name in os.listdir(hooks(user)) if name.endswith(".sh")}
    assert {"PreToolUse.sh", "PostToolUse.sh", "TaskStart.sh", "TaskComplete.sh", "TaskCancel.sh"} <= names
    (status,) = [one for one in host_statuses(user) if one.host == "cline"]
    assert status.connected and not status.troubles
    disconnect(user, HOST)
    after = {name: found for name, found in tree(user.places.user_home).items() if ".cline" in name}
    assert after == {name: found for name, found in before.items() if ".cline" in name}


def test_a_script_of_that_very_name_that_is_not_ours_is_left_alone(user, tmp_path):
    path = os.path.join(hooks(user), "PreToolUse.sh")
    write(path, b"#!/bin/sh\necho theirs\n", 0o755)
    with pytest.raises(SettingsLeftAlone, match="not ours"):
        connect(user, HOST, program_in(tmp_path))
    assert read(path) == b"#!/bin/sh\necho theirs\n" and os.listdir(hooks(user)) == ["PreToolUse.sh"]


@pytest.mark.parametrize("gone", ["deleted", "fails"])
def test_a_safekept_that_is_gone_says_nothing_that_cline_would_take_for_a_no(user, tmp_path, gone):
    """It reads standard output, for JSON with `cancel`, and no exit code; as it runs a script, so do we."""
    program = program_in(tmp_path)
    connect(user, HOST, program)
    if gone == "deleted":
        os.unlink(program.words[0])
    else:
        write(program.words[0], b"#!/bin/sh\necho broken >&2\nexit 2\n", 0o755)
    for name in os.listdir(hooks(user)):
        script = os.path.join(hooks(user), name)
        done = subprocess.run(["sh", script], input=b"{}", capture_output=True, timeout=60)
        assert done.stdout == b"", name
