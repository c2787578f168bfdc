"""What starts the work of every night: what it needs is said before a time is chosen, and then done."""

from __future__ import annotations

import json
import os
import re

import pytest

from support.users.first_hour import Newcomer


@pytest.fixture
def new(tmp_path):
    return Newcomer(tmp_path, profiles=())


@pytest.fixture
def questions(monkeypatch):
    """A person who presses Enter at everything, and Ctrl-C at the time."""

    def prompt(text, default="", **_):
        if "Time" in text:
            raise KeyboardInterrupt
        return default

    monkeypatch.setattr("safekept.cli.console.Console.can_ask", lambda self: True)
    monkeypatch.setattr("safekept.cli.commands.setup.answers.prompt", prompt)
    monkeypatch.setattr("safekept.cli.commands.setup.answers.confirm", lambda *_, **__: True)


def with_systemd(machine, monkeypatch, *, allowed=True):
    """A systemd of the user's own that ends with the session; the file that says that it does not."""
    lingers = os.path.join(machine.place, "lingers")
    enable = f": > {lingers}" if allowed else "echo 'Could not enable linger: Access denied'; exit 1"
    shown = f"[ -e {lingers} ] && echo Linger=yes || echo Linger=no"
    for name, line in (
        ("systemctl", "echo active"),
        ("loginctl", f'case "$1" in show-user) {shown};; enable-linger) {enable};; esac'),
    ):
        path = os.path.join(machine.programs, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{line}\n")
        os.chmod(path, 0o755)
    monkeypatch.setattr("safekept.actions.schedule.host.find_host", lambda machine, system: "systemd")
    return lingers


def set_up(machine, *more):
    place = os.path.join(machine.place, "usb")
    words = ("--passphrase-file", machine.secret, "--destination", place, "--elsewhere", "--at", "04:10")
    return machine.run("setup", "--yes", *words, *more)


def test_that_cron_is_not_running_is_said_before_a_time_is_chosen(new, questions, monkeypatch):
    monkeypatch.setattr("safekept.actions.schedule.host_start.cron_runs", lambda machine: False)
    said = new.run("setup")
    _, _, question = " ".join(said.stdout.split()).partition("4 of 4 Every night: ")
    start = "Start cron: `(sudo )?service cron start`"
    wanted = f"cron is not running, so nothing would happen by itself. {start}"
    assert re.search(wanted, question), said.stdout
    monkeypatch.setattr("safekept.actions.schedule.host_start.cron_runs", lambda machine: True)
    assert "cron is not running" not in new.run("setup").stdout


def test_that_it_runs_after_logging_out_is_said_before_a_time_is_chosen(new, questions, monkeypatch):
    lingers = with_systemd(new, monkeypatch)
    said = new.run("setup")
    _, _, question = " ".join(said.stdout.split()).partition("4 of 4 Every night: ")
    assert "also while you are logged out: for that, `loginctl enable-linger` is called" in question
    assert not os.path.exists(lingers), "only asked"
    open(lingers, "w").close()
    assert "logged out" not in new.run("setup").stdout, "it is so already"


def test_setup_lets_it_run_while_nobody_is_logged_in(new, monkeypatch):
    lingers = with_systemd(new, monkeypatch)
    wanted = "every night at 04:10, with systemd, also while you are logged out"
    assert wanted in " ".join(set_up(new, "--dry-run").stdout.split())
    assert not os.path.exists(lingers), "a plan changes nothing"
    done = set_up(new)
    assert done.returncode == 0, done.stdout + done.stderr
    assert os.path.exists(lingers)
    assert wanted in " ".join(done.stdout.split())
    assert "Protected if the machine is lost" in done.stdout, done.stdout


def test_where_that_is_refused_the_verdict_has_the_command(new, monkeypatch):
    with_systemd(new, monkeypatch, allowed=False)
    done = set_up(new)
    told = " ".join(done.stdout.split())
    assert "while you are logged in only: `loginctl enable-linger --no-ask-password` ended with" in told, told
    assert "Access denied" in told
    assert "Partly protected: the schedule ends when you log out" in told, told
    assert "Next Let it run at any time: `loginctl enable-linger`" in told, told
    assert set_up(new, "--json").returncode == 0


def test_a_schedule_that_ends_at_logout_is_offered_to_be_mended_by_the_next_setup(new, monkeypatch):
    """Its only lack is one command, which a second setup passed over: it was installed already."""
    with_systemd(new, monkeypatch, allowed=False)
    assert set_up(new).returncode == 0
    lingers = with_systemd(new, monkeypatch)
    plan = new.run("setup", "--dry-run")
    assert "; it ends when you log out" in " ".join(plan.stdout.split()), plan.stdout
    assert "when to run every night" in plan.stdout, "it is asked"
    assert json.loads(new.run("setup", "--dry-run", "--json").stdout)["missing"]["schedule"] is True
    done = new.run("setup", "--yes")
    assert done.returncode == 0 and os.path.exists(lingers), done.stdout + done.stderr
    assert "Protected if the machine is lost" in done.stdout
    os.unlink(lingers)
    assert new.run("status", "--acknowledge", "schedule-until-logout").returncode == 0
    assert json.loads(new.run("setup", "--dry-run", "--json").stdout)["missing"]["schedule"] is False


def test_uninstall_names_what_lets_services_run_after_logging_out(new, monkeypatch, tmp_path):
    with_systemd(new, monkeypatch)
    assert set_up(new).returncode == 0
    monkeypatch.setattr("safekept.actions.schedule.host.linger_file", lambda machine: str(tmp_path / "ada"))
    said = new.run("uninstall", "--yes", "--json")
    remains = json.loads(said.stdout)["remains"]
    (one,) = [one for one in remains if one["path"] == str(tmp_path / "ada")]
    assert one["store"] is False and "`loginctl disable-linger` ends that" in one["what"]
