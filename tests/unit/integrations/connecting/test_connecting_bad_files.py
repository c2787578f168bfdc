"""A settings file that cannot be edited safely is left alone, to the byte, with the lines to add."""

from __future__ import annotations

import json
import os
import socket

import pytest

from safekept.actions.hosts.connections import connections
from safekept.integrations.connecting.hosts import HOSTS
from safekept.integrations.connecting.plan import plan_connect, plan_disconnect
from safekept.integrations.connecting.settings_file import SettingsLeftAlone
from support.hosts.connected import JSON_HOSTS, connect, program_in, read, tree, write

BAD = {
    "comments": (
        b'{\n  // mine\n  "a": 1\n}',
        "has comments, which an edit would endanger (line 2: there is a comment)",
    ),
    "half": (b'{"a": 1, "hooks": {', "is not valid JSON (it ends too early)"),
    "trailing comma": (b'{"a": 1,}', "is not valid JSON (line 1: a name in quotes is missing)"),
    "a list": (b"[1, 2]", "is not as its host would write it: it is not a mapping"),
    "hooks a list": (b'{"hooks": []}', "is not as its host would write it: `hooks` in it is not a mapping"),
    "hooks twice": (
        b'{"hooks": {}, "hooks": {}}',
        "is not as its host would write it: `hooks` stands in it twice",
    ),
    "not text": (b'{"a": "\xff\xfe"}', "is not UTF-8 text"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "is not UTF-8 text"),
    "huge": (b"[" + b" " * (9 << 20), "is 9,437,185 bytes long, which no settings file is"),
}


@pytest.fixture(params=sorted(JSON_HOSTS))
def host(request):
    return HOSTS[request.param]


def left_alone(user, host, program, why: str) -> SettingsLeftAlone:
    """It is refused, for this reason, with the lines to add."""
    with pytest.raises(SettingsLeftAlone) as caught:
        plan_connect(user, host, program)
    error = caught.value
    place = host.files(user, "")[-1].path
    assert error.what == f"`{place}` {why}"
    assert error.kept == "The file is as it was; nothing was changed"
    assert error.advice()[1] == f"Or mend the file and run `safekept connect {host.name}` again"
    lines = json.loads(error.facts["lines"])
    assert program.words[0] in json.dumps(lines["hooks"])
    assert connections(user) == ()
    return error


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_file_that_is_not_what_it_should_be_is_left_alone(user, host, tmp_path, name):
    content, why = BAD[name]
    path = os.path.join(user.places.user_home, JSON_HOSTS[host.name])
    write(path, content)
    left_alone(user, host, program_in(tmp_path), why)
    assert read(path) == content


def test_an_event_that_is_no_list_is_left_alone(user, tmp_path):
    host = HOSTS["claude-code"]
    path = os.path.join(user.places.user_home, JSON_HOSTS["claude-code"])
    write(path, b'{"hooks": {"Stop": {"command": "x"}}}')
    why = "is not as its host would write it: `hooks.Stop` in it is not a list"
    left_alone(user, host, program_in(tmp_path), why)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_what_lies_in_the_place_of_the_file_is_left_alone(user, host, tmp_path):
    path = os.path.join(user.places.user_home, JSON_HOSTS[host.name])
    program = program_in(tmp_path)
    os.makedirs(path)
    left_alone(user, host, program, "is a directory")
    os.rmdir(path)
    os.symlink(path, path)
    left_alone(user, host, program, "is a link that leads in a circle")
    os.unlink(path)
    os.mkfifo(path)
    left_alone(user, host, program, "is not an ordinary file")
    os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listening:
        if len(path) < 100:
            listening.bind(path)
            left_alone(user, host, program, "is not an ordinary file")
            os.unlink(path)
    os.rmdir(os.path.dirname(path))
    write(os.path.dirname(path), b"a file")
    left_alone(user, host, program, "cannot be there: what should be a directory above it is a file")


@pytest.mark.needs("modes", "it looks at modes")
def test_a_read_only_file_is_left_alone_even_by_root(user, host, tmp_path):
    path = os.path.join(user.places.user_home, JSON_HOSTS[host.name])
    write(path, b"{}", 0o444)
    left_alone(user, host, program_in(tmp_path), "is read-only")
    assert read(path) == b"{}"


@pytest.mark.needs("hard-links", "it makes a second name of a file")
def test_a_file_of_two_names_is_left_alone(user, host, tmp_path):
    path = os.path.join(user.places.user_home, JSON_HOSTS[host.name])
    write(path, b"{}")
    os.link(path, path + ".other")
    why = "has another name (a hard link), and a new file would part the two"
    left_alone(user, host, program_in(tmp_path), why)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_dangling_link_is_written_through_where_its_directory_is(user, host, tmp_path):
    path = os.path.join(user.places.user_home, JSON_HOSTS[host.name])
    os.makedirs(os.path.dirname(path))
    os.symlink(str(tmp_path / "elsewhere.json"), path)
    connect(user, host, program_in(tmp_path))
    assert os.path.islink(path) and b"safekept" in read(str(tmp_path / "elsewhere.json"))


def test_a_file_that_broke_while_connected_is_left_alone_when_disconnecting(user, host, tmp_path):
    path = os.path.join(user.places.user_home, JSON_HOSTS[host.name])
    write(path, b"{}")
    connect(user, host, program_in(tmp_path))
    broken = read(path)[:-3]
    write(path, broken)
    with pytest.raises(SettingsLeftAlone) as caught:
        plan_disconnect(user, host)
    assert caught.value.what == f"`{path}` is not valid JSON (it ends too early)"
    assert caught.value.advice() == (
        f"Take out yourself what calls `hook {host.name}`",
        f"Or mend the file and run `safekept connect {host.name} --remove` again",
    )
    assert read(path) == broken and len(connections(user)) == 1


def test_a_plugin_of_opencode_that_is_not_ours_is_left_alone(user, tmp_path):
    path = os.path.join(user.places.user_home, ".config", "opencode", "plugins", "safekept.js")
    write(path, b"export const Mine = async () => ({})\n")
    with pytest.raises(SettingsLeftAlone, match="is there already and is not ours"):
        plan_connect(user, HOSTS["opencode"], program_in(tmp_path))
    assert plan_disconnect(user, HOSTS["opencode"]).changes is False


def test_settings_of_hermes_that_are_broken_are_left_alone_with_the_lines(user, tmp_path):
    path = os.path.join(user.places.user_home, ".hermes", "config.yaml")
    write(path, b"model: [1,\nplugins: }\n")
    before = tree(user.places.user_home)
    host = HOSTS["hermes"]
    with pytest.raises(SettingsLeftAlone) as caught:
        plan_connect(user, host, program_in(tmp_path), host.scope(user))
    assert "is not valid YAML" in caught.value.what
    assert caught.value.facts["lines"] == "plugins:\n  enabled:\n    - safekept"
    assert tree(user.places.user_home) == before
