"""`--report FILE` never takes the name of a device or a pipe from its users."""

from __future__ import annotations

import json
import os
import stat
import tempfile
import threading

import click
import pytest

from safekept.cli.report_file import refuse_unwritable, write_report_file


def written(path: str) -> list[str]:
    said: list[str] = []
    write_report_file(path, {"status": 0}, said.append)
    return said


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe, got = str(tmp_path / "pipe"), []
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert refuse_unwritable(pipe, "x") == pipe
        assert written(pipe) == []
        got.append(os.read(reader, 1 << 16))
    finally:
        os.close(reader)
    assert json.loads(got[0]) == {"version": 1, "status": 0}
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode) and os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no such place here")
def test_a_pipe_in_memory_is_a_pipe_and_a_file_there_a_file():
    """Below `/dev`, and yet a place for plain files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        os.mkfifo(f"{place}/pipe")
        (said,) = written(f"{place}/pipe")
        assert "No such device or address" in said and stat.S_ISFIFO(os.lstat(f"{place}/pipe").st_mode)
        assert written(f"{place}/file") == []
        with open(f"{place}/file", encoding="utf-8") as file:
            assert json.load(file) == {"version": 1, "status": 0}


def test_a_pipe_that_nobody_reads_is_said_and_keeps_nobody(tmp_path):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    (said,) = written(pipe)
    assert "could not be written: No such device or address" in said
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode)


def test_a_device_stays_a_device(tmp_path):
    """Also for root, who could give its name to a file."""
    device = str(tmp_path / "null")
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.stat(os.devnull).st_rdev)
    except PermissionError:
        device = os.devnull
    if os.statvfs(tmp_path).f_flag & os.ST_NODEV:  # here a device is not opened by anybody
        device = os.devnull
    assert written(refuse_unwritable(device, "x")) == []
    assert stat.S_ISCHR(os.lstat(device).st_mode)


def test_an_open_file_is_appended_to_and_keeps_what_is_in_it(tmp_path):
    """`--report /dev/stdout > file`: what the agent printed is in there already."""
    with open(tmp_path / "out", "wb") as file:
        file.write(b"of the agent\n")
        file.flush()
        name = f"/dev/fd/{file.fileno()}"
        if not os.path.exists(name):
            pytest.skip("this system has no names for open files")
        assert written(refuse_unwritable(name, "x")) == []
    text = (tmp_path / "out").read_text()
    assert text.startswith("of the agent\n") and json.loads(text.partition("\n")[2]) == {
        "version": 1,
        "status": 0,
    }


def test_a_link_is_replaced_and_never_written_through(tmp_path):
    """An agent may have put it there, to some file of the user."""
    (tmp_path / "dear").write_text("dear")
    os.symlink("dear", tmp_path / "report")
    assert written(str(tmp_path / "report")) == []
    assert (tmp_path / "dear").read_text() == "dear"
    assert json.loads((tmp_path / "report").read_text()) == {"version": 1, "status": 0}


def test_what_cannot_be_written_is_refused_before(tmp_path):
    for place in (str(tmp_path), str(tmp_path / "no" / "r"), "/dev/no-such-device"):
        with pytest.raises(click.UsageError, match=r"cannot be written to .*; the agent was not started"):
            refuse_unwritable(place, "the agent was not started")


def test_a_report_larger_than_a_pipe_is_written_whole(tmp_path):
    pipe, got = str(tmp_path / "pipe"), bytearray()
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)

    def read() -> None:
        while part := os.read(reader, 1 << 16):
            got.extend(part)

    thread = threading.Thread(target=read)
    document = {"files": ["x" * 100] * 10_000}
    said: list[str] = []
    writer = os.open(pipe, os.O_WRONLY)  # so that the reader does not see the end before the beginning
    thread.start()
    write_report_file(pipe, document, said.append)
    os.close(writer)
    thread.join()
    os.close(reader)
    assert said == [] and json.loads(got) == {"version": 1, **document}
