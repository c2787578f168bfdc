"""kill -9 in the middle of an upload: nothing stands half under its name, and no process is left."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys

import pytest

from safekept.core.objects import NotThere
from support.commands.waiting import wait_until
from support.places import TESTS

WORKER = os.path.join(TESTS, "support", "offsite", "objects_worker.py")


@contextlib.contextmanager
def working(place, *, size=0, path="", **environment):
    """A process that is in the middle of an upload; killed at the end of the block."""
    job = {
        "url": place.url,
        "environment": {**place.environment, **environment},
        "options": dataclasses.asdict(place.options),
        "bytes": size,
        "path": path,
    }
    process = subprocess.Popen(
        [sys.executable, WORKER, json.dumps(job)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "half\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def files(directory):
    return sorted(
        os.path.relpath(os.path.join(at, name), directory)
        for at, _, names in os.walk(directory)
        for name in names
    )


def whole_only(place):
    """Through a fresh connection: only what was whole is there, and the name is free."""
    with contextlib.closing(place.open()) as objects:
        assert [(stored.name, stored.size) for stored in objects.list()] == [("whole", 5)]
        with pytest.raises(NotThere):
            objects.read("data/ab/half")
        objects.write("data/ab/half", b"now whole")
        assert objects.read("data/ab/half") == b"now whole"
        return list(objects.sweep(older_than=0.0))


def test_a_killed_sftp_upload_leaves_a_temporary_name_at_most(sftp_server):
    place = sftp_server.place()
    with working(place, size=3 << 20):
        wait_until(lambda: any(".safekept-tmp-" in name for name in files(place.directory)))
    swept = whole_only(place)
    assert len(swept) == 1
    assert files(place.directory) == ["data/ab/half", "whole"]


def test_a_killed_s3_upload_leaves_nothing_to_be_seen(s3_server):
    place = s3_server.place()
    with working(place, size=40 << 20):
        pass
    whole_only(place)


def test_a_killed_rclone_upload_leaves_nothing_under_its_name_and_no_process(rclone_remotes, tmp_path):
    place = rclone_remotes.local()
    path = tmp_path / "archive"
    path.write_bytes(os.urandom(4 << 20))
    # A limit of ours holds for the network only: rclone would copy this from disk to disk at once, and
    # be done before it is killed. Its own limit holds for every copy: this one lasts for minutes.
    with working(place, path=str(path), RCLONE_BWLIMIT="20k"):
        wait_until(lambda: any(name.endswith(".partial") for name in files(place.directory)))
        helper = _processes_for(place.options.rclone_config)
        assert helper
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in helper))
    swept = whole_only(place)
    assert [name for name in swept if not name.endswith(".partial")] == []
    assert files(place.directory) == ["data/ab/half", "whole"]


def _processes_for(config):
    """The rclone processes with this configuration in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if f"RCLONE_CONFIG={config}\0".encode() in file.read() and int(pid) != os.getpid():
                found.append(pid)
    return found
