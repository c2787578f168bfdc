"""The system says no where nobody caught it: its words, the file, what helps; never "did not foresee"."""

from __future__ import annotations

import errno
import json
import os

import pytest

from support.commands.in_process import spoken


@pytest.fixture
def say(tmp_path, monkeypatch):
    return spoken(monkeypatch, str(tmp_path))


def refusing(monkeypatch, code, path="/disk/file"):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr("safekept.actions.status.status.recent", refuse)


@pytest.mark.parametrize(
    ("code", "what", "step"),
    [
        (errno.EIO, "Input/output error", "The disk gave an error: look after it"),
        (errno.ENOSPC, "No space left on device", "Make room on that disk"),
        (errno.EROFS, "Read-only file system", "That disk may only be read now"),
        (errno.EMFILE, "Too many open files", "End some programs, or raise the limit"),
        (errno.EPERM, "Operation not permitted", "See whose file that is"),
        (errno.EINTR, "Interrupted system call", "Run the command again"),
    ],
)
def test_what_the_system_said_is_told_with_the_file_and_what_helps(say, monkeypatch, code, what, step):
    refusing(monkeypatch, code)
    said = say("status", "--json")
    assert said.code == 1
    error = json.loads(said.out)["error"]
    assert error["code"] == "system-refused"
    assert error["what"] == f"The system refused to do something: {what}: `/disk/file`"
    assert error["kept"].startswith("No file was replaced without the old one being kept")
    assert error["next"][0].startswith(step)
    assert error["facts"]["errno"] == code and error["facts"]["path"] == "/disk/file"
    with open(error["facts"]["traceback"]) as file:
        assert os.strerror(code) in file.read()
    os.unlink(error["facts"]["traceback"])


def test_a_part_of_the_program_that_cannot_be_read_is_told_with_what_helps(say, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise ImportError("failed to map segment", path="/lib/_sqlite3.so")

    monkeypatch.setattr("safekept.actions.status.status.recent", refuse)
    error = json.loads(say("status", "--json").out)["error"]
    assert error["code"] == "system-refused"
    assert error["what"] == "A part of safekept or of Python could not be loaded: failed to map segment"
    assert error["next"][0].startswith("Run the command again; if it says the same, install safekept again")
    assert error["facts"]["path"] == "/lib/_sqlite3.so"
    os.unlink(error["facts"]["traceback"])


def test_a_mistake_of_ours_is_still_called_one(say, monkeypatch):
    refusing(monkeypatch, errno.EBADF)
    error = json.loads(say("status", "--json").out)["error"]
    assert error["code"] == "unexpected"
    os.unlink(error["facts"]["traceback"])
