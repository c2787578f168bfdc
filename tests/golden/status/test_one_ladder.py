"""One ladder behind every answer: status, `--short`, `--check`, doctor, fleet and metrics never disagree."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import sqlite3
import time

import pytest

from safekept.actions.alarms.declined import take_back
from safekept.actions.hosts.calls import record_host_call
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.vault.opening import open_vault
from safekept.core.finding import ALARM, LADDER, NOTE, STALE, WELL, Finding, exit_code, reached
from safekept.integrations.connecting.hosts import HOSTS
from safekept.vault.care import mark_proven
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage import FileKind
from support.commands.in_process import spoken
from support.hosts.connected import connect, program_in
from support.projects.checkpoints import put
from support.users.states import STATES, State, aged, drilled, made
from support.users.troubles import leads_out, locked_while_stored


def test_the_worst_finding_decides_and_a_note_does_not_count():
    assert reached([]) == "machine-lost" and exit_code([]) == WELL
    for rung, code in zip(LADDER[:3], (STALE, STALE, WELL), strict=True):
        found = [Finding("a", rung, "x"), Finding("b", NOTE, "y"), Finding("c", "this-machine", "z")]
        assert (reached(found), exit_code(found)) == (rung, code)
    assert exit_code([Finding("a", "partly", "x", alarm=True)]) == ALARM


def into_the_future(state: State) -> None:
    """Every snapshot was taken while the clock was a month ahead."""
    ahead = 30 * 86400 * 10**9
    with open_vault(state.context) as repository:
        for name, _ in list(repository.storage.list(FileKind.SNAPSHOT)):
            one = repository.load_snapshot(name)
            repository.save_snapshot(dataclasses.replace(one, time_ns=one.time_ns + ahead, original=one.id))
            repository.delete_snapshot(name)
    path = os.path.join(state.context.places.data_directory, "journal.jsonl")
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps({**line, "time": line["time"] + ahead / 1e9}) + "\n")


def a_half_landed_restore(state: State) -> None:
    place = os.path.join(state.user, ".hermes.safekept", "landings", "20260101-000000-abcdef")
    os.makedirs(place, 0o700)
    with open(os.path.join(place, "plan.jsonl"), "w", encoding="ascii") as file:
        file.write("torn")


def a_link_out(state: State) -> None:
    leads_out(state)
    create_snapshot(state.context, SnapshotRequest(state.context.locate(state.home)))


def no_vault(state: State) -> None:
    shutil.rmtree(state.context.places.vault)


def no_home(state: State) -> None:
    shutil.rmtree(state.home)


def many_messages(state: State) -> None:
    """An agent that wrote a lot since, hours after the last snapshot."""
    aged(state, 3 * 3600.0)
    with contextlib.closing(sqlite3.connect(os.path.join(state.home, "state.db"))) as database, database:
        database.execute("create table said_since(text)")
        database.executemany("insert into said_since values(?)", [("x" * 2000,)] * 4000)


def a_command_where_nothing_could_be_kept(state: State) -> None:
    connected(state)
    data = state.context.places.data_directory
    record_host_call(data, "hermes", kept=False, unkept="/: not a project")


def a_profile_beside(state: State) -> None:
    connected(state)
    put(os.path.join(state.home, "profiles", "coder", "config.yaml"), "model: x\n")


def connected(state: State) -> None:
    connect(state.context, HOSTS["hermes"], program_in(os.path.dirname(state.user), "hermes"))


def a_failed_drill(state: State) -> None:
    drilled(state, state.snapshots[-1], ok=False)


def no_timer(state: State) -> None:
    take_back(state.context, ("no-schedule",))
    fields = {"host": "systemd", "user": "", "time": time.time(), "directories": [], "table": False}
    document = {"version": 1, **fields, "files": {"/nowhere/safekept.timer": "0"}, "stop": [], "after": []}
    put(os.path.join(state.context.places.data_directory, "schedule", "installed.json"), json.dumps(document))


#: By its name: how a user's protection comes into that state, and the reason that is given then.
CHANGES = {
    "as it is": (lambda state: None, ""),
    "from the future": (into_the_future, "clock"),
    "half way": (a_half_landed_restore, "interrupted-landing"),
    "leads out": (a_link_out, "leads-out"),
    "incomplete": (locked_while_stored, "incomplete"),
    "much said": (many_messages, "much-changed"),
    "nothing kept": (a_command_where_nothing_could_be_kept, "unkept-command"),
    "a profile beside": (a_profile_beside, "profile-not-connected"),
    "a failed drill": (a_failed_drill, "drill-failed"),
    "no timer": (no_timer, "schedule-not-armed"),
    "no vault": (no_vault, ""),
    "no home": (no_home, "home-gone"),
}
CASES = [(name, "as it is") for name in STATES] + [("fresh", how) for how in list(CHANGES)[1:]]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(case))
def case(request, tmp_path):
    name, how = request.param
    state = made(name, tmp_path)
    CHANGES[how][0](state)
    return state, how


@pytest.fixture
def say(case, monkeypatch):
    monkeypatch.setattr("safekept.core.trash.free_bytes", lambda path: 1 << 40)
    return spoken(monkeypatch, case[0].user)


def test_nobody_disagrees(case, say):
    status = json.loads(say("status", "--json").out)["verdict"]
    wanted = CHANGES[case[1]][1]
    assert not wanted or wanted in {one["code"] for one in status["reasons"]}
    code = say("status", "--check").code
    assert status["exit_code"] == code
    short = json.loads(say("status", "--short", "--json").out)
    assert short["level"] == status["level"]
    if wanted:
        texts = (short["text"], status["text"].replace(f"{case[0].user}/", "~/"))
        first, second = (re.sub(r"\d+ (s|min|h|days)\b", "AGE", text).partition(":")[2] for text in texts)
        assert first == second
    assert say("status", "--short", "--check").code == code
    metrics = dict(
        re.findall(
            r"^safekept_(status_code|protection_level) (\d+)$", say("status", "--prometheus").out, re.M
        )
    )
    assert metrics == {"status_code": str(code), "protection_level": str(LADDER.index(status["level"]))}
    doctor = say("doctor", "--json")
    findings = [one for one in json.loads(doctor.out)["findings"] if one["level"] != NOTE]
    assert min((LADDER.index(one["level"]) for one in findings), default=3) == LADDER.index(status["level"])
    assert (doctor.code == 4) == (code == 4)
    assert {one["code"] for one in status["reasons"]} <= {one["code"] for one in findings}


#: What a vault knows of the home in it, without the machine that it is of.
KNOWN_TO_A_FLEET = {"clock", "stale", "incomplete", "leads-out", "no-whole-snapshot", "database-damaged"}
FLEET = [("fresh", how) for how in ("as it is", "from the future", "leads out", "incomplete", "not proven")]


@pytest.mark.parametrize(("name", "how"), [*FLEET, ("stale", "as it is"), ("damaged", "as it is")])
def test_a_fleet_says_the_same_as_the_machine_itself(name, how, tmp_path, monkeypatch):
    state = made(name, tmp_path)
    if how == "not proven":
        shutil.rmtree(os.path.join(state.context.places.data_directory, "receipts"))
    else:
        CHANGES[how][0](state)
        with open_vault(state.context) as repository, repository.lock(exclusive=True) as lock:
            snapshots, _ = list_snapshots(repository)
            mark_proven(repository, snapshots[:1], lock, now_ns=time.time_ns())
    say = spoken(monkeypatch, state.user)
    reasons = json.loads(say("status", "--json").out)["verdict"]["reasons"]
    fleet = json.loads(say("fleet", state.context.places.vault, "--overdue", "26", "--json").out)
    there = {one["code"]: one for one in fleet["vaults"][0]["homes"][0]["findings"]}
    here = {one["code"]: one for one in reasons if one["code"] in {*KNOWN_TO_A_FLEET, "not-proven"}}
    assert there.keys() == here.keys() and (here or name == "fresh")
    for code in KNOWN_TO_A_FLEET & here.keys():
        assert [there[code][key] for key in ("level", "alarm", "text")] == [
            here[code][key] for key in ("level", "alarm", "text")
        ]
    code = say("fleet", state.context.places.vault, "--overdue", "26", "--check").code
    assert code == say("status", "--check").code


def test_a_snapshot_from_the_future_is_the_same_to_the_fleet_as_to_the_machine(tmp_path, monkeypatch):
    state = made("fresh", tmp_path)
    into_the_future(state)
    say = spoken(monkeypatch, state.user)
    (here,) = [
        one for one in json.loads(say("status", "--json").out)["verdict"]["reasons"] if one["code"] == "clock"
    ]
    fleet = json.loads(say("fleet", state.context.places.vault, "--json").out)
    (there,) = [one for one in fleet["vaults"][0]["homes"][0]["findings"] if one["code"] == "clock"]
    for key in ("code", "level", "alarm", "text"):
        assert there[key] == here[key]
    assert say("fleet", state.context.places.vault, "--check").code == say("status", "--check").code == 3


def test_what_the_doctor_saw_closely_counts_until_it_looks_again(tmp_path, monkeypatch):
    monkeypatch.setattr("safekept.core.trash.free_bytes", lambda path: 1 << 40)
    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    assert say("status", "--check").code == 0
    with open(os.path.join(state.home, "state.db"), "r+b") as file:
        file.write(b"\0" * 4096)
    assert say("doctor").code == 4
    said = say("status", "--check")
    assert said.code == say("status", "--short", "--check").code == 4, (
        "status opens no database, the doctor did"
    )
    assert "state.db in ~/.hermes is damaged" in said.out
    assert say("snapshot", "restore", state.snapshots[-1][:8], "state.db", "--yes").code == 0
    say("doctor")
    assert say("status", "--check").code == 0


def test_what_a_person_declined_does_not_count_and_comes_back_when_it_is_taken_back(tmp_path, monkeypatch):
    from safekept.actions.alarms.declined import declined, take_back

    state = made("fresh", tmp_path)
    say = spoken(monkeypatch, state.user)
    take_back(state.context, ("no-schedule",))
    assert say("status", "--check").code == 3
    said = say("doctor").out
    assert "`safekept status --acknowledge no-schedule`" in said
    assert (
        say("status", "--acknowledge", "no-schedule").out
        == "Left as it is, and not counted any more: no-schedule\n"
    )
    assert say("status", "--check").code == 0
    assert declined(state.context)["no-schedule"] <= time.time()
    assert "nothing takes snapshots by itself" not in say("doctor").out
