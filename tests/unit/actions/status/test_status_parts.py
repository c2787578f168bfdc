"""What status is made of: growth, coverage, the end of the journal, and a way back that is asked of undo."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from safekept.actions.base.record import record
from safekept.actions.status.coverage import coverage_of
from safekept.actions.status.growth import by_day, growth_of
from safekept.actions.status.recent import MOST_BYTES, recent
from safekept.actions.status.status import look
from safekept.actions.undo.log import parse_since
from safekept.core.ages import iso_time, seconds_text
from safekept.core.events import silent
from safekept.core.journal import Record
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.storage import LocalStorage
from support.commands.in_process import spoken
from support.users.contexts import throwaway
from support.users.states import DAY, empty, fresh, write
from support.vault.closed import lose

NOW = 1_800_000_000.0


def snapshot(days_ago: float, added: object) -> Snapshot:
    return Snapshot(
        int((NOW - days_ago * DAY) * 1e9), bytes(32), ("/h",), summary={"data_added_packed": added}
    )


def test_growth_leaves_the_first_snapshot_out_and_looks_at_the_last_weeks():
    found = growth_of([snapshot(100, 9_000_000), *(snapshot(day, 280) for day in range(60, 0, -1))], NOW)
    assert found.last_week == 7 * 280
    assert found.per_day == pytest.approx(280)
    assert found.total == 9_000_000 + 60 * 280


def test_growth_of_one_day_is_not_blown_up_and_of_none_is_unknown():
    assert growth_of([snapshot(1.0, 5000), snapshot(0.01, 240)], NOW).per_day == 240
    assert growth_of([snapshot(0.9, 5000), snapshot(0.01, 240)], NOW).per_day is None, "less than a day"
    for known in ([], [snapshot(1, 5000)], [snapshot(1, None), snapshot(0.5, "x"), snapshot(0.2, -4)]):
        assert growth_of(known, NOW).per_day is None
    assert growth_of([snapshot(1, 5), snapshot(-9, 10**12)], NOW).total == 5, "the future adds nothing"


def test_days_are_those_of_the_calendar_and_today_comes_last():
    now = time.mktime((2026, 3, 29, 18, 0, 0, 0, 0, -1))
    points = [(now - DAY * back, 10 + back) for back in (0, 1, 2, 13, 14)]
    assert by_day(points, 14, now) == [23, *[0] * 10, 12, 11, 10]


def test_coverage_names_the_worst_first_and_survives_a_strange_manifest():
    remarks = [
        {"outcome": "excluded", "path": "small", "reason": "r", "files": 1, "bytes": 1},
        {"outcome": "excluded", "path": "large", "reason": "r", "files": 1, "bytes": 9},
        {"outcome": "noted", "path": "a", "reason": "an early date"},
        {"outcome": "noted", "path": "_external/.honcho", "reason": "a server of its own needs a dump"},
        {"outcome": "outside", "path": "link", "reason": "r"},
        {"outcome": "damaged", "path": "state.db", "reason": "r"},
        "rubbish",
        {"outcome": 5, "bytes": "x"},
    ]
    found = coverage_of("id", {"remarks": remarks, "scope": {"quick": True, "secrets": False}})
    assert [gap.path for gap in found.gaps] == ["state.db", "link", "large", "small", "_external/.honcho"]
    assert (found.quick, found.secrets, found.databases) == (True, False, None)
    assert coverage_of("id", {"remarks": 7, "scope": [], "databases": {"a": 1}}).gaps == ()


def test_only_the_end_of_a_long_journal_is_looked_at(tmp_path):
    here = throwaway(tmp_path)
    record(here, Record("old", "backup", "done", facts={"home": "/old", "archive": "/a"}), silent)
    with open(here.journal.path, "rb") as file:
        line = file.read()
    filler = json.loads(line) | {"facts": {"home": "/h", "filler": "x" * 100_000}}
    with open(here.journal.path, "ab") as file:
        for _ in range(MOST_BYTES // 100_000 + 2):
            file.write(json.dumps(filler).encode() + b"\n")
    found = recent(here)
    assert set(found.archives) == {"/h"}
    assert not found.problem


def test_what_failed_before_the_last_success_is_forgotten(tmp_path):
    here = throwaway(tmp_path)
    for state in ("failed", "done", "interrupted"):
        record(here, Record(state, "snapshot", state, facts={"home": "/a"}), silent)
    for state in ("failed", "done"):
        record(here, Record(state, "snapshot", state, facts={"home": "/b"}), silent)
    record(here, Record("undo", "snapshot", "failed", facts={"home": "/b", "kind": "pre-restore"}), silent)
    for facts in ({"destination": "nas"}, {"destination": "usb", "absent": True}):
        record(here, Record("p", "push", "incomplete", facts=facts), silent)
    found = recent(here)
    assert {home: one.operation for home, one in found.failures.items()} == {"/a": "interrupted"}
    assert set(found.snapshots) == {"/a", "/b"}
    assert set(found.push_failures) == {"nas"}


def test_a_check_that_was_broken_off_says_nothing_about_the_vault(tmp_path):
    here = throwaway(tmp_path)
    record(
        here,
        Record("a", "vault-check", "failed", facts={"vault": here.places.vault, "damage": ["x"]}),
        silent,
    )
    record(here, Record("b", "vault-check", "done", facts={"vault": "/other"}), silent)
    error = {"vault": here.places.vault, "error": {"code": "vault-locked"}}
    record(here, Record("c", "vault-check", "failed", facts=error), silent)
    check = recent(here).check
    assert check is not None
    assert check.operation == "a"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (119.9, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (172_799, "47 h"),
        (172_800, "2 days"),
    ],
)
def test_ages_are_said_in_one_unit(seconds, text):
    assert seconds_text(seconds) == text


def test_an_older_thing_never_looks_younger():
    units = {"s": 1, "min": 60, "h": 3600, "days": 86_400}
    said = [seconds_text(seconds).split() for seconds in range(0, 4 * 86_400, 10)]
    ages = [int(count) * units[unit] for count, unit in said]
    assert ages == sorted(ages)


def test_moments_are_utc_and_never_is_null():
    assert (iso_time(0), iso_time(NOW)) == (None, "2027-01-15T08:00:00Z")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("5 min", 300),
        ("3h", 10_800),
        ("1.5d", 129_600),
        ("2 days", 172_800),
        ("1w", 604_800),
    ],
)
def test_spans_of_since(text, seconds):
    assert parse_since(text, NOW) == NOW - seconds


def test_dates_of_since_are_those_of_this_machine():
    assert parse_since("2026-11-01 14:30") == time.mktime((2026, 11, 1, 14, 30, 0, 0, 0, -1))


def test_a_look_takes_no_lock_and_opens_no_index(tmp_path, monkeypatch):
    from safekept.vault.repo.index import Index
    from safekept.vault.repo.repository import Repository

    state = fresh(tmp_path)
    monkeypatch.setattr(Repository, "lock", lambda *a, **k: pytest.fail("a lock was taken"))
    assert look(state.context).verdict.level == "this-machine"
    # The one thing that needs the index is the account of the newest snapshot; without it, all else is said.
    monkeypatch.setattr(Index, "lookup_all", lambda *a, **k: [])
    found = look(state.context)
    assert found.verdict.level == "this-machine"
    assert found.homes[0].coverage is None


def test_a_home_with_a_name_that_is_no_text_is_known_again(tmp_path, monkeypatch):
    state = empty(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    say = spoken(monkeypatch, state.user)
    assert say("snapshot").code == 0
    found = look(state.context)
    assert [(home.home, home.snapshots) for home in found.homes] == [(state.home, 1)]
    assert "no-snapshot" not in {one.code for one in found.verdict.reasons}


def test_what_the_journal_remembers_of_another_vault_protects_nobody(tmp_path):

    state = fresh(tmp_path)
    elsewhere = state.context.changed(vault=os.path.join(state.user, "new"))
    found = look(elsewhere)
    assert (found.vault.state, found.homes[0].last) == ("none", None)
    assert found.verdict.text == f"Not protected: there is no snapshot of {state.home} yet"


# ── the way back ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def user(tmp_path, monkeypatch):
    state = fresh(tmp_path)
    say = spoken(monkeypatch, state.user)

    def newest(verb: str) -> dict[str, object]:
        name = json.loads(say("log", "--verb", verb, "-n", "1", "--json").out)["operations"][0]["operation"]
        found = json.loads(say("log", name, "--json").out)
        assert isinstance(found, dict)
        return found

    return state, say, newest


def test_what_can_be_taken_back_comes_with_a_command_that_does_it(user):
    state, say, newest = user
    write(state, "SOUL.md", "somebody else")
    assert say("snapshot", "restore", "latest", "SOUL.md", "--yes").code == 0
    done = newest("restore")
    command = f"safekept undo {done['operation']}"
    words = [{"verb": "undo", "arguments": [done["operation"]]}]
    undo = {"possible": True, "command": command, "text": None, "next": [], "commands": words}
    assert done["undo"] == undo
    shown = say("log", str(done["operation"])).out
    assert f"  Undo       `{command}`\n" in shown
    assert say(*command.split()[1:]).code == 0
    with open(os.path.join(state.home, "SOUL.md"), encoding="utf-8") as file:
        assert file.read() == "somebody else"
    again = newest("restore")
    assert again["undo"]["possible"] is False  # type: ignore[index]
    assert "it was taken back already, by " in again["undo"]["text"]  # type: ignore[index]


def test_looking_at_an_operation_mends_nothing(user):
    state, say, newest = user
    write(state, "SOUL.md", "somebody else")
    assert say("snapshot", "restore", "latest", "SOUL.md", "--yes").code == 0
    half = os.path.join(state.home + ".safekept", "landings", "29990101-000000-abcdef")
    os.makedirs(half, 0o700)
    told = newest("restore")["undo"]
    assert told["text"].startswith("a landing in this home was cut off")  # type: ignore[index]
    assert os.path.isdir(half)
    [command] = told["commands"]  # type: ignore[index]
    assert say(command["verb"], *command["arguments"]).code in (0, 3)
    assert newest("restore")["undo"]["possible"] is True and not os.path.isdir(half)  # type: ignore[index]


@pytest.mark.parametrize(
    ("verb", "why"), [("backup", "a backup only wrote a file"), ("drill", "it changed no home")]
)
def test_what_cannot_be_taken_back_says_why(user, verb, why):
    found = user[2](verb)
    assert found["undo"]["possible"] is False
    assert why in found["undo"]["text"]


def test_a_vault_that_is_just_being_made_is_waited_for(tmp_path, monkeypatch):
    """The first session of an agent ended: its snapshot makes the vault, and somebody asks for the status."""
    here = throwaway(tmp_path)
    assert spoken(monkeypatch, here.places.user_home)("vault", "init").code == 0
    LocalStorage(here.places.vault).belt.take_off()  # a look would close it meanwhile
    config = os.path.join(here.places.vault, "config")
    os.rename(config, config + ".later")
    finishing = threading.Timer(0.3, os.rename, (config + ".later", config))
    finishing.start()
    try:
        assert look(here).vault.state == "open"
    finally:
        finishing.join()


def test_a_vault_that_was_not_finished_long_ago_is_said_at_once(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    assert spoken(monkeypatch, here.places.user_home)("vault", "init").code == 0
    lose(os.path.join(here.places.vault, "config"))
    keys = os.path.join(here.places.vault, "keys")
    for name in os.listdir(keys):
        os.utime(os.path.join(keys, name), (NOW, time.time() - 3600))
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("nobody is making it"))
    found = look(here)
    assert found.vault.state == "shut" and "was not finished" in found.verdict.text
