"""`safekept connect hermes` and back, with the real Hermes looking at what it left."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest

from support.hosts.real_hermes import User, hermes_process, put, read

pytestmark = pytest.mark.real

CONFIG = """\
# my own settings, in my own order
model:
    default: scripted   # four spaces, on purpose
plugins:
    disabled: []
    enabled:
        # the ones I trust
        - disk-cleanup
terminal: {backend: local}
agent: {environment_probe: false}
"""


@pytest.fixture
def user(tmp_path) -> User:
    user = User(str(tmp_path))
    put(f"{user.home}/config.yaml", CONFIG, 0o640)
    return user


def tree(place: str) -> dict[str, tuple[bytes | None, int]]:
    """Every name below, with content and mode."""
    found = {}
    for directory, folders, names in os.walk(place):
        for name in [*folders, *names]:
            path = os.path.join(directory, name)
            mode = stat.S_IMODE(os.lstat(path).st_mode)
            found[os.path.relpath(path, place)] = (None if name in folders else read(path), mode)
    return found


def connected(user: User, *words: str) -> str:
    done = user.safekept("connect", "hermes", "--yes", *words)
    assert done.code == 0, done.err
    return done.out + done.err


def test_connect_and_disconnect_leave_exactly_what_was_there(user):
    before = tree(user.home)
    connected(user)
    assert tree(user.home) != before
    assert user.safekept("connect", "--remove", "hermes", "--yes").code == 0
    assert tree(user.home) == before


def test_a_second_connect_is_the_first_to_the_byte(user):
    connected(user)
    first = tree(user.home)
    connected(user)
    assert tree(user.home) == first
    assert user.safekept("connect", "--remove", "hermes", "--yes").code == 0
    connected(user)
    assert tree(user.home) == first


def test_a_dry_run_shows_the_change_and_makes_none(user):
    before = tree(user.home)
    shown = user.safekept("connect", "hermes", "--dry-run")
    assert "+        - safekept" in shown.out + shown.err
    assert tree(user.home) == before


def test_hermes_loads_it_and_after_disconnecting_nothing_of_it_is_left(user, hermes_python):
    """Python has left compiled files beside the plugin's by then."""
    user.environment.pop("PYTHONDONTWRITEBYTECODE")
    connected(user)
    with hermes_process(hermes_python, user) as agent:
        assert agent("loaded") == {"safekept": [True, None]}
        count = agent("hooks")["pre_tool_call"]
    assert count >= 1
    assert os.path.isdir(f"{user.home}/plugins/safekept/__pycache__")
    assert user.safekept("connect", "--remove", "hermes", "--yes").code == 0
    assert not os.path.exists(f"{user.home}/plugins/safekept")
    assert read(f"{user.home}/config.yaml") == CONFIG.encode()
    with hermes_process(hermes_python, user) as agent:
        assert agent("loaded") == {}
        assert agent("command", "rewind") is None


def test_hermes_itself_says_that_it_is_enabled(user, hermes):
    connected(user)
    done = subprocess.run(
        [hermes, "plugins", "list"], env=user.environment, capture_output=True, text=True, timeout=120
    )
    (line,) = [line for line in done.stdout.splitlines() if "safekept" in line]
    assert "enabled" in line and "not enabled" not in line


def test_a_home_without_settings_gets_them_and_loses_them_again(user):
    os.unlink(f"{user.home}/config.yaml")
    put(f"{user.home}/state.db", b"")
    before = tree(user.home)
    connected(user)
    assert read(f"{user.home}/config.yaml") == b"plugins:\n  enabled:\n    - safekept\n"
    assert user.safekept("connect", "--remove", "hermes", "--yes").code == 0
    assert tree(user.home) == before


def test_what_was_written_meanwhile_stays(user):
    connected(user)
    more = read(f"{user.home}/config.yaml") + b"display: {compact: true}\n"
    put(f"{user.home}/config.yaml", more, 0o640)
    assert user.safekept("connect", "--remove", "hermes", "--yes").code == 0
    assert read(f"{user.home}/config.yaml") == CONFIG.encode() + b"display: {compact: true}\n"


def test_settings_that_cannot_be_edited_are_left_with_the_lines_to_add(user):
    put(f"{user.home}/config.yaml", "plugins: [\n")
    before = tree(user.home)
    done = user.safekept("connect", "hermes", "--yes")
    assert done.code == 1
    assert "is not valid YAML" in done.err
    assert "plugins:\n" in done.out and "- safekept" in done.out
    assert tree(user.home) == before


def test_in_a_profile_it_goes_where_hermes_looks(user, hermes_python):
    """HERMES_HOME names the profile: its plugins are its own."""
    profile = f"{user.home}/profiles/coder"
    put(f"{profile}/config.yaml", "agent: {environment_probe: false}\n")
    user.environment["HERMES_HOME"] = profile
    said = connected(user)
    assert f"{profile}/config.yaml" in said
    assert os.path.isdir(f"{profile}/plugins/safekept")
    assert not os.path.exists(f"{user.home}/plugins/safekept")
    put(f"{user.project}/a.txt", "old")
    with hermes_process(hermes_python, user) as agent:
        assert agent("loaded") == {"safekept": [True, None]}
        agent.tool("write_file", {"path": "a.txt", "content": "new"})
    assert user.safekept("rollback", "1").code == 0
    assert read(f"{user.project}/a.txt") == b"old"


def test_the_sticky_profile_is_the_home_that_is_connected(user):
    put(f"{user.home}/profiles/coder/config.yaml", "")
    put(f"{user.home}/active_profile", "coder\n")
    del user.environment["HERMES_HOME"]
    connected(user)
    assert os.path.isdir(f"{user.home}/profiles/coder/plugins/safekept")
    assert not os.path.exists(f"{user.home}/plugins/safekept")
