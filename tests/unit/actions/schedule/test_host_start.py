"""Will the host start the schedule? The word of systemd and cron, and whether our program is there."""

from __future__ import annotations

import dataclasses
import os
import shutil

import pytest

from safekept.actions.offsite.destination import parse_destination
from safekept.actions.schedule.host import Machine, plan_installation, search_path
from safekept.actions.schedule.host_commands import HostRefused
from safekept.actions.schedule.host_start import (
    ends_at_logout,
    installed_times,
    other_times,
    unfound_programs,
    why_host_will_not_start,
)
from safekept.actions.schedule.install import CRON, LAUNCHD, SYSTEMD, install, installed
from safekept.actions.schedule.whose import stores_of
from safekept.actions.status.findings.work import of_schedule
from safekept.actions.status.schedule_status import ScheduleStatus
from safekept.core.next_step import step_texts
from safekept.schedule.hosts.call import Call
from safekept.schedule.tasks import Cadence, Plan
from support.users.contexts import throwaway


class Host(Machine):
    """systemctl and crontab that answer as they are told; a root of its own."""

    table = ""
    active = True
    lingers = (0, "Linger=yes\n")

    def run(self, words, given=""):
        if words[0] == "crontab":
            if words[1] == "-":
                Host.table = given
            return (0, Host.table) if Host.table or words[1] != "-l" else (1, "no crontab for ada\n")
        if words[0] == "loginctl":
            return Host.lingers
        if "is-active" in words:
            return (0, "active\n") if Host.active else (3, "inactive\n")
        return 0, ""


@pytest.fixture
def here(tmp_path, monkeypatch):
    Host.table, Host.active, Host.lingers = "", True, (0, "Linger=yes\n")
    (tmp_path / "root" / "run").mkdir(parents=True)
    (tmp_path / "root" / "run" / "crond.pid").write_text("77\n")
    for number, name in (("1", "systemd"), ("77", "cron")):
        process(tmp_path / "root", number, name)
    user = throwaway(tmp_path)
    monkeypatch.setattr("safekept.actions.schedule.whose.registered_home", lambda: user.places.user_home)
    return user


def process(root, number, name, *words):
    (root / "proc" / number).mkdir(parents=True, exist_ok=True)
    (root / "proc" / number / "comm").write_text(f"{name}\n")
    (root / "proc" / number / "cmdline").write_text("\0".join([*(words or (f"/usr/sbin/{name}", "-f")), ""]))


@pytest.fixture
def machine(here, tmp_path):
    return Host({}, here.places.user_home, str(tmp_path / "config"), root=str(tmp_path / "root"))


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "check out" / "safekept"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    return path


def put(here, machine, host, program, path="/usr/bin"):
    call = Call((str(program), "schedule", "run", "--quiet"), environment={"PATH": path}, home="/h")
    call = dataclasses.replace(call, stores=stores_of(here))
    install(here, plan_installation(machine, host, call, os.getuid()), machine.run)
    return installed(here)


@pytest.mark.parametrize("host", [CRON, SYSTEMD])
def test_what_was_installed_and_is_there_is_armed(here, machine, program, host):
    assert why_host_will_not_start(here, put(here, machine, host, program), machine) == ("", ())


@pytest.mark.parametrize("host", [CRON, SYSTEMD])
def test_a_checkout_that_was_moved_or_deleted_is_noticed(here, machine, program, host):
    found = put(here, machine, host, program)
    program.unlink()
    text, evidence = why_host_will_not_start(here, found, machine)
    assert text == f"the schedule calls {program}, which is not there any more"
    assert evidence == (f"{program} does not exist",)


def test_lines_that_somebody_took_out_of_the_crontab_are_missed(here, machine, program):
    found = put(here, machine, CRON, program)
    Host.table = "0 1 * * * true\n"
    assert (
        why_host_will_not_start(here, found, machine)[0] == "the schedule's lines are gone from your crontab"
    )


def test_a_line_that_somebody_broke_is_said_and_breaks_nothing_else(here, machine, program):
    found = put(here, machine, CRON, program)
    Host.table = Host.table.replace("PATH=", "PATH='", 1)
    text, (line,) = why_host_will_not_start(here, found, machine)
    assert text == "a line of the schedule in your crontab is broken" and line in Host.table
    assert unfound_programs(here, found, machine) == ()


