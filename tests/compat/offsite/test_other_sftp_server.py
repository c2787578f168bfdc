"""A server that is not OpenSSH's: without its limits and its fsync, and with small packets only."""

from __future__ import annotations

import contextlib
import os
import shutil

import pytest

from safekept.core.objects import NotThere, Options, Taken
from support.offsite.servers import Place, Process, find_program, plain_environment

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def place(sftp_server, server_root):
    """`rclone serve sftp`, with the keys of the other server."""
    directory = os.path.join(server_root, "other-sftp")
    os.makedirs(directory)
    allowed = os.path.join(server_root, "allowed")
    shutil.copy(os.path.join(sftp_server.root, "user.pub"), allowed)
    keys = ["--authorized-keys", allowed, "--key", os.path.join(sftp_server.root, "host")]
    server = Process(
        [
            find_program("rclone"),
            "serve",
            "sftp",
            "--addr",
            "127.0.0.1:0",
            "-v",
            *keys,
            "--user",
            "me",
            directory,
        ],
        plain_environment(server_root),
        r"listening on 127\.0\.0\.1:(\d+)",
    )
    options = Options(ssh_config=sftp_server.ssh_config, timeout=30.0)
    yield Place(
        f"sftp://me@127.0.0.1:{server.match[1]}/agent", directory, options, plain_environment(server_root)
    )
    server.end()


def test_another_sftp_server_keeps_the_contract_too(place):
    data = os.urandom(3_000_000)
    with contextlib.closing(place.open()) as objects:
        assert not objects.present()
        objects.create()
        objects.write("data/ab/pack", data)
        assert objects.read("data/ab/pack") == data
        assert objects.read("data/ab/pack", 1_000_000, 70_000) == data[1_000_000:1_070_000]
        assert b"".join(objects.stream("data/ab/pack", 5)) == data[5:]
        with pytest.raises(Taken):
            objects.write("data/ab/pack", b"other")
        objects.write("status", b"one", replace=True)
        objects.write("status", b"two", replace=True)
        assert objects.read("status") == b"two"
        with pytest.raises(NotThere):
            objects.read("nothing")
        assert sorted((one.name, one.size) for one in objects.list()) == [
            ("data/ab/pack", 3_000_000),
            ("status", 3),
        ]
        abilities = objects.probe()
        assert abilities.write and abilities.overwrite and abilities.delete
        objects.delete("status")
        assert [one.name for one in objects.list()] == ["data/ab/pack"]
