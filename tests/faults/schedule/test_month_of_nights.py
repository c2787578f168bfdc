"""A month of nights with a clock of our own: the real steps, on a tiny home, into real stores.

What is due is done once each; nights that were slept through are caught up on; exactly those snapshots and
archives stay that the policy says; somebody hears of what is wrong, once, and of nothing else. The
destination lets nothing be deleted or replaced, all month long.
"""

from __future__ import annotations

import datetime
import json
import os
import sqlite3
import stat
import subprocess
import zoneinfo
from contextlib import closing
from dataclasses import dataclass, field, replace

import pytest

from conftest import missing_part
from safekept.actions.alarms.alarms import open_alarms
from safekept.actions.alarms.notify import NotifyTargets
from safekept.actions.drill.receipts import read_receipts
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint
from safekept.actions.schedule.schedule import Run, RunRequest, run_due
from safekept.actions.vault.keys.kit_files import write_kit
from safekept.actions.vault.keys.kit_record import acknowledge_kit
from safekept.actions.vault.opening import open_vault
from safekept.archive.sealing.age.keys import AgeIdentity
from safekept.core.objects.errors import refused
from safekept.core.objects.local import LocalObjects
from safekept.schedule.machine import Power
from safekept.schedule.tasks import Cadence, Plan
from safekept.vault.care.checking import check
from safekept.vault.snapshots import list_snapshots
from safekept.vault.tags import forgotten_at
from support.offsite.web_server import WebServer
from support.places import CHECKOUT
from support.users.contexts import throwaway

#: In Berlin the clock is put forward in the night of 2026-03-29, which is in the middle of the month.
ZONE = zoneinfo.ZoneInfo("Europe/Berlin")
DAY, HOUR = 86_400.0, 3600.0


def at(text: str) -> float:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=ZONE).timestamp()


def date(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, ZONE).date().isoformat()


@dataclass
class Month:
    """One user, his stores, and a clock that is put where it is wanted."""

    tmp_path: object
    web: WebServer
    now: float = at("2026-03-09 12:00")
    runs: list[tuple[float, Run]] = field(default_factory=list)
    told: list[tuple[str, str]] = field(default_factory=list)  # date, title
    refused: list[str] = field(default_factory=list)
    identity: AgeIdentity = field(default_factory=AgeIdentity.generate)

    def __post_init__(self) -> None:
        self.disk = os.path.join(str(self.tmp_path), "disk")
        self.here = throwaway(
            self.tmp_path,
            environment={"PATH": os.environ["PATH"]},
            actor="schedule",
            schedule=Plan(cadence=Cadence.parse("03:30", ZONE), prune_days=7),
            destinations=(DestinationSetting("disk", f"file:{self.disk}", same_disk=True),),
            notify=NotifyTargets(ntfy=f"{self.web.url}/n", deadline=60.0),
        )
        self.home = os.path.join(self.here.places.user_home, ".hermes")
        self.archives = os.path.join(self.here.places.data_directory, "archives")
        os.makedirs(os.path.join(self.home, "memories"))
        with open(os.path.join(self.home, "config.yaml"), "w", encoding="utf-8") as file:
            file.write("model: small\n")
        with open(os.path.join(self.home, "SOUL.md"), "w", encoding="utf-8") as file:
            file.write("Be kind.\n")
        self.live("the first day")
        project = os.path.join(self.here.places.user_home, "project")
        os.makedirs(os.path.join(project, ".git"))
        with open(os.path.join(project, "main.py"), "w", encoding="utf-8") as file:
            file.write("print()\n")
        take_checkpoint(self.here, project, CheckpointPolicy())

    def live(self, text: str) -> None:
        """The agent adds something: a memory and a row."""
        with open(os.path.join(self.home, "memories", "MEMORY.md"), "a", encoding="utf-8") as file:
            file.write(f"- {text}\n")
        with closing(sqlite3.connect(os.path.join(self.home, "notes.db"))) as database, database:
            database.execute("create table if not exists notes (text)")
            database.execute("insert into notes values (?)", (text,))

    def keep_the_kit_elsewhere(self) -> None:
        """What a person does once, before anything leaves the machine."""
        with open_vault(self.here, create=True) as repository:
            write_kit(self.here, repository, os.path.join(str(self.tmp_path), "kit.txt"))
            acknowledge_kit(self.here, repository)

    def look(self) -> Run:
        """What the timer does: it wakes us, and we see whether anything is due."""
        request = RunRequest(seal=(str(self.identity.recipient),))
        run = run_due(
            self.here, request, clock=lambda: self.now, power=lambda: Power(), sleep=lambda seconds: None
        )
        if run.steps:
            self.runs.append((self.now, run))
        self.told += [(date(self.now), heard.headers["Title"]) for heard in self.web.take("/n")]
        return run

    def day(self) -> None:
        """A day with the machine on: looks before and after the time, and in the afternoon."""
        start = at(f"{date(self.now)} 00:00")
        for hours in (3.4, 3.6, 16.0):
            self.now = start + hours * HOUR
            self.look()
        self.live(f"something of {date(self.now)}")
        self.to_midnight()

    def to_midnight(self) -> None:
        self.now = at(f"{date(at(f'{date(self.now)} 12:00') + DAY)} 00:00")

    def done(self, kind: str, state: str = "done") -> list[str]:
        """The dates on which a kind of work ended like this."""
        return [
            date(moment)
            for moment, run in self.runs
            for step in run.steps
            if step.task.partition(":")[0] == kind and step.state == state
        ]

    def snapshots(self, **changes: object) -> list:
        """Those that a list shows, oldest first."""
        return [one for one in self.stored(**changes) if forgotten_at(one) is None]

    def stored(self, **changes: object) -> list:
        """All that are stored, also those that retention has let go; oldest first."""
        with open_vault(self.here.changed(**changes)) as repository:
            found, _ = list_snapshots(repository)
        return sorted(found, key=lambda one: one.time_ns)


