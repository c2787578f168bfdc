"""What is remembered of hosts and their sessions: small, bounded, and no trouble when it is damaged."""

from __future__ import annotations

import fcntl
import functools
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from safekept.actions.hosts import calls
from safekept.actions.hosts import sessions as host_sessions
from safekept.actions.hosts.calls import HostCalls, read_host_calls, record_host_call
from safekept.actions.hosts.sessions import (
    begin_turn,
    read_session,
    sessions_off,
    set_switch,
    switch,
    switched_off,
    worked_in,
)
from safekept.integrations.hermes.plugin import record
from safekept.integrations.hermes.plugin.record import remember_failure
from support.commands.waiting import PATIENT
from support.users.contexts import throwaway


@pytest.fixture
def context(tmp_path):
    return throwaway(tmp_path)


def test_calls_are_counted_and_the_last_success_and_failure_kept(context):
    data = context.places.data_directory
    assert read_host_calls(context) == ()
    record_host_call(data, "codex", kept=True, when=10.0)
    record_host_call(data, "codex", kept=False, failure="no room", when=20.0)
    record_host_call(data, "codex", kept=False, when=30.0)
    record_host_call(data, "hermes", kept=True, when=5.0)
    codex, hermes = read_host_calls(context)
    assert codex == HostCalls("codex", 30.0, 10.0, {"time": 20.0, "what": "no room"}, 3)
    assert codex.failing and not hermes.failing
    record_host_call(data, "codex", kept=True, when=40.0)
    assert not read_host_calls(context)[0].failing


def test_what_was_not_kept_outlasts_calls_at_the_same_time(context, monkeypatch):
    """The helper and the plugin inside Hermes write the same record, each in a process of its own."""
    monkeypatch.setattr(calls, "in_turn", functools.partial(calls.in_turn, wait=PATIENT))
    monkeypatch.setattr(record, "_in_turn", functools.partial(record._in_turn, wait=PATIENT))
    data, rounds = context.places.data_directory, 60
    with ThreadPoolExecutor(4) as threads:
        told = [threads.submit(remember_failure, data, "not foreseen")]
        for number in range(rounds):
            told.append(threads.submit(record_host_call, data, "hermes", kept=True))
            told.append(threads.submit(remember_failure, data, f"not foreseen {number}"))
        for one in told:
            one.result()
    [hermes] = read_host_calls(context)
    assert hermes.calls == 2 * rounds + 1
    assert str(hermes.last_failure["what"]).startswith("not foreseen")


def test_a_stopped_process_keeps_no_call_waiting_for_long(context):
    data = context.places.data_directory
    record_host_call(data, "codex", kept=True, when=10.0)
    holder = os.open(os.path.join(data, "integrations"), os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        record_host_call(data, "codex", kept=False, failure="no room", when=20.0)
    finally:
        os.close(holder)
    assert read_host_calls(context)[0].last_failure == {"time": 20.0, "what": "no room"}


@pytest.mark.parametrize("host", ["", "../escape", "A", "a/b", "connections", "x" * 40, "a\0b"])
def test_a_name_that_is_no_hosts_leaves_no_file(context, host):
    record_host_call(context.places.data_directory, host, kept=True)
    assert read_host_calls(context) == ()
    assert not os.path.exists(os.path.join(context.places.data_directory, "integrations"))


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "7", '{"calls": "many"}', '{"last_call": {}, "calls": 2}', "[" * 100_000]
)
def test_a_damaged_record_is_as_good_as_none(context, content):
    data = context.places.data_directory
    record_host_call(data, "codex", kept=True)
    with open(os.path.join(data, "integrations", "codex.json"), "w") as file:
        file.write(content)
    read_host_calls(context)
    record_host_call(data, "codex", kept=True, when=50.0)
    [codex] = read_host_calls(context)
    assert codex.last_checkpoint == 50.0


