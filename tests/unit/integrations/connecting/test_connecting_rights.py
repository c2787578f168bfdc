"""Files of others, files that may not be read or written, disks that are full: said, and nothing lost."""

from __future__ import annotations

import os
import re

import pytest

from safekept.actions.hosts.connections import connections
from safekept.core.files import TEMPORARY_PREFIX
from safekept.integrations.connecting import carrying_out
from safekept.integrations.connecting.hosts import HOSTS
from safekept.integrations.connecting.plan import plan_connect
from safekept.integrations.connecting.program import Program
from safekept.integrations.connecting.settings_file import SettingsLeftAlone, SettingsNotWritten
from support.hosts.connected import JSON_HOSTS, connect, disconnect, program_in, read, write
from support.users.contexts import throwaway
from support.users.unprivileged import NOBODY, as_nobody, nobodys  # noqa: F401 - `nobodys` is a fixture

CLAUDE = HOSTS["claude-code"]
PROGRAM = Program(("/opt/safekept",))


def refused(user) -> str:
    """Why a user without rights cannot connect Claude Code; "" where they can."""

    def attempt() -> str:
        try:
            plan_connect(user, CLAUDE, PROGRAM)
        except SettingsLeftAlone as error:
            return error.what
        return ""

    return as_nobody(attempt)


@pytest.mark.needs("owners", "it gives files to another user")
def test_what_may_not_be_read_or_written_is_left_alone(nobodys):  # noqa: F811
    user = as_nobody(lambda: throwaway(nobodys).places.user_home)
    context = throwaway(nobodys)
    path = os.path.join(user, JSON_HOSTS["claude-code"])
    as_nobody(lambda: write(path, b"{}"))
    assert refused(context) == ""
    as_nobody(lambda: os.chmod(path, 0o200))
    assert refused(context) == f"`{path}` cannot be read: Permission denied"
    as_nobody(lambda: os.chmod(path, 0o400))
    assert refused(context) == f"`{path}` is read-only"
    as_nobody(lambda: os.chmod(path, 0o600))
    as_nobody(lambda: os.chmod(os.path.dirname(path), 0o500))
    above = os.path.dirname(path)
    assert refused(context) == f"`{path}` cannot be written: `{above}` is read-only"
    as_nobody(lambda: os.chmod(above, 0o000))
    assert refused(context) == f"`{path}` cannot be looked at: Permission denied"
    as_nobody(lambda: os.chmod(above, 0o700))
    if os.geteuid() == 0:
        os.chown(path, 0, 0)
        os.chmod(path, 0o666)
        assert refused(context) == f"`{path}` belongs to another user"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.needs("owners", "it gives files to another user")
def test_root_writes_into_nobody_elses_settings(tmp_path):
    user = throwaway(tmp_path)
    path = os.path.join(user.places.user_home, JSON_HOSTS["claude-code"])
    write(path, b"{}", 0o640)
    os.chown(path, NOBODY, NOBODY)
    os.chown(user.places.user_home, NOBODY, NOBODY)
    for host, place in ((CLAUDE, path), (HOSTS["cursor"], os.path.join(user.places.user_home, ".cursor"))):
        with pytest.raises(SettingsLeftAlone) as caught:
            connect(user, host, program_in(tmp_path))
        assert "belongs to `nobody`, and this runs as root: `" in caught.value.what
        assert re.search(r"`(sudo -u nobody|runuser -u nobody --)` is the way", caught.value.what)
        assert place in caught.value.what
    with open(path, "rb") as file:
        assert file.read() == b"{}"
    assert os.listdir(user.places.user_home) == [".claude"]


@pytest.mark.needs("xattr", "it looks at labels of a file")
def test_attributes_of_a_file_stay(tmp_path):
    user = throwaway(tmp_path)
    path = os.path.join(user.places.user_home, JSON_HOSTS["claude-code"])
    write(path, b"{}")
    try:
        os.setxattr(path, "user.mine", b"yes")
    except OSError:
        pytest.skip("this filesystem has no extended attributes")
    connect(user, CLAUDE, program_in(tmp_path))
    assert os.getxattr(path, "user.mine") == b"yes"


@pytest.mark.parametrize("failing", ["keep_copy", "remember_connection", "write_settings"])
def test_a_disk_that_is_full_leaves_the_file_and_nothing_behind(tmp_path, monkeypatch, failing):
    user = throwaway(tmp_path)
    path = os.path.join(user.places.user_home, JSON_HOSTS["claude-code"])
    write(path, b'{"a": 1}')

    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device", path)

    plan = plan_connect(user, CLAUDE, program_in(tmp_path))
    monkeypatch.setattr(carrying_out, failing, full)
    with pytest.raises(SettingsNotWritten) as caught:
        carrying_out.carry_out(user, plan)
    assert caught.value.what == "The settings could not be written: No space left on device"
    assert caught.value.kept == "Each file is whole, as it was or as it was to be; none is half written"
    assert read(path) == b'{"a": 1}'
    monkeypatch.undo()
    connect(user, CLAUDE, program_in(tmp_path))
    disconnect(user, CLAUDE)
    assert read(path) == b'{"a": 1}' and connections(user) == ()


def test_a_really_full_disk_leaves_the_file(tmp_path, small_filesystem):
    place = small_filesystem(256)
    user = throwaway(tmp_path, user_home=place)
    path = os.path.join(place, JSON_HOSTS["claude-code"])
    write(path, b'{"a": 1}')
    filler = os.open(os.path.join(place, "filler"), os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="No space"):
        for _ in range(1000):
            os.write(filler, b"x" * 4096)
    os.close(filler)
    with pytest.raises(SettingsNotWritten):
        connect(user, CLAUDE, program_in(tmp_path))
    assert read(path) == b'{"a": 1}'
    left = os.listdir(os.path.dirname(path))
    assert [name for name in left if name.startswith(TEMPORARY_PREFIX)] == []