def days(first: str, last: str) -> list[str]:
    found, moment = [], at(f"{first} 12:00")
    while date(moment) <= last:
        found.append(date(moment))
        moment += DAY
    return found


def model_of_retention(nights: list[str], proven: str) -> list[str]:
    """14 daily, 8 weekly, 12 monthly, applied after every night: the policy written down a second time.

    `proven` is the night that a full drill proved, and that never goes by itself.
    """
    kept: list[datetime.date] = []
    for night in nights:
        kept.append(datetime.date.fromisoformat(night))
        keep: set[datetime.date] = {kept[-1]}
        for count, period in (
            (14, lambda day: day),
            (8, lambda day: day.isocalendar()[:2]),
            (12, lambda day: (day.year, day.month)),
        ):
            newest: dict[object, datetime.date] = {}
            for day in kept:
                newest[period(day)] = day
            chosen = sorted(newest.values(), reverse=True)[:count]
            keep |= set(chosen)
            if len(newest) < count:
                keep.add(kept[0])  # a history that is too short yet is not cut shorter
        kept = [day for day in kept if day in keep or day.isoformat() == proven]
    return [day.isoformat() for day in kept]


@pytest.fixture
def month(tmp_path, monkeypatch):
    with WebServer() as web:
        one = Month(tmp_path, web)

        class AppendOnly(LocalObjects):
            """The place off this host; the vault here may delete."""

            def delete(self, name):
                one.refused.append(name)
                raise refused(self.location, "delete there", "403 Forbidden")

            def write(self, name, content, *, replace=False):
                if replace and self.exists(name):
                    one.refused.append(name)
                    raise refused(self.location, "write there", "403 Forbidden")
                super().write(name, content, replace=replace)

        monkeypatch.setattr("safekept.core.objects.local.LocalObjects", AppendOnly)
        yield one