def test_a_place_that_cannot_be_written_stops_nobody(tmp_path):
    (tmp_path / "data").write_text("in the way")
    record_host_call(str(tmp_path / "data"), "codex", kept=True)
    assert begin_turn(str(tmp_path / "data"), "s")


@pytest.mark.needs("modes", "it looks at modes")
def test_the_record_is_private_and_a_failure_is_cut(context):
    data = context.places.data_directory
    record_host_call(data, "codex", kept=False, failure="x" * 100_000)
    path = os.path.join(data, "integrations", "codex.json")
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    assert os.path.getsize(path) < 2000
    assert [name for name in os.listdir(os.path.dirname(path)) if name != "codex.json"] == []


def test_turn_and_switch_of_a_session_do_not_disturb_each_other(context):
    data = context.places.data_directory
    first = begin_turn(data, "s")
    set_switch(data, "s", False)
    assert (read_session(data, "s").turn, read_session(data, "s").on) == (first, False)
    assert begin_turn(data, "s", "own name") == "own name"
    assert (read_session(data, "s").turn, read_session(data, "s").on) == ("own name", False)
    assert sessions_off(data) == ("s",)
    assert read_session(data, "other").on is None and switch(data, {}, "other").on


def test_whoever_asks_hears_where_checkpoints_are_off(context):
    data = context.places.data_directory
    assert switched_off(data, {}) == ()
    [by_variable] = switched_off(data, {"SAFEKEPT_CHECKPOINTS": "0"})
    assert by_variable == "SAFEKEPT_CHECKPOINTS=0 switches checkpoints off for whatever is started from here"
    [strange] = switched_off(data, {"SAFEKEPT_CHECKPOINTS": "perhaps"})
    assert strange == "SAFEKEPT_CHECKPOINTS is `perhaps`, neither 0 nor 1: checkpoints are taken"
    set_switch(data, "one", False)
    [sessions] = switched_off(data, {"SAFEKEPT_CHECKPOINTS": "1"})
    assert sessions == "checkpoints are switched off in one session (`/safekept on` there switches them on)"
    place = os.path.join(data, "integrations", "sessions")
    for name in os.listdir(place):
        os.utime(os.path.join(place, name), (1.0, 1.0))
    assert switched_off(data, {}) == (), "a session that ended long ago concerns nobody"


def test_sessions_do_not_pile_up(context, monkeypatch):
    monkeypatch.setattr(host_sessions, "_SESSIONS", 5)
    data = context.places.data_directory
    for number in range(20):
        begin_turn(data, f"s{number}")
    place = os.path.join(data, "integrations", "sessions")
    assert len(os.listdir(place)) == 5
    old = os.path.join(place, sorted(os.listdir(place))[0])
    os.utime(old, (0, 0))
    begin_turn(data, "one more")
    assert not os.path.exists(old)


def test_a_session_file_of_another_session_is_not_taken_for_ours(context):
    data = context.places.data_directory
    set_switch(data, "s", False)
    place = os.path.join(data, "integrations", "sessions")
    [name] = os.listdir(place)
    with open(os.path.join(place, name), "w") as file:
        json.dump({"session": "other", "on": False}, file)
    assert read_session(data, "s").on is None


def test_where_a_session_worked_its_turn_and_its_switch_are_kept_beside_each_other(context):
    data = context.places.data_directory
    worked_in(data, "s", "/projects/\udcff")
    begin_turn(data, "s", "turn 1")
    set_switch(data, "s", False)
    worked_in(data, "s", "/projects/b")
    found = read_session(data, "s")
    assert (found.directory, found.turn, found.on) == ("/projects/b", "turn 1", False)
    worked_in(data, "t", "/projects/\udcff")
    assert read_session(data, "t").directory == "/projects/\udcff"
    with open(host_sessions._path(data, "t"), "w") as file:
        json.dump({"session": "t", "directory": "somewhere", "turn": 7}, file)
    assert (read_session(data, "t").directory, read_session(data, "t").turn) == ("", "")
