"""Every finding's printed fix is run here, and the finding is gone afterwards."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
from contextlib import closing

import pytest

from in_process import spoken
from safekept.actions.alarms.declined import take_back
from safekept.actions.hosts.calls import record_host_call
from states import DAY, aged, empty, made, tear


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr("safekept.core.trash.free_bytes", lambda path: 1 << 40)
    monkeypatch.setattr("safekept.actions.offsite.place._refuse_same_disk", lambda *_: None)


def taken(directory):
    state = made("fresh", directory)
    shutil.rmtree(os.path.join(state.context.places.data_directory, "receipts"))
    return state


def stale(directory):
    return made("stale", directory)


def wide_key(directory):
    state = made("fresh", directory)
    os.chmod(state.context.places.vault_key_file, 0o640)
    return state


def torn(directory):
    state = made("fresh", directory)
    tear(os.path.join(state.home, "state.db"))
    return state


def not_scheduled(directory):
    state = made("fresh", directory)
    take_back(state.context, ("no-schedule",))
    return state


def not_connected(directory):
    state = made("fresh", directory)
    take_back(state.context, ("not-connected:hermes",))
    return state


def unkept_command(directory):
    state = made("fresh", directory)
    record_host_call(state.context.places.data_directory, "hermes", kept=False, unkept="/: not a project")
    return state


def half_landed(directory):
    state = made("fresh", directory)
    place = os.path.join(state.user, ".hermes.safekept", "landings", "20260101-000000-abcdef")
    os.makedirs(place, 0o700)
    return state


def hermes_copy(directory):
    """What `hermes backup -q` leaves: its manifest names what lay beside the database, and has no more."""
    state = made("fresh", directory)
    place = os.path.join(state.home, "state-snapshots", "20260601-000000")
    os.makedirs(place)
    with closing(sqlite3.connect(os.path.join(place, "state.db"))) as connection:
        connection.execute("create table t(x)")
        connection.executemany("insert into t values (?)", [(os.urandom(1000),) for _ in range(1500)])
        connection.commit()
    size = os.path.getsize(os.path.join(place, "state.db"))
    files = {"state.db": size, "state.db-wal": 4152, "state.db-shm": 32768}
    with open(os.path.join(place, "manifest.json"), "w", encoding="ascii") as file:
        json.dump({"id": "20260601-000000", "files": files}, file)
    return state


#: code: how it comes about, and which of its printed commands are run (all of ours where none is named).
FIXES = {
    "no-snapshot": (empty, "snapshot"),
    "stale": (stale, "snapshot"),
    "not-proven": (taken, "drill"),
    "alarm-loss": (lambda directory: made("alarmed", directory), "snapshot restore"),
    "permissions": (wide_key, "chmod"),
    "database-damaged": (torn, "snapshot restore"),
    "no-schedule": (not_scheduled, "schedule install"),
    "host-not-connected": (not_connected, "connect"),
    "interrupted-landing": (half_landed, "doctor --fix"),
    "unkept-command": (unkept_command, "status --acknowledge"),
    "other-copies": (hermes_copy, "snapshot adopt"),
}


@pytest.mark.parametrize("code", FIXES)
def test_the_printed_fix_clears_its_finding(code, tmp_path, monkeypatch):
    make, which = FIXES[code]
    state = make(tmp_path)
    say = spoken(monkeypatch, state.user)
    if code == "no-schedule":
        with_crontab(tmp_path, monkeypatch)
    fixes = findings(say)[code]
    commands = [one for step in fixes for one in re.findall(r"`([^`]*)`", step) if which in one]
    assert commands, fixes
    for command in commands[:1]:
        words = shlex.split(command)
        if words[0] != "safekept":
            assert os.system(command) == 0
            continue
        said = say(
            *words[1:],
            *(
                ["--yes"]
                if which in ("snapshot restore", "schedule install", "connect") and "--yes" not in words
                else []
            ),
        )
        # The doctor's own code is about what is left.
        assert said.code == 0 or words[1] == "doctor", said.err + said.out
    left = findings(say)
    if code == "other-copies":
        assert all("not in the vault yet" not in step for step in left[code]), "only what may go is named now"
        assert any("`rm -r" in step for step in left[code])
    else:
        assert code not in left


def findings(say):
    return {one["code"]: one["fix"] for one in json.loads(say("doctor", "--json").out)["findings"]}


def with_crontab(directory, monkeypatch):
    """A crontab that keeps its table in a file, and a cron that runs."""
    place = directory / "bin"
    place.mkdir()
    table = shlex.quote(str(directory / "table"))
    lines = ["#!/bin/sh", f'case "$1" in -l) cat {table} 2>/dev/null || {{ echo no crontab >&2; exit 1; }};;']
    lines += [f"-) cat > {table};;", f"-r) rm -f {table};; esac", ""]
    (place / "crontab").write_text("\n".join(lines))
    (place / "crontab").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("safekept.actions.schedule.armed._cron_runs", lambda machine: True)


def test_a_place_that_was_pushed_to_once_is_saved_by_the_printed_command(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    place = str(tmp_path / "usb")
    assert say("push", place).code == 0
    (fix,) = findings(say)["no-copy-elsewhere"]
    (command,) = re.findall(r"`safekept ([^`]*)`", fix)
    assert place in command
    assert say(*shlex.split(command)).code == 0
    left = findings(say)
    assert "no-copy-elsewhere" not in left and "never-pushed" not in left
    assert json.loads(say("status", "--json").out)["verdict"]["level"] == "machine-lost"


def test_who_disconnects_an_agent_does_not_miss_it(tmp_path, monkeypatch):
    state = not_connected(tmp_path)
    say = spoken(monkeypatch, state.user)
    assert "host-not-connected" in findings(say)
    assert say("connect", "hermes", "--yes").code == 0
    assert say("connect", "--remove", "hermes", "--yes").code == 0
    assert "host-not-connected" not in findings(say)


def test_a_destination_says_when_the_last_snapshot_arrived_and_not_when_it_was_taken(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    aged(state, 3 * DAY)
    say = spoken(monkeypatch, state.user)
    place = str(tmp_path / "usb")
    assert say("push", place).code == 0
    shown = say("destinations", "show", place).out
    assert "the last one arrived " in shown and "the newest of" not in shown


def test_where_all_of_ours_was_deleted_the_copy_elsewhere_is_found_and_brought_back(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    place = str(tmp_path / "nas")
    assert say("destinations", "add", place).code == say("push", "nas").code == 0
    shutil.rmtree(state.context.places.data_directory)
    said = say("status", "--check")
    assert said.code == say("status", "--short", "--check").code == 4
    told = said.out.replace("\n", " ")
    assert told.startswith(
        "ALARM, not protected: there is no vault here any more; nas holds a copy with 2 snapshots"
    )
    assert "no snapshot" not in told and "nothing is in nas" not in told
    (command, _) = findings(say)["vault-lost"]
    assert say(*shlex.split(re.findall(r"`safekept ([^`]*)`", command)[0])).code == 0
    assert "vault-lost" not in findings(say)
    assert json.loads(say("status", "--json").out)["homes"][0]["snapshots"] == 2
