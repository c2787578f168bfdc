"""Will the host start the schedule? The word of systemd and cron, and whether our program is there."""

from __future__ import annotations

import os

import pytest

from safekept.actions.schedule.host import Machine, plan_installation
from safekept.actions.schedule.host_commands import HostRefused
from safekept.actions.schedule.host_start import why_host_will_not_start
from safekept.actions.schedule.install import CRON, SYSTEMD, install, installed
from safekept.actions.status.findings.work import of_schedule
from safekept.actions.status.schedule_status import ScheduleStatus
from safekept.schedule.hosts.call import Call
from support.users.contexts import throwaway


class Host(Machine):
    """systemctl and crontab that answer as they are told; a root of its own."""

    table = ""
    active = True

    def run(self, words, given=""):
        if words[0] == "crontab":
            if words[1] == "-":
                Host.table = given
            return (0, Host.table) if Host.table or words[1] != "-l" else (1, "no crontab for ada\n")
        if "is-active" in words:
            return (0, "active\n") if Host.active else (3, "inactive\n")
        return 0, ""


@pytest.fixture
def here(tmp_path):
    Host.table, Host.active = "", True
    (tmp_path / "root" / "run").mkdir(parents=True)
    (tmp_path / "root" / "run" / "crond.pid").write_text("1")
    (tmp_path / "root" / "proc").mkdir()
    return throwaway(tmp_path)


@pytest.fixture
def machine(here, tmp_path):
    return Host({}, here.places.user_home, str(tmp_path / "config"), root=str(tmp_path / "root"))


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "check out" / "safekept"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    return path


def put(here, machine, host, program):
    call = Call((str(program), "schedule", "run", "--quiet"), environment={"PATH": "/usr/bin"}, home="/h")
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


def test_cron_that_does_not_run_is_said(here, machine, program, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    found = put(here, machine, CRON, program)
    os.unlink(machine.at("/run/crond.pid"))
    why, evidence = why_host_will_not_start(here, found, machine)
    assert why == "cron is not running, so nothing happens by itself"
    (finding,) = of_schedule(ScheduleStatus(installed=CRON, trouble=why, evidence=evidence), (), 0.0)
    assert finding.fix == ("Start cron: `service cron start`",), "installing it again would not help"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (finding,) = of_schedule(ScheduleStatus(installed=CRON, trouble=why, evidence=evidence), (), 0.0)
    assert finding.fix == ("Start cron: `sudo service cron start`",), "root needs none, others do"
    process = os.path.join(machine.at("/proc"), "77")
    os.mkdir(process)
    with open(os.path.join(process, "comm"), "w") as file:
        file.write("cron\n")
    assert why_host_will_not_start(here, found, machine) == ("", ())


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