def test_a_month_of_nights(month):
    month.keep_the_kit_elsewhere()
    month.look()  # installed at noon: protected from the first hour on
    month.to_midnight()
    while date(month.now) < "2026-03-17":
        month.day()
    # Asleep for two nights and a half; it wakes up at noon.
    month.now = at("2026-03-19 12:00")
    month.look()
    month.to_midnight()
    while date(month.now) < "2026-03-22":
        month.day()
    # The disk with the vault is gone for four days.
    away = month.here.places.vault + "-away"
    os.rename(month.here.places.vault, away)
    while date(month.now) < "2026-03-26":
        month.day()
    (alarm,) = [one for one in open_alarms(month.here) if one.kind == "overdue"]
    assert alarm.text.startswith(f"the snapshot of {month.home} is overdue: last done well 2026-03-21")
    os.rename(away, month.here.places.vault)
    while date(month.now) <= "2026-04-09":
        month.day()

    # Due work, once each.
    good = ["2026-03-09", *days("2026-03-10", "2026-03-16"), *days("2026-03-19", "2026-03-21")]
    good += days("2026-03-26", "2026-04-09")
    assert month.done("snapshot") == good
    missed = days("2026-03-22", "2026-03-25")
    assert set(month.done("snapshot", "failed")) == set(missed)
    # Archives need no vault; the disk takes them while the vault is away.
    awake = ["2026-03-09", *days("2026-03-10", "2026-03-16"), *days("2026-03-19", "2026-04-09")]
    assert month.done("archive") == awake
    assert [one for one in month.done("push") if one not in missed] == good
    # The prune that fell into a night without a vault was made up for; the rhythm goes on from there.
    assert month.done("prune") == ["2026-03-10", "2026-03-19", "2026-03-26", "2026-04-02", "2026-04-09"]
    assert month.done("checkpoints") == ["2026-03-10", "2026-03-19", "2026-03-26", "2026-04-02", "2026-04-09"]
    assert month.done("drill") == ["2026-03-10"]
    assert month.done("small-drill") == ["2026-03-19", "2026-03-26", "2026-04-02", "2026-04-09"]
    assert all(receipt.ok for receipt in read_receipts(month.here))

    # Retention exactly as the policy says, and as the real restic understands it.
    shown = month.snapshots()
    assert [date(one.time_ns / 1e9) for one in shown] == model_of_retention(good, "2026-03-10")
    assert restic_would_forget(month) == ["2026-03-10"]  # it knows nothing of drills; of the rest the same
    with open_vault(month.here) as repository:
        assert check(repository, read_data=1.0).damage == []

    # The last fourteen archives, private.
    names = sorted(name for name in os.listdir(month.archives) if name.endswith(".zip.age"))
    expected = days("2026-03-27", "2026-04-09")
    assert [name.removeprefix("hermes-backup-")[:10] for name in names] == expected
    assert stat.S_IMODE(os.stat(month.archives).st_mode) == 0o700
    assert {stat.S_IMODE(os.stat(os.path.join(month.archives, name)).st_mode) for name in names} == {0o600}

    # Everything left the machine, although the place lets nothing be deleted.
    assert month.refused, "nothing was ever asked to go: the test proves less than it says"
    remote = month.stored(source_vault="disk")
    assert {one.time_ns for one in shown} <= {one.time_ns for one in remote}
    assert {date(one.time_ns / 1e9) for one in remote} == set(good)

    # Alarms when something is wrong, and only then.
    titles = [(day, title.partition(" in ")[0].partition(" of ")[0]) for day, title in month.told]
    expected_titles = []
    for day in missed:
        expected_titles.append((day, "safekept: the snapshot"))
        if day == "2026-03-22":
            expected_titles.append((day, "safekept: the copy off this machine has a problem"))
        if day == "2026-03-23":
            expected_titles.append((day, "safekept: no backup for too long"))
    assert sorted(titles) == sorted(expected_titles)
    assert open_alarms(month.here) == ()


def restic_would_forget(month: Month) -> list[str]:
    """What the real restic would still let go by the same policy."""
    words = ["forget", "--dry-run", "--json", "--no-lock", "--no-cache", "--group-by", "host,paths"]
    words += ["--keep-daily", "14", "--keep-weekly", "8", "--keep-monthly", "12", "--tag", "kind:scheduled"]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": month.here.places.user_home,
        "RESTIC_REPOSITORY": month.here.places.vault,
        "RESTIC_PASSWORD_FILE": month.here.places.vault_key_file,
        "TZ": "UTC",
    }
    newer = os.path.join(CHECKOUT, ".setup", "restic-newer", "restic")  # 0.14 cuts a short history shorter
    if not os.access(newer, os.X_OK):
        missing_part("a restic newer than 0.14 is not there; `workshop/prepare test` fetches it")
    done = subprocess.run([newer, *words], env=environment, capture_output=True, text=True, check=True)
    shown = {one.id: date(one.time_ns / 1e9) for one in month.snapshots()}
    going = [one["id"] for group in json.loads(done.stdout) for one in group["remove"] or []]
    return [shown[one] for one in going if one in shown]


def test_a_clock_that_jumps_a_year_ahead_and_back_costs_one_run_each_and_no_night(month):
    month.here = month.here.changed(
        destinations=(), schedule=replace(month.here.choices.schedule, drill_days=0)
    )
    month.look()
    month.to_midnight()
    for _ in range(3):
        month.day()
    back = month.now
    month.now += 365 * DAY
    month.look()
    month.now = back
    for _ in range(4):
        month.day()
    found = [date(one.time_ns / 1e9) for one in month.snapshots()]
    assert found == [*days("2026-03-09", "2026-03-16"), "2027-03-13"]
    assert [title for _, title in month.told] == []
    assert open_alarms(month.here) == ()
