"""A scheduled run: every step for itself, tried again where that may help, ended in time, told of when wrong.

The steps themselves are stand-ins here, so that each can fail in its own way;
`tests/faults/schedule/test_month_of_nights.py` runs the real ones.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import time
import zoneinfo
from dataclasses import replace

import pytest

from safekept.actions.alarms.alarms import acknowledge, open_alarms
from safekept.actions.alarms.notify import NotifyTargets
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.offsite.place import remember_place
from safekept.actions.schedule import steps as schedule_steps
from safekept.actions.schedule.schedule import (
    ClockNotSet,
    RunRequest,
    last_run,
    next_run,
    plan_due,
    run_due,
    task_histories,
)
from safekept.actions.schedule.steps import ABSENT, DONE, INCOMPLETE, Ended
from safekept.core.errors import SafekeptError
from safekept.core.locks import AlreadyRunning, process_lock
from safekept.schedule.machine import Power
from safekept.schedule.tasks import Cadence, Plan
from support.offsite.web_server import WebServer
from support.users.contexts import throwaway

UTC = zoneinfo.ZoneInfo("UTC")
DAY, HOUR = 86_400.0, 3600.0
MAINS = Power()


class Flaky(SafekeptError):
    code, retry = "flaky-for-tests", True

    def __init__(self) -> None:
        super().__init__("the network is away", kept="Nothing was changed", next_steps=())


class Solid(SafekeptError):
    code = "solid-for-tests"

    def __init__(self, what: str = "it cannot be") -> None:
        super().__init__(what, kept="Nothing was changed", next_steps=())


class Night:
    """One throwaway user, a clock that stands where it is put, and steps that end as they are told to."""

    def __init__(self, tmp_path, monkeypatch: pytest.MonkeyPatch, **plan: object) -> None:
        settings = {"prune_days": 0, "checkpoint_days": 0, "drill_days": 0, "small_drill_days": 0, **plan}
        self.here = throwaway(
            tmp_path, schedule=Plan(cadence=Cadence.parse("03:30", UTC), **settings), actor="schedule"
        )
        self.home = os.path.join(self.here.places.user_home, ".hermes")
        self.now = datetime.datetime(2026, 6, 10, 12, tzinfo=UTC).timestamp()
        self.power = MAINS
        self.slept: list[float] = []
        self.said: list[str] = []
        self.called: list[str] = []
        self.ends: dict[str, list[object]] = {}
        for kind in schedule_steps._STEPS:
            monkeypatch.setitem(schedule_steps._STEPS, kind, self._step)

    def _step(self, work, task):
        self.called.append(task.name)
        ends = self.ends.get(task.name) or self.ends.get(task.kind) or [Ended(DONE, "fine")]
        end = ends.pop(0) if len(ends) > 1 else ends[0]
        if callable(end):
            end = end()
        if isinstance(end, BaseException):
            raise end
        return end

    def with_destinations(self, *settings: DestinationSetting) -> None:
        self.here = self.here.changed(destinations=settings)

    def run(self, **request):
        self.called.clear()
        return run_due(
            self.here,
            RunRequest(**request),
            clock=lambda: self.now,
            power=lambda: self.power,
            sleep=self.slept.append,
            listener=lambda event: self.said.append(event.text),
        )

    def states(self, run=None) -> dict[str, str]:
        return {step.task.partition(":")[0]: step.state for step in (run or self.run()).steps}

    def go_on(self, days: float = 0.0, hours: float = 0.0) -> None:
        self.now += days * DAY + hours * HOUR


@pytest.fixture
def night(tmp_path, monkeypatch):
    return Night(tmp_path, monkeypatch)


NAS = DestinationSetting("nas", "sftp://nas/backup")


# ── due, once, one at a time ───────────────────────────────────────────────────────────────────────


def test_what_is_due_is_done_once_and_then_waits_for_its_next_night(night):
    run = night.run()
    assert (run.state, night.called) == ("done", [f"snapshot:{night.home}"])
    assert datetime.datetime.fromtimestamp(run.next, UTC).isoformat() == "2026-06-11T03:30:00+00:00"
    assert next_run(night.here, night.now) == run.next
    for _ in range(14):
        night.go_on(hours=1)
        assert night.run().state == "idle"
    night.go_on(hours=2)
    assert night.run().state == "done"


def test_a_week_of_sleep_is_made_up_for_with_one_run_and_no_alarm(night):
    night.run()
    night.go_on(days=7)
    assert night.run().state == "done"
    assert night.run().state == "idle"
    assert open_alarms(night.here) == ()


def test_only_one_run_works_at_a_time(night):
    lock = os.path.join(night.here.places.data_directory, "schedule", "lock")
    with process_lock(lock, "another run"), pytest.raises(AlreadyRunning, match="at work here"):
        night.run()
    assert night.called == []


def test_the_order_is_snapshot_push_prune_care_and_drills(tmp_path, monkeypatch):
    night = Night(tmp_path, monkeypatch, prune_days=7, checkpoint_days=7, drill_days=91, small_drill_days=7)
    os.makedirs(os.path.join(night.here.places.data_directory, "checkpoints", "store"))
    night.with_destinations(NAS)
    night.run(seal=("age1x",))
    kinds = [name.partition(":")[0] for name in night.called]
    assert kinds == ["snapshot", "archive", "push"]  # the rest waits for the night
    night.go_on(days=1)
    night.run(seal=("age1x",))
    kinds = [name.partition(":")[0] for name in night.called]
    assert kinds == ["snapshot", "archive", "push", "prune", "checkpoints", "drill"]
    assert (
        task_histories(night.here)[f"small-drill:{night.home}"].succeeded == night.now
    )  # the full one counts


def test_everything_can_be_asked_for_at_once(tmp_path, monkeypatch):
    night = Night(tmp_path, monkeypatch, prune_days=7)
    night.run()
    night.run(everything=True)
    assert night.called == [f"snapshot:{night.home}", "prune"]


def test_a_plan_says_what_is_due_without_doing_it(night):
    ((task, moment),) = plan_due(night.here, RunRequest(), night.now)
    assert task.name == f"snapshot:{night.home}"
    assert moment <= night.now
    assert not os.path.exists(night.here.places.data_directory)


def test_a_clock_that_was_never_set_dates_nothing(night):
    night.now = 86_400.0 * 365  # 1971
    with pytest.raises(ClockNotSet) as caught:
        night.run()
    assert caught.value.what == "The clock says 1971-01-01, so it was not set yet"
    assert caught.value.kept == "Nothing was done; what is due stays due"
    assert night.called == []


# ── every step for itself ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "trouble", [Solid(), Flaky(), RuntimeError("a bug"), OSError(5, "Input/output error")]
)
def test_a_dead_destination_leaves_the_snapshot_and_the_other_destinations_alone(night, trouble):
    night.with_destinations(NAS, DestinationSetting("cloud", "s3://bucket"))
    night.ends["push:nas"] = [trouble]
    run = night.run()
    assert [(step.task.partition(":")[2], step.state) for step in run.steps] == [
        (night.home, "done"),
        ("nas", "failed"),
        ("cloud", "done"),
    ]
    assert run.state == "incomplete"
    assert task_histories(night.here)[f"snapshot:{night.home}"].succeeded == night.now


def test_a_snapshot_that_fails_keeps_nothing_else_from_being_done(night):
    night.with_destinations(NAS)
    night.ends["snapshot"] = [Solid()]
    run = night.run()
    assert run.state == "failed"
    assert night.states(run) == {"snapshot": "failed", "push": "done"}


def test_what_may_be_tried_again_is_and_the_rest_is_not(night):
    night.with_destinations(NAS)
    night.ends["push:nas"] = [Flaky(), Flaky(), Ended(DONE, "at last")]
    assert night.run().state == "done"
    assert night.slept == [30.0, 120.0]
    night.go_on(days=1)
    night.ends["push:nas"] = [Flaky()]
    night.run()
    assert night.called.count("push:nas") == 3
    night.go_on(days=1)
    night.ends["push:nas"] = [Solid()]
    night.run()
    assert night.called.count("push:nas") == 1


def test_what_failed_is_tried_in_the_next_hour_without_doing_the_rest_again(night):
    night.with_destinations(NAS)
    night.ends["push:nas"] = [Solid()]
    night.run()
    night.go_on(hours=0.5)
    assert night.run().state == "idle"
    night.go_on(hours=0.6)
    night.ends["push:nas"] = [Ended(DONE)]
    run = night.run()
    assert (run.state, night.called) == ("done", ["push:nas"])


def test_work_that_never_ends_is_ended_and_the_others_have_their_turn(tmp_path, monkeypatch):
    night = Night(tmp_path, monkeypatch, time_limit=4.0)
    night.with_destinations(NAS, DestinationSetting("cloud", "s3://bucket"))
    ended = []

    def hang() -> Ended:
        try:
            time.sleep(600)
        finally:
            ended.append("in order")
        return Ended(DONE)

    night.ends["push:nas"] = [hang]
    run = night.run()
    # A fair share of the time for the one; the other waits for a process that nothing was cut short in.
    assert [step.state for step in run.steps] == ["done", "out-of-time", "postponed"]
    assert ended == ["in order"]
    assert run.state == "incomplete"
    assert "the next run goes on" in run.steps[1].text
    assert open_alarms(night.here) == ()  # the first push of a large vault takes its nights
    night.go_on(hours=0.1)
    night.run()
    assert night.called == ["push:cloud"]
    night.ends.clear()
    night.go_on(hours=1)
    night.run()
    assert night.called == ["push:nas"]


def test_when_no_time_is_left_the_rest_waits_for_the_next_run(tmp_path, monkeypatch):
    night = Night(tmp_path, monkeypatch, time_limit=2.5)  # a busy machine takes its time to begin
    night.with_destinations(NAS)
    night.ends["snapshot"] = [lambda: time.sleep(600) or Ended(DONE)]
    run = night.run()
    assert night.states(run) == {"snapshot": "out-of-time", "push": "postponed"}
    assert run.steps[1].text == "the time was over; the next run does it"
    assert night.called == [f"snapshot:{night.home}"]


def test_an_interrupted_run_is_gone_on_with(night):
    night.with_destinations(NAS, DestinationSetting("cloud", "s3://bucket"))
    night.ends["push:nas"] = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        night.run()
    assert [entry.state for entry in night.here.journal.read() if entry.verb == "schedule"] == [
        "begun",
        "interrupted",
    ]
    night.ends.clear()
    night.run()
    assert night.called == ["push:nas", "push:cloud"]


def test_a_killed_run_is_gone_on_with_and_said_to_be_interrupted(tmp_path, monkeypatch):
    night = Night(tmp_path, monkeypatch)
    night.with_destinations(NAS)
    script = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from dataclasses import replace
from safekept.actions.schedule import steps as schedule_steps
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.schedule.schedule import run_due
from support.users.contexts import throwaway
steps = schedule_steps._STEPS
steps["snapshot"] = lambda work, task: schedule_steps.Ended("done")
steps["push"] = lambda work, task: os.kill(os.getpid(), signal.SIGKILL)
here = throwaway({str(tmp_path)!r}, destinations=(DestinationSetting("nas", "sftp://nas/backup"),))
run_due(here, clock=lambda: {night.now!r})
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert last_run(night.here).state == "interrupted"
    night.run()
    assert night.called == ["push:nas"]
    assert last_run(night.here).state == "done"


def test_work_that_is_done_in_part_is_done_for_tonight_but_no_success(night):
    night.ends["snapshot"] = [Ended(INCOMPLETE, "state.db was locked", "incomplete")]
    assert night.run().state == "incomplete"
    assert night.run().state == "idle"
    past = task_histories(night.here)[f"snapshot:{night.home}"]
    assert (past.done, past.succeeded) == (night.now, 0.0)


def test_a_state_that_cannot_be_written_is_said_and_the_work_is_done(night):
    place = os.path.join(night.here.places.data_directory, "schedule")
    os.makedirs(os.path.join(place, "state.json"))  # a directory where the file should be
    assert night.run().state == "done"
    assert any(text.startswith("Note: what was done cannot be remembered in") for text in night.said)


def test_several_homes_are_each_their_own_and_one_that_is_gone_is_only_its_own_failure(tmp_path, monkeypatch):
    homes = (str(tmp_path / "one"), str(tmp_path / "two"))
    night = Night(tmp_path, monkeypatch, homes=homes)
    night.ends[f"snapshot:{homes[0]}"] = [Solid()]
    run = night.run()
    assert [step.state for step in run.steps] == ["failed", "done"]
    one = night.here.changed(schedule=replace(night.here.choices.schedule, homes=(homes[0],)))
    run_due(one, clock=lambda: night.now, power=lambda: MAINS)
    assert task_histories(night.here)[f"snapshot:{homes[1]}"].succeeded == night.now


# ── mains, networks and disks ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("battery", "expected"),
    [
        ("run", {"snapshot": "done", "push": "done"}),
        ("light", {"snapshot": "done", "push": "postponed"}),
        ("wait", {"snapshot": "postponed", "push": "postponed"}),
    ],
)
def test_on_battery_as_set(tmp_path, monkeypatch, battery, expected):
    night = Night(tmp_path, monkeypatch, battery=battery)
    night.with_destinations(NAS)
    night.power = Power(battery=True)
    assert night.states() == expected
    night.power = MAINS
    night.go_on(hours=1)
    night.run()
    assert [name.partition(":")[0] for name in night.called] == [
        kind for kind, state in expected.items() if state == "postponed"
    ]


@pytest.mark.parametrize(("metered", "state"), [("wait", "postponed"), ("run", "done")])
def test_on_a_metered_network_as_set(tmp_path, monkeypatch, metered, state):
    night = Night(tmp_path, monkeypatch, metered=metered)
    night.with_destinations(NAS)
    night.power = Power(metered=True)
    assert night.states() == {"snapshot": "done", "push": state}


def test_a_run_that_has_to_wait_leaves_no_trace_and_tells_nobody(tmp_path, monkeypatch):
    night = Night(tmp_path, monkeypatch, battery="wait")
    night.power = Power(battery=True)
    with WebServer() as web:
        night.here = night.here.changed(notify=NotifyTargets(ping=f"{web.url}/p", ntfy=f"{web.url}/n"))
        assert night.run().state == "idle"
        assert web.heard == []
    assert list(night.here.journal.read()) == []


def test_a_disk_that_is_not_plugged_in_is_no_failure_and_gets_its_push_when_it_is(night, tmp_path):
    disk = DestinationSetting("disk", f"file:{tmp_path}/disk")
    night.with_destinations(disk)
    remember_place(night.here, disk)
    run = night.run()
    assert (run.state, night.states(run)) == ("done", {"push": ABSENT, "snapshot": "done"})
    assert night.called == [f"snapshot:{night.home}"]
    assert open_alarms(night.here) == ()
    os.makedirs(tmp_path / "disk")
    (tmp_path / "disk" / "safekept-destination").write_text("")
    night.go_on(hours=1)
    night.run()
    assert night.called == ["push:disk"]


# ── who hears of it ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def listened(night):
    """The same with somebody who hears: (night, titles, pings)."""
    with WebServer() as web:
        night.here = night.here.changed(
            notify=NotifyTargets(ntfy=f"{web.url}/n", ping=f"{web.url}/p", deadline=60.0),
            destinations=(NAS,),
        )

        def titles() -> list[str]:
            return [one.headers["Title"] for one in web.take("/n")]

        def pings(count: int) -> list[str]:
            web.wait_for(count)  # a start is not waited for by the run, and may come after it
            return sorted(one.path for one in web.take("/p"))

        yield night, titles, pings


def test_when_all_is_well_only_the_ping_hears_of_it(listened):
    night, titles, pings = listened
    for _ in range(3):
        night.run()
        assert titles() == []
        assert pings(2) == ["/p", "/p/start"]
        night.go_on(hours=1)
        night.run()
        assert titles() == []
        night.go_on(hours=23)


def test_a_failed_snapshot_is_told_of_once_a_night(listened):
    night, titles, pings = listened
    night.ends["snapshot"] = [Solid("the vault is full")]
    host = os.uname().nodename
    for _ in range(2):
        assert night.run().state == "failed"
        assert titles() == [f"safekept: the snapshot of {night.home} failed on {host}"]
        assert pings(3) == ["/p/fail", "/p/fail", "/p/start"]
        night.go_on(hours=8)
        assert night.run().state == "failed"  # tried again, and nobody is told again
        assert titles() == []
        assert pings(2) == ["/p/fail", "/p/start"]
        night.go_on(hours=16)


def test_another_failure_in_the_same_night_is_told_of_too(listened):
    night, titles, _ = listened
    night.ends["snapshot"] = [Solid()]
    night.run()
    assert len(titles()) == 1
    night.go_on(hours=2)
    night.ends["snapshot"] = [RuntimeError("a bug")]
    night.run()
    assert len(titles()) == 1


def test_a_snapshot_that_can_only_be_taken_in_part_is_told_of_once_a_week(listened):
    night, titles, _ = listened
    night.ends["snapshot"] = [Ended(INCOMPLETE, "state.db is damaged", "incomplete")]
    nights = []
    for number in range(16):
        night.run()
        if any("is not complete" in title for title in titles()):
            nights.append(number)
        night.go_on(days=1)
    assert nights == [0, 7, 14]


def test_a_failing_destination_is_one_alarm_until_it_works_again(listened):
    night, titles, _ = listened
    night.ends["push:nas"] = [Solid("the key was refused")]
    for number in range(5):
        night.run()
        told = titles()
        assert len(told) == (number == 0), told
        night.go_on(days=1)
    (alarm,) = open_alarms(night.here)
    assert (alarm.kind, alarm.about) == ("destination", "push:nas")
    assert alarm.text == "the push to nas failed: the key was refused"
    night.ends["push:nas"] = [Ended(DONE)]
    night.run()
    assert open_alarms(night.here) == ()
    night.go_on(days=1)
    night.ends["push:nas"] = [Solid()]
    night.run()
    assert len(titles()) == 1  # a new episode


def test_overdue_is_one_alarm_after_two_days_and_over_with_the_next_success(listened):
    night, titles, _ = listened
    night.run()
    night.ends["snapshot"] = [Solid("the vault is gone")]
    raised = []
    for hour in range(100):
        night.go_on(hours=1)
        night.run()
        if any("no backup for too long" in title for title in titles()):
            raised.append(hour + 1)
    assert raised == [49]  # more than 48 hours after the last good one, and not a second time
    (alarm,) = open_alarms(night.here)
    assert alarm.kind == "overdue"
    assert f"the snapshot of {night.home} is overdue: last done well 2026-06-10" in alarm.text
    assert alarm.text.endswith("; the vault is gone")
    night.ends.clear()
    night.go_on(days=1)
    night.run()
    assert open_alarms(night.here) == ()


def test_an_overdue_alarm_that_was_acknowledged_does_not_come_back_every_hour(listened):
    night, titles, _ = listened
    night.run()
    night.ends["snapshot"] = [Solid()]
    night.go_on(days=3)
    night.run()
    assert len(open_alarms(night.here)) == 1
    acknowledge(night.here)
    titles()
    night.go_on(hours=3)
    night.run()
    assert open_alarms(night.here) == ()
    assert titles() == []


def test_a_laptop_on_battery_for_days_is_overdue_all_the_same(tmp_path, monkeypatch):
    night = Night(tmp_path, monkeypatch, battery="wait")
    night.run()
    night.power = Power(battery=True)
    night.go_on(days=3)
    night.run()
    (alarm,) = open_alarms(night.here)
    assert alarm.text.endswith("it waits for mains")


def test_a_destination_that_is_taken_out_of_the_settings_is_nobodys_worry(night):
    night.with_destinations(NAS)
    night.ends["push:nas"] = [Solid()]
    night.run()
    assert len(open_alarms(night.here)) == 1
    night.here = night.here.changed(destinations=())
    night.go_on(hours=1)
    night.run()
    assert open_alarms(night.here) == ()
    assert "push:nas" not in task_histories(night.here)


def test_a_dead_monitor_neither_fails_nor_stops_a_run(night):
    with WebServer() as gone:
        address = gone.url
    night.here = night.here.changed(notify=NotifyTargets(ping=f"{address}/5ecret", deadline=60.0))
    assert night.run().state == "done"
    assert "5ecret" not in "\n".join(night.said)


def test_the_journal_says_who_acted_and_how_each_step_ended(night):
    night.with_destinations(NAS)
    night.ends["push:nas"] = [Solid("no")]
    night.run()
    begun, ended = [entry for entry in night.here.journal.read() if entry.verb == "schedule"]
    assert (begun.state, ended.state) == ("begun", "incomplete")
    assert ended.facts["actor"] == "schedule"
    assert ended.time == night.now
    assert [(step["task"], step["state"], step["error"]) for step in ended.facts["steps"]] == [
        (f"snapshot:{night.home}", "done", ""),
        ("push:nas", "failed", "solid-for-tests"),
    ]
