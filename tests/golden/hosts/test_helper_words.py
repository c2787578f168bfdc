"""`safekept helper …`: what it says, as text and as JSON."""

from __future__ import annotations

import io
import json
import os
import re
import sys

import pytest

from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.hosts.throwaway_helper import helper_thread, short_place, throwaway


@pytest.fixture
def user():
    with short_place() as place:
        yield throwaway(place)


@pytest.fixture
def say(monkeypatch, user):
    monkeypatch.delenv("SAFEKEPT_HELPER")
    return spoken(monkeypatch, user.home)


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_without_one_it_says_so_and_stopping_is_no_error(say, user):
    assert say("helper").out == "No helper runs; the next hook starts one where it may\n"
    assert json.loads(say("helper", "status", "--json").out) == {
        "version": 1,
        "directory": user.directory,
        "running": False,
        "wanted": True,
        "process": None,
        "since": None,
        "requests": None,
        "waiting": None,
        "current": None,
    }
    assert (say("helper", "stop").code, say("helper", "stop").out) == (0, "No helper runs\n")
    assert json.loads(say("helper", "stop", "--json").out) == {
        "version": 1,
        "stopped": False,
        "process": None,
    }


def test_where_it_is_not_wanted_that_is_said(say, monkeypatch):
    monkeypatch.setenv("SAFEKEPT_HELPER", "0")
    said = "No helper runs (SAFEKEPT_HELPER switches it off); the next hook starts one where it may\n"
    assert say("helper").out == said


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_one_that_runs_is_shown_and_ended(say, user):
    with helper_thread(user):
        first, second = say("helper", "status").out.splitlines()
        words = rf"The helper runs as process {os.getpid()}, since [\d.]+ (s|min) ago; requests: 0"
        assert re.fullmatch(words, first)
        assert second == f"  it listens in {user.directory}"
        document = json.loads(say("helper", "--json").out)
        assert (document["running"], document["process"], document["current"]) == (True, os.getpid(), True)
        again = say("helper", "run")
        assert again.code == 11
        assert error_code(again.err) == "already-running" and "safekept helper" in again.err
        assert (say("helper", "run", "--quiet").code, say("helper", "run", "--quiet").out) == (0, "")
        stopped = say("helper", "stop")
        assert stopped.out == f"The helper (process {os.getpid()}) takes no more requests and ends\n"


def test_one_call_is_done_and_its_outcome_printed(say, user, monkeypatch):
    project = user.project()
    given(monkeypatch, json.dumps({"kind": "before", "host": "codex", "shell": True, "directory": project}))
    outcome = json.loads(say("helper", "call").out)
    assert len(outcome["checkpoints"]) == 1
    assert (outcome["failures"], outcome["skipped"], outcome["off"]) == ([], [], False)


@pytest.mark.parametrize(
    ("text", "why"), [("", "Expecting value"), ("[]", "it is not an object"), ("[" * 100_000, "recursion")]
)
def test_what_is_no_call_is_refused(say, monkeypatch, text, why):
    given(monkeypatch, text)
    said = say("helper", "call")
    assert said.code == 2 and said.out == ""
    lines = said.err.splitlines()
    assert error_code(said.err) == "bad-call"
    assert lines[0].startswith("Standard input is not a call: ") and why in lines[0]
    assert "  Kept       Nothing was kept, and nothing was changed" in lines
    assert "  Next       See what a call is: `safekept helper call --help`" in lines


@pytest.mark.needs("pipes", "it makes a pipe or a socket")
def test_a_helper_that_stays_at_work_is_said(say, user, monkeypatch):
    from safekept.cli.commands.hosts import helper

    monkeypatch.setattr(helper, "_SECONDS", 0.0)
    monkeypatch.setattr(helper, "lock_is_held", lambda path: True)
    with helper_thread(user):
        said = say("helper", "stop")
    assert said.code == 1
    assert f"The helper (process {os.getpid()}) was told to end, and is still at work" in said.err
    assert "Kept       What it does is finished in any case" in said.err
    assert "Next       See whether it is still there: `safekept helper status`" in said.err