def test_cron_that_does_not_run_is_said(here, machine, program, monkeypatch, tmp_path):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    found = put(here, machine, CRON, program)
    shutil.rmtree(machine.at("/proc/77"))
    why, evidence = why_host_will_not_start(here, found, machine)
    assert why == "cron is not running, so nothing happens by itself"
    (finding,) = of_schedule(ScheduleStatus(installed=CRON, trouble=why, evidence=evidence), (), 0.0)
    assert finding.fix == ("Start cron: `service cron start`",), "installing it again would not help"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (finding,) = of_schedule(ScheduleStatus(installed=CRON, trouble=why, evidence=evidence), (), 0.0)
    assert finding.fix == ("Start cron: `sudo service cron start`",), "root needs none, others do"
    process(tmp_path / "root", "77", "bash")
    assert why_host_will_not_start(here, found, machine)[0] == why, "the number belongs to another one by now"
    process(tmp_path / "root", "77", "cron", "/bin/sh", "/home/ada/bin/cron")
    process(tmp_path / "root", "78", "cron", "/usr/bin/python3", "./cron")
    process(tmp_path / "root", "79", "cron", "")
    assert why_host_will_not_start(here, found, machine)[0] == why, "scripts of that name, and one that ended"
    process(tmp_path / "root", "80", "cron")
    if os.getuid() == 0:
        os.chown(machine.at("/proc/80"), 1234, 1234)
        assert why_host_will_not_start(here, found, machine)[0] == why, "somebody's own program"
        os.chown(machine.at("/proc/80"), 0, 0)
    assert why_host_will_not_start(here, found, machine) == ("", ()), "by its name, where the file is old"
    process(tmp_path / "root", "80", "crond", "crond")
    assert why_host_will_not_start(here, found, machine) == ("", ())


def test_where_processes_of_others_are_hidden_nothing_is_said_of_cron(here, machine, program):
    found = put(here, machine, CRON, program)
    os.unlink(machine.at("/run/crond.pid"))
    shutil.rmtree(machine.at("/proc/77"))
    os.unlink(machine.at("/proc/1/comm"))
    assert why_host_will_not_start(here, found, machine) == ("", ())
    shutil.rmtree(machine.at("/proc"))
    assert why_host_will_not_start(here, found, machine) == ("", ())


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        ((0, "Linger=no\n"), True),
        ((0, "Linger=yes\n"), False),
        ((1, "Failed to connect to bus: No such file or directory\n"), False),
        ((127, "loginctl is not installed"), False),
        ((0, ""), False),
    ],
)
def test_a_timer_that_ends_with_the_session_is_told_where_logind_says_so(here, machine, program, said, ends):
    found = put(here, machine, SYSTEMD, program)
    Host.lingers = said
    assert why_host_will_not_start(here, found, machine) == ("", ())
    assert ends_at_logout(here, found, machine) is ends
    assert not ends_at_logout(here, dataclasses.replace(found, user="ada"), machine), (
        "root's own runs at any time"
    )
    Host.table = ""
    assert not ends_at_logout(here, put(here, machine, CRON, program), machine), "cron needs nobody"


def test_what_ends_at_logout_is_not_green_until_somebody_means_it():
    (one,) = of_schedule(ScheduleStatus(installed=SYSTEMD, until_logout=True), (), 0.0)
    assert (one.code, one.level, one.declinable) == (
        "schedule-until-logout",
        "partly",
        "schedule-until-logout",
    )
    assert one.fix == ("Let it run at any time: `loginctl enable-linger`",)
    both = ScheduleStatus(installed=SYSTEMD, until_logout=True, missed=9 * 3600.0)
    assert [one.code for one in of_schedule(both, (), 0.0)] == ["schedule-until-logout", "schedule-silent"]


def test_lines_that_crontab_did_not_replace_are_not_called_installed(here, machine, program, monkeypatch):
    """Some `crontab` adds to the table; what is there by then still calls the program that is gone."""

    def adding(self, words, given=""):
        if words == ("crontab", "-"):
            Host.table += given
            return 0, ""
        return (0, Host.table) if Host.table else (1, "no crontab for ada\n")

    put(here, machine, CRON, program)
    before = Host.table
    monkeypatch.setattr(Host, "run", adding)
    with pytest.raises(HostRefused) as caught:
        put(here, machine, CRON, program.parent / "other")
    assert "did not put the lines of the schedule in the place of the older ones" in caught.value.what
    assert "crontab -l" in caught.value.advice()[0] and before in Host.table


