"""Another process does the work: it is waited for, its end is told, and its errors are the same."""

from __future__ import annotations

import _thread
import os
import pathlib
import sys
import threading
import time

import pytest

import safekept
from support.hosts.apart_functions import die, fail, wait_for, where


def test_it_is_another_process_in_the_same_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAFEKEPT_TEST", "yes")
    pid, directory, said, words, more = where(pathlib.Path("a"), (one for one in "xy"), "z", b=None)
    assert pid != os.getpid()
    assert (directory, said) == (str(tmp_path), "yes")
    assert (words, more) == (("a", ("x", "y"), "z"), {"b": None})


def test_nothing_is_imported_from_where_the_program_stands(tmp_path, monkeypatch):
    (tmp_path / "pickle.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert where()[0] != os.getpid()


def test_an_interrupted_program_waits_until_what_was_begun_is_ended(tmp_path):
    up, go, done = (str(tmp_path / name) for name in ("up", "go", "done"))

    def interrupt() -> None:
        while not os.path.exists(up):
            time.sleep(0.01)
        _thread.interrupt_main()
        pathlib.Path(go).touch()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        wait_for(up, go, done)
        raise AssertionError("it came back")
    thread.join()
    assert os.path.exists(done)


def test_a_process_that_is_killed_is_told():
    with pytest.raises(safekept.SafekeptError, match="it was ended by signal 9") as found:
        die()
    assert found.value.code == "process-lost"
    assert "taken back by the next command" in found.value.kept


def test_a_process_that_cannot_be_started_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(safekept.SafekeptError, match="could not be started: No such file"):
        where()


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("plain", FileNotFoundError, "No such file or directory: 'x'"),
        ("unsendable", RuntimeError, "Unsendable: a and b"),
        ("interrupt", KeyboardInterrupt, "^$"),
        ("exit", SystemExit, "3"),
    ],
)
def test_what_it_raises_is_raised_here(kind, error, text):
    with pytest.raises(error, match=text):
        fail(kind)


def test_an_error_of_ours_comes_whole_whatever_its_facts_are():
    with pytest.raises(safekept.SafekeptError, match=r"^what$") as found:
        fail("ours")
    assert (found.value.code, found.value.kept, found.value.advice()) == ("process-lost", "kept", ("next",))
    assert "lock" in str(found.value.facts["lock"])
