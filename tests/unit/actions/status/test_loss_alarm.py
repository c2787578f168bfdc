"""Every snapshot notices what was lost since the ones before, once, and keeps the generation that has it."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import sqlite3

import pytest

from safekept.actions.alarms.alarms import acknowledge, open_alarms
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.snapshots.listing import list_home
from safekept.home.health.loss_rules import Shrinkage, shrunk
from safekept.home.health.loss_summary import LossSummary
from safekept.home.scan.scanning import Selection
from safekept.vault.care import pin
from support.home.homes import make_hermes_home
from support.vault.snapshots import opened, take


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), awkward=False)


def jobs(home, number):
    with open(os.path.join(home, "cron", "jobs.json"), "w") as file:
        json.dump({"jobs": [{"id": f"j{n}", "prompt": "x"} for n in range(number)]}, file)


def listed(here, home):
    with opened(here) as repository:
        return list_home(repository, home)


@pytest.mark.parametrize(
    ("before", "after", "alarming"),
    [
        (1, 0, True),
        (4, 1, True),
        (15, 12, True),
        (16, 13, False),  # three, but less than a fifth
        (4, 2, False),  # half, but two only
        (1000, 801, False),
        (1000, 800, True),
    ],
)
def test_beyond_the_ordinary_is_nothing_left_or_a_fifth_and_three(before, after, alarming):
    assert Shrinkage("default", "x", before, after).alarming is alarming


def test_unknown_is_never_zero():
    known, unknown = {"default": {"a": 5, "b": None}}, {"default": {"a": None, "b": 0}}
    assert shrunk(known, unknown) == []
    assert shrunk(unknown, known) == []
    assert shrunk(known, {"default": {}}) == []
    assert shrunk({"profiles/x": {"a": 2}}, {}) == [Shrinkage("profiles/x", "a", 2, 0)]
    assert shrunk({"profiles/x": {"a": 2}}, {}, whole=False) == []


def test_a_loss_is_in_the_result_the_journal_and_an_event_and_its_generation_is_pinned(here, home):
    before = take(here, home)
    assert before.alarm is None
    jobs(home, 0)
    shutil.rmtree(os.path.join(home, "memories"))
    said = []
    found = create_snapshot(here, SnapshotRequest(here.locate(home)), said.append)
    alarm = found.alarm
    assert alarm is not None
    assert alarm.text == "all 12 memories are gone, all 4 cron jobs are gone"
    assert f"Alarm: {alarm.text}" in [event.text for event in said]
    assert alarm.pinned == before.id
    assert alarm.restore == (f"safekept snapshot restore {before.id[:8]} memories cron/jobs.json",)
    assert open_alarms(here, home) == (alarm,)
    until = datetime.date.today() + datetime.timedelta(days=30)
    kept = {one.id: one for one in listed(here, home).shown}
    assert kept[before.id].pinned is True
    days = (until, until - datetime.timedelta(days=1))  # midnight may have passed since
    assert kept[before.id].pinned_until in [day.isoformat() for day in days]
    assert kept[found.id].pinned is False
    assert take(here, home).alarm is None, "the same loss is told once"
    assert len(open_alarms(here)) == 1


def test_it_is_over_when_a_later_snapshot_counts_it_again(here, home):
    take(here, home)
    jobs(home, 0)
    assert take(here, home).alarm is not None
    jobs(home, 3)
    assert take(here, home).alarm is None
    assert open_alarms(here) == (), "three of four is within the ordinary"


def test_growth_and_small_falls_are_no_alarm(here, home):
    jobs(home, 10)
    take(here, home)
    jobs(home, 8)
    assert take(here, home).alarm is None
    jobs(home, 40)
    assert take(here, home).alarm is None
    assert open_alarms(here) == ()


def test_a_snapshot_that_could_not_count_hides_no_loss(here, home):
    """Forty messages, then a database that nobody can read, then a fresh one without any."""
    first = take(here, home)
    path = os.path.join(home, "state.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("alter table messages rename to gone")
        connection.execute("alter table sessions rename to gone2")
        connection.commit()
    unknown = take(here, home)
    assert unknown.census["default"]["messages"] is None
    assert unknown.alarm is None, "unknown is not lost"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("alter table gone rename to messages")
        connection.execute("delete from messages")
        connection.commit()
    alarm = take(here, home).alarm
    assert alarm is not None
    assert alarm.text == "all 40 messages are gone"
    assert alarm.pinned == first.id, "the one before it does not know"


def test_a_quick_snapshot_in_between_excuses_nothing_that_it_does_not_hold(here, home):
    first = take(here, home)
    shutil.rmtree(os.path.join(home, "skills"))
    quick = take(here, home, kind="quick", selection=Selection(quick=True))
    assert quick.census["default"]["skills"] is None
    assert quick.alarm is None
    alarm = take(here, home).alarm
    assert alarm is not None
    assert (alarm.text, alarm.pinned) == ("all 5 skills are gone", first.id)


def test_a_profile_that_is_gone_is_a_loss_and_one_that_was_not_asked_for_is_not(here, home):
    before = take(here, home)
    assert take(here, home, selection=Selection(profile="coder")).alarm is None
    shutil.rmtree(os.path.join(home, "profiles", "coder"))
    os.unlink(os.path.join(home, "cron", "jobs.json"))
    alarm = take(here, home).alarm
    assert alarm is not None
    assert alarm.text == "all 4 cron jobs are gone, the profile coder is gone"
    assert alarm.paths == ("cron/jobs.json", "profiles/coder")
    back = f"safekept snapshot restore {before.id[:8]} profiles/coder cron/jobs.json"
    assert alarm.restore[0] == back, "the whole directory, from a snapshot that has the whole home"
    assert alarm.pinned == before.id
    assert take(here, home).alarm is None, "it stays gone"


def test_a_home_that_was_emptied_is_one_loss(here, home):
    before = take(here, home)
    shutil.rmtree(home)
    for name in ("logs", "cron"):
        os.makedirs(os.path.join(home, name))
    with open(os.path.join(home, "logs", "agent.log"), "w") as file:
        file.write("started\n")
    alarm = take(here, home).alarm
    assert alarm is not None
    assert (alarm.text, alarm.paths) == ("everything is gone", ())
    assert alarm.restore == (f"safekept snapshot restore {before.id[:8]}",)


def test_a_persona_and_a_file_of_keys_that_are_gone_are_a_loss_until_they_are_back(here, home):
    with open(os.path.join(home, ".env"), "w") as file:
        file.write("A_KEY=1\n")
    before = take(here, home)
    assert take(here, home, selection=Selection(secrets=False)).alarm is None, "left out is not lost"
    os.rename(os.path.join(home, "SOUL.md"), os.path.join(home, "..", "SOUL.md"))
    os.rename(os.path.join(home, ".env"), os.path.join(home, "..", "env"))
    alarm = take(here, home).alarm
    assert alarm is not None and alarm.text == "SOUL.md is gone, .env is gone"
    assert any(before.id[:8] in one and ".env" in one for one in alarm.restore), alarm.restore
    assert take(here, home).alarm is None, "the same loss is told once"
    os.rename(os.path.join(home, "..", "SOUL.md"), os.path.join(home, "SOUL.md"))
    os.rename(os.path.join(home, "..", "env"), os.path.join(home, ".env"))
    assert take(here, home).alarm is None
    assert open_alarms(here) == ()


def test_a_persona_that_became_a_link_is_not_called_lost(here, home):
    take(here, home)
    away = os.path.join(home, "..", "notes.md")
    os.rename(os.path.join(home, "SOUL.md"), away)
    os.symlink(away, os.path.join(home, "SOUL.md"))
    assert take(here, home).alarm is None


def test_a_snapshot_taken_only_to_undo_something_neither_raises_nor_excuses(here, home):
    take(here, home)
    jobs(home, 0)
    assert take(here, home, kind="pre-restore").alarm is None
    assert open_alarms(here) == ()
    assert take(here, home).alarm is not None


def test_what_was_acknowledged_is_not_raised_again(here, home):
    take(here, home)
    jobs(home, 0)
    take(here, home)
    acknowledge(here)
    assert take(here, home).alarm is None
    assert open_alarms(here) == ()


def test_without_a_journal_the_vault_tells_what_there_was(here, home):
    first = take(here, home)
    os.unlink(here.journal.path)
    jobs(home, 0)
    alarm = take(here, home).alarm
    assert alarm is not None
    assert (alarm.text, alarm.pinned) == ("all 4 cron jobs are gone", first.id)


def test_retention_cannot_let_the_generation_before_a_loss_go(here, home):
    first = take(here, home, kind="pre-update")
    jobs(home, 0)
    for _ in range(7):
        take(here, home, kind="pre-update")
    shown = [one.id for one in listed(here, home).shown]
    assert first.id in shown
    assert len(shown) == 6, "the five that the policy keeps, and the pinned one"


def test_a_pin_that_holds_longer_is_not_shortened(here, home):
    first = take(here, home)
    with opened(here) as repository, repository.lock(exclusive=True) as lock:
        pin(repository, [first.snapshot], lock)
    jobs(home, 0)
    alarm = take(here, home).alarm
    assert alarm is not None and alarm.pinned == first.id
    assert [one.pinned_until for one in listed(here, home).shown if one.id == first.id] == [""]


def test_a_vault_in_use_delays_no_snapshot_and_lets_nothing_go(here, home, monkeypatch):
    monkeypatch.setattr("safekept.actions.alarms.loss_alarm._WAIT", 0.0)
    first = take(here, home, kind="pre-update")
    for _ in range(5):
        take(here, home, kind="pre-update")
    jobs(home, 0)
    said = []
    with opened(here) as repository, repository.lock():
        found = create_snapshot(here, SnapshotRequest(here.locate(home), "pre-update"), said.append)
    assert found.alarm is not None and found.alarm.pinned == ""
    assert any("Note: the snapshot before the loss was not pinned" in event.text for event in said)
    assert found.forgotten == (), "what could not be pinned must not go"
    assert found.alarm.restore, "the way back is named all the same"
    assert first.id not in found.forgotten


def test_a_line_of_losses_names_each_profile_once():
    falls = (
        Shrinkage("default", "memories", 12, 7),
        Shrinkage("profiles/coder", "skills", 5, 0),
        Shrinkage("profiles/coder", "SOUL.md", 1, 0),
        Shrinkage("default", "cron_jobs", 4, 0),
        Shrinkage("profiles/writer", "skills", 5, 0),
    )
    lost = LossSummary(falls, ("profiles/writer",))
    assert lost.text == (
        "5 of 12 memories are gone, all 4 cron jobs are gone, the profile writer is gone; "
        "profiles/coder: all 5 skills are gone, SOUL.md is gone"
    )
    assert "profiles/coder: SOUL.md is gone" in lost.texts, "each by itself says whose it is"
