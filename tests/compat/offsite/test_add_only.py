"""An account on a real OpenSSH server that can only add: the cheapest copy that the agent cannot delete.

The account is a real one without rights: root may change every file, whatever its mode.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
from dataclasses import replace

import pytest

from safekept.actions.offsite.destinations import examine_destination, last_push
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.status.destination_status import destination_statuses
from safekept.actions.status.recent import recent
from safekept.core.objects.base import Taken
from safekept.core.objects.errors import PlaceRefused
from safekept.core.objects.sftp import ADD_ONLY
from support.commands.in_process import spoken
from support.offsite.pushes import machine, one_more, pointed, proven_copy, survived_by
from support.offsite.servers import SshServer


@pytest.fixture(scope="module")
def server():
    """OpenSSH for an account that is not root's; its directories can be reached by it."""
    root = tempfile.mkdtemp(prefix="safekept-add-only-")
    os.chmod(root, 0o755)
    server = SshServer(root, "nobody" if os.geteuid() == 0 else "")
    yield server
    server.end()
    shutil.rmtree(root)


@pytest.fixture
def place(server):
    return server.place()


def as_adder(server, place):
    return contextlib.closing(place.open(ssh_config=server.client_config(key="adder")))


def sftp(server, place, *lines: str) -> subprocess.CompletedProcess[str]:
    """What anybody with that key can do, with OpenSSH's own client and not through safekept."""
    config, directory = server.client_config(key="adder"), place.directory
    user, _, port = place.url.removeprefix("sftp://").split("/")[0].rpartition(":")
    command = ["sftp", "-q", "-b", "-", "-F", config, "-P", port, user]
    text = "\n".join([f"cd {directory}", *lines])
    return subprocess.run(command, input=text, capture_output=True, text=True)


def test_such_an_account_adds_reads_and_does_nothing_else(server, place):
    with as_adder(server, place) as objects:
        objects.write("data/ab/x", b"x" * 100_000)
        with pytest.raises(Taken):
            objects.write("data/ab/x", b"y")
        with pytest.raises(PlaceRefused) as caught:
            objects.write("data/ab/x", b"y", replace=True)
        assert caught.value.what.endswith("does not let us replace `data/ab/x`: it can only be added to")
        with pytest.raises(PlaceRefused):
            objects.delete("data/ab/x")
        assert objects.read("data/ab/x") == b"x" * 100_000
        assert [stored.name for stored in objects.list()] == ["data/ab/x"]
        rights = objects.probe()
    assert (rights.write, rights.overwrite, rights.delete, rights.write_once) == (True, False, False, True)


@pytest.mark.parametrize(
    "line",
    [
        "rm data/ab/x",
        "rename data/ab/x data/ab/z",
        "rename -l data/ab/x data/ab/z",
        "put {mine} data/ab/x",
        "put -a {mine} data/ab/x",
        "chmod 600 data/ab/x",
        "chmod 700 data/ab",
        "rmdir data/ab",
        "rename data away",
        "ln -s /etc/passwd data/ab/y",
    ],
)
def test_whoever_has_its_key_can_neither_take_away_nor_change_what_is_there(server, place, line, tmp_path):
    with as_adder(server, place) as objects:
        objects.write("data/ab/x", b"x" * 1000)
    mine = tmp_path / "mine"
    mine.write_bytes(b"y" * 2000)
    path = os.path.join(place.directory, "data", "ab", "x")
    mode = stat.S_IMODE(os.stat(path).st_mode)
    done = sftp(server, place, line.format(mine=mine))
    assert done.returncode != 0, done.stdout + done.stderr
    with open(path, "rb") as file:
        assert file.read() == b"x" * 1000
    assert stat.S_IMODE(os.stat(path).st_mode) == mode == 0o400


def test_a_key_that_may_rename_is_told_to_be_able_to_take_away(server, place):
    """`-P remove` alone is not enough: what is renamed is gone from where it is looked for."""
    with contextlib.closing(place.open(ssh_config=server.client_config(key="mover"))) as objects:
        rights = objects.probe()
    assert rights.delete is True


def test_pushes_night_after_night_go_to_such_an_account_and_restic_reads_them(server, place, tmp_path):
    place = replace(place, options=replace(place.options, ssh_config=server.client_config(key="adder")))
    here = pointed(machine(tmp_path), place)
    assert push(here, PushRequest("far")).complete
    for night in range(2):
        one_more(here, 10 + night)
        assert push(here, PushRequest("far")).complete
    assert proven_copy(here, "far") == 4
    probes = [name for name in os.listdir(place.directory) if name.startswith("safekept-probe-")]
    assert len(probes) == 1, "one stays, and not one a night"
    found = examine_destination(here, "far")
    assert found.abilities is not None and found.abilities.keeps
    last = last_push(here, "far")
    assert last is not None and last.rights is not None and last.rights["keeps"] is True
    (status,) = destination_statuses(here, recent(here))
    assert status.keeps
    assert survived_by(here).step == "append-only"


def test_destinations_add_prints_the_whole_line_for_the_administrator(server, place, tmp_path, monkeypatch):
    say = spoken(monkeypatch, str(tmp_path))
    added = say("destinations", "add", place.url, "--option", f"ssh_config={place.options.ssh_config}")
    assert added.code == 0, added.err
    with open(os.path.join(server.root, "user.pub")) as file:
        key = file.read().strip()
    line = f'restrict,command="internal-sftp -P {ADD_ONLY}" {key}'
    assert [text.strip() for text in added.out.splitlines()].count(line) == 1, added.out
    # Pasted as it stands, it does what it says: the same options as the key that can only add.
    with open(os.path.join(server.root, "authorized")) as file:
        assert line.rpartition(f" {key}")[0] in file.read()
