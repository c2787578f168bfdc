"""An alarm is open until it is acknowledged or over, whatever else happens meanwhile."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from safekept.actions.alarms.alarms import (
    Alarm,
    NoSuchAlarm,
    acknowledge,
    end_alarms,
    open_alarms,
    raise_alarm,
)
from safekept.core.journal import Record, new_id
from safekept.home.health.loss_rules import Shrinkage


def loss(**fields):
    return Alarm(**{"kind": "loss", "text": "cron jobs 4 → 0", "home": "/h", **fields})


def test_an_alarm_comes_back_from_the_journal_as_it_was_raised(here):
    alarm = loss(
        restore=("safekept snapshot restore ab cron/jobs.json --yes",),
        pinned="ab",
        losses=(Shrinkage("profiles/x", "cron_jobs", 4, 0),),
        paths=("cron/jobs.json",),
    )
    said = []
    assert raise_alarm(here, alarm, said.append) is True
    assert open_alarms(here) == (alarm,)
    assert open_alarms(here, "/h") == (alarm,)
    assert open_alarms(here, "/other") == ()
    assert [event.text for event in said] == ["Alarm: cron jobs 4 → 0"]


def test_acknowledging_ends_the_named_one_or_all(here):
    first, second = loss(), loss(text="memories 5 → 0")
    for alarm in (first, second):
        raise_alarm(here, alarm)
    assert acknowledge(here, [first.id]) == (first,)
    assert open_alarms(here) == (second,)
    assert acknowledge(here) == (second,)
    assert open_alarms(here) == ()
    assert acknowledge(here) == ()


def test_an_unknown_id_ends_nothing_and_is_said(here):
    raise_alarm(here, loss())
    with pytest.raises(NoSuchAlarm) as refused:
        acknowledge(here, ["nonsense"])
    assert refused.value.what == "No open alarm is called `nonsense`"
    assert refused.value.kept == "Nothing was changed; every alarm that was open still is"
    assert len(open_alarms(here)) == 1
    with pytest.raises(NoSuchAlarm):
        acknowledge(here, [""])


def test_the_same_trouble_is_told_once_while_it_lasts_and_again_when_it_comes_back(here):
    late = Alarm(kind="destination", text="nas: no answer", about="nas")
    assert raise_alarm(here, late)
    again = Alarm(kind="destination", text="nas: the disk is full", about="nas", time=late.time + 3600)
    said = []
    assert not raise_alarm(here, again, said.append) and said, "another reason is said"
    (renewed,) = open_alarms(here)
    assert (renewed.id, renewed.text) == (late.id, again.text) and int(renewed.time) == int(again.time)
    said.clear()
    assert not raise_alarm(here, replace(again, time=late.time + 7200), said.append) and said == []
    assert int(open_alarms(here)[0].time) == int(late.time + 7200), "the same reason has the new date"
    assert raise_alarm(here, Alarm(kind="destination", text="cloud: no answer", about="cloud"))
    assert [one.about for one in end_alarms(here, "destination", about="nas")] == ["nas"]
    assert [one.about for one in open_alarms(here)] == ["cloud"]
    assert raise_alarm(here, again), "over, and then again"


def test_two_losses_are_two_alarms(here):
    assert raise_alarm(here, loss()) and raise_alarm(here, loss())
    assert len(open_alarms(here)) == 2


def restored(here, only, *, snapshot="ab", home="/h", verb="restore", state="done", undoes=""):
    facts = {"home": home, "snapshot": snapshot, "only": list(only), "undoes": undoes}
    operation = new_id()
    here.journal.append(Record(operation, verb, state, facts=facts))
    return operation


def test_restoring_what_was_lost_ends_the_alarm_and_undoing_that_opens_it_again(here):
    raise_alarm(here, loss(pinned="ab", paths=("state.db", "cron/jobs.json")))
    restored(here, ["state.db"])
    assert len(open_alarms(here)) == 1, "only a part of it is back"
    last = restored(here, ["cron"])
    assert open_alarms(here) == (), "a directory covers what lies in it"
    undone = restored(here, [], verb="undo", undoes=last)
    assert len(open_alarms(here)) == 1
    again = restored(here, [], verb="undo", undoes=undone)
    assert open_alarms(here) == (), "an undo that was undone took nothing back"
    restored(here, [], verb="undo", undoes=again)
    assert len(open_alarms(here)) == 1
    restored(here, [])
    assert open_alarms(here) == (), "a whole restore brings back all of it"


@pytest.mark.parametrize(
    "other", [{"snapshot": "cd"}, {"home": "/elsewhere"}, {"state": "failed"}, {"state": "begun"}]
)
def test_a_restore_of_something_else_ends_nothing(here, other):
    raise_alarm(here, loss(pinned="ab", paths=("state.db",)))
    restored(here, ["state.db"], **other)
    assert len(open_alarms(here)) == 1


def test_a_restore_before_the_loss_ends_nothing(here):
    restored(here, ["state.db"])
    raise_alarm(here, loss(pinned="ab", paths=("state.db",)))
    assert len(open_alarms(here)) == 1


def line(verb, facts):
    start = f'{{"version": 9, "operation": 1, "verb": "{verb}", "state": "done", "time": 1'
    return f'{start}, "facts": {facts}}}'.encode()


def test_a_journal_that_is_torn_foreign_or_gone_hides_no_alarm_and_breaks_nothing(here):
    assert open_alarms(here) == ()
    raise_alarm(here, loss())
    strange = [
        b'\xff"alarm"',
        b'{"verb": "alarm", "facts": 3}',
        b'{"version": 9, "verb": "alarm-over", "facts": [1]}',
        line("alarm-over", '{"alarms": 7}'),
        line("alarm", '{"losses": [1]}'),
        b'{"version": 1, "operation": "torn", "verb": "alarm", "st',
    ]
    with open(here.journal.path, "ab") as file:
        file.write(b"\n".join(strange))
    found = open_alarms(here)
    assert [alarm.text for alarm in found] == ["", "cron jobs 4 → 0"]
    assert raise_alarm(here, loss(text="later")), "and the next one is written after the torn line"
    assert open_alarms(here)[0].text == "later"
    os.unlink(here.journal.path)
    os.mkdir(here.journal.path)
    assert open_alarms(here) == ()
    said = []
    raise_alarm(here, loss(), said.append)
    assert any("Note: the journal" in event.text for event in said)