def test_a_timer_that_systemd_does_not_run_and_a_unit_that_is_gone(here, machine, program):
    found = put(here, machine, SYSTEMD, program)
    Host.active = False
    text, evidence = why_host_will_not_start(here, found, machine)
    assert text == "systemd does not run safekept.timer"
    assert evidence == ("`systemctl --user is-active safekept.timer` says: inactive",)
    os.unlink(next(iter(found.files)))
    assert why_host_will_not_start(here, found, machine)[0].endswith("is gone")


def test_what_nobody_remembers_to_have_installed_is_not_armed(here, machine):
    assert why_host_will_not_start(here, None, machine)[0] == "the schedule is not installed any more"


@pytest.mark.parametrize("host", [CRON, SYSTEMD, LAUNCHD])
def test_a_program_that_came_after_the_schedule_is_named_until_it_is_installed_again(
    here, machine, program, host, tmp_path
):
    own = tmp_path / "own bin"
    own.mkdir()
    with_path = Host({"PATH": f"{own}:/usr/bin"}, machine.user_home, machine.config, root=machine.root)
    found = put(here, with_path, host, program)
    assert unfound_programs(here, found, with_path) == ()
    for name in ("hermes", "rclone"):
        (own / name).write_text("#!/bin/sh\n")
        (own / name).chmod(0o755)
    assert unfound_programs(here, found, with_path) == (f"{own}/hermes",), "rclone leads nowhere here"
    there = here.changed(destinations=(parse_destination({"name": "cloud", "url": "rclone:cloud:x"}),))
    unfound = unfound_programs(there, found, with_path)
    assert unfound == (f"{own}/hermes", f"{own}/rclone")
    (finding,) = of_schedule(ScheduleStatus(looked=1.0, installed=host, unfound=unfound), (), 2.0)
    assert (finding.code, finding.level) == ("schedule-old-path", "partly")
    assert step_texts(finding.fix) == ["Install it again: `safekept schedule install`"]
    (finding,) = of_schedule(ScheduleStatus(looked=1.0, installed=host, unfound=unfound[:1]), (), 2.0)
    assert finding.level == "note", "without Hermes a drill asks less"
    renewed = put(here, with_path, host, program, search_path(with_path.environment))
    assert unfound_programs(there, renewed, with_path) == ()


@pytest.mark.parametrize("host", [CRON, SYSTEMD, LAUNCHD])
@pytest.mark.parametrize("at", ["03:30", "5:15, 17:00", "hourly"])
def test_the_times_of_what_is_installed_are_read_where_they_stand(here, machine, program, host, at):
    wanted = Cadence.parse(at)
    call = Call((str(program), "schedule", "run", "--quiet"), wanted, {"PATH": "/usr/bin"}, home="/h")
    call = dataclasses.replace(call, stores=stores_of(here))
    install(here, plan_installation(machine, host, call, os.getuid()), machine.run)
    found = installed(here)
    assert installed_times(here, found, machine) == wanted.times
    assert other_times(here.changed(schedule=Plan(wanted)), found, machine) == ""
    told = other_times(here.changed(schedule=Plan(Cadence(((4, 10),)))), found, machine)
    assert told == f"the schedule was installed for {wanted}; 04:10 is set, and this machine was not told"
    assert other_times(here.changed(schedule=Plan(Cadence(()))), found, machine) == "", "a look in every hour"


def test_a_run_finds_the_programs_that_its_installer_finds(tmp_path):
    """The order of the directories is the caller's: a night pushed with another `ssh` than a person did."""
    for name in ("mine", "system"):
        (tmp_path / name).mkdir()
    for program in ("mine/ssh", "system/ssh", "system/git"):
        path = tmp_path / program
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    path = f"{tmp_path}/mine:{tmp_path}/empty:relative:{tmp_path}/system"
    found = search_path({"PATH": path}).split(":")
    assert found[:2] == [f"{tmp_path}/mine", f"{tmp_path}/system"]
    assert shutil.which("ssh", path=":".join(found)) == f"{tmp_path}/mine/ssh"
    assert f"{tmp_path}/empty" not in found and "relative" not in found
