"""One user, two HOMEs, one crontab and one set of unit names: each owns its own lines, and nothing else."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from safekept.actions.schedule.host import Machine, find_leftovers, plan_installation
from safekept.actions.schedule.host_start import installed_times, why_host_will_not_start
from safekept.actions.schedule.install import FileTaken, digest_of, install, installed, remove
from safekept.actions.schedule.whose import stores_of
from safekept.schedule.hosts import cron
from safekept.schedule.hosts.call import MARK, Call
from safekept.schedule.tasks import Cadence
from support.users.contexts import throwaway

THEIRS = "MAILTO=ada\n0 1 * * * true\n"


class Host:
    """One crontab and one systemd of a user, which knows units by their names."""

    def __init__(self) -> None:
        self.table, self.units, self.active = THEIRS, {}, set()
        self.places: list[str] = []  # where this systemd looks for units

    def run(self, words, given=""):
        if words[0] == "crontab":
            self.table = {"-": given, "-r": ""}.get(words[1], self.table)
            return (0, self.table) if self.table else (1, "no crontab for ada\n")
        verb, *names = [word for word in words[1:] if word not in ("--user", "--now")]
        if verb == "link":
            self.units |= {os.path.basename(path): path for path in names}
        elif verb == "show":
            return 0, f"FragmentPath={self._file(names[-1])}\n"
        elif verb == "enable":
            if not self._file(names[0]):
                return 1, f"Unit {names[0]} does not exist\n"
            self.active.add(names[0])
        elif verb == "disable":
            self.active.discard(names[0])
            self.units.pop(names[0], None)
        elif verb == "is-active":
            return (0, "active\n") if names[0] in self.active else (3, "inactive\n")
        return 0, ""

    def _file(self, name):
        there = [os.path.join(place, name) for place in self.places]
        return self.units.get(name) or next(filter(os.path.exists, there), "")


def asking(host, *places):
    """A machine whose programs are the fake ones."""

    class Asking(Machine):
        def run(self, words, given=""):
            return host.run(words, given)

    return Asking({}, *places)


class User:
    """One HOME: its context, and what is installed from it."""

    def __init__(self, directory, host, **environment):
        os.makedirs(directory, exist_ok=True)
        self.here, self.host, self.given = throwaway(directory), host, environment
        if config := environment.get("XDG_CONFIG_HOME"):
            self.here = self.here.changed(settings_file=os.path.join(config, "safekept", "config.toml"))
        self.config = config or os.path.join(self.here.places.user_home, ".config")
        places = (self.here.places.user_home, self.config, "ada", str(directory / "root"))
        self.machine = asking(host, *places)
        self.program = str(directory / "safekept")
        with open(self.program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n")

    def call(self, at="03:30", usual_home=""):
        home = self.here.places.user_home
        environment = {**self.given, "PATH": "/usr/bin", **({"HOME": home} if home != usual_home else {})}
        words = (self.program, "schedule", "run", "--quiet")
        return Call(words, Cadence.parse(at), environment, home="/h", stores=stores_of(self.here))

    def install(self, kind, at="03:30", usual_home=""):
        plan = plan_installation(self.machine, kind, self.call(at, usual_home), 1000)
        return install(self.here, plan, self.host.run)

    def remove(self):
        return remove(self.here, installed(self.here), self.host.run)

    def trouble(self):
        return why_host_will_not_start(self.here, installed(self.here), self.machine)[0]


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def two(tmp_path, host, monkeypatch):
    """Ada's own HOME, as the machine knows it, and one that she tries something out in."""
    own, trial = (User(tmp_path / name, host) for name in ("own", "trial"))
    known = own.here.places.user_home
    monkeypatch.setattr("safekept.actions.schedule.whose.registered_home", lambda: known)
    monkeypatch.setattr("safekept.actions.schedule.host_start.cron_runs", lambda machine: True)
    host.places.append(os.path.join(known, ".config", "systemd", "user"))
    return own, trial


def settled(user, kind):
    """Installed in the HOME that the machine knows."""
    return user.install(kind, usual_home=user.here.places.user_home)


def test_a_second_home_leaves_the_first_ones_lines_and_takes_back_its_own(two, host):
    own, trial = two
    settled(own, "cron")
    first = host.table
    trial.install("cron", at="04:10")
    assert host.table.startswith(first), "to the byte"
    assert "10 4 * * *" in host.table and trial.program in host.table
    assert (own.trouble(), trial.trouble()) == ("", "")
    assert installed_times(own.here, installed(own.here), own.machine) == ((3, 30),)
    assert installed_times(trial.here, installed(trial.here), trial.machine) == ((4, 10),)
    own.install("cron", at="05:00", usual_home=own.here.places.user_home)
    assert host.table.count("10 4 * * *") == 1 and "30 3 * * *" not in host.table
    trial.remove()
    assert trial.program not in host.table and "0 5 * * *" in host.table and own.trouble() == ""
    own.remove()
    assert host.table == THEIRS


def test_another_directory_of_settings_has_lines_of_its_own(two, host, tmp_path):
    own, _ = two
    other = User(tmp_path / "own", host, XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert other.here.places.data_directory == own.here.places.data_directory
    settled(own, "cron")
    first = host.table
    other.install("cron", at="04:10", usual_home=own.here.places.user_home)
    assert host.table.startswith(first)
    assert installed(own.here).stores != installed(other.here).stores, "one directory holds both records"
    assert (own.trouble(), other.trouble()) == ("", "")
    other.remove()
    assert host.table == first and installed(own.here) is not None and installed(other.here) is None
    other.install("cron", usual_home=own.here.places.user_home)
    own.remove()
    assert installed(own.here) is None and other.trouble() == ""


def test_lines_that_only_another_home_has_are_none_of_ours(two, host):
    own, trial = two
    settled(own, "cron")
    first = host.table
    assert installed(trial.here) is None
    assert find_leftovers(trial.machine, "", 1000, stores_of(trial.here)) is None
    shutil.rmtree(own.here.places.data_directory)
    found = find_leftovers(own.machine, "", 1000, stores_of(own.here))
    assert found.table and host.table == first
    remove(own.here, found, host.run)
    assert host.table == THEIRS


def test_a_home_that_was_copied_does_not_take_the_first_ones_lines(two, host):
    own, trial = two
    settled(own, "cron")
    first = host.table
    shutil.copytree(own.here.places.user_home, trial.here.places.user_home, dirs_exist_ok=True)
    assert installed(trial.here) is None, "the record speaks of the other"
    trial.install("cron", at="04:10")
    trial.remove()
    assert host.table == first and own.trouble() == ""


# ── what earlier versions wrote ────────────────────────────────────────────────────────────────────


def unmarked(user, usual_home="", *, at="03:30"):
    """As it was written before lines said whose they are, with the record that went with them."""
    call = user.call(at, usual_home)
    own = [line for line in cron.lines(call) if not line.startswith("# safekept")]
    record = {"version": 1, "host": "cron", "user": "", "time": 1.0, "files": {}, "directories": []}
    put_record(user, {**record, "table": True, "stop": [], "after": []})
    return "\n".join([f"# safekept: begin. {MARK}", *own, "# safekept: end"]) + "\n"


def put_record(user, document):
    directory = os.path.join(user.here.places.data_directory, "schedule")
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "installed.json"), "w", encoding="utf-8") as file:
        json.dump(document, file)


def test_lines_of_an_earlier_version_belong_to_the_home_that_they_name(two, host):
    own, trial = two
    usual = own.here.places.user_home
    host.table = THEIRS + unmarked(own, usual)
    unmarked(trial)  # its lines were replaced by the others, and its record says that it has some
    first = host.table
    assert own.trouble() == ""
    assert trial.trouble() == "the schedule's lines are gone from your crontab"
    trial.remove()
    assert host.table == first, "uninstalling where nothing of ours is left"
    trial.install("cron", at="04:10")
    assert host.table.startswith(first)
    settled(own, "cron")
    assert host.table.count("30 3 * * *") == 1 and host.table.count(f"# safekept: begin. {MARK}") == 0
    assert (own.trouble(), trial.trouble()) == ("", "")
    trial.remove()
    own.remove()
    assert host.table == THEIRS


def test_lines_of_an_earlier_version_for_another_home_are_replaced_from_there_only(two, host):
    own, trial = two
    host.table = THEIRS + unmarked(trial, at="04:10")
    first = host.table
    settled(own, "cron")
    assert host.table.startswith(first)
    own.remove()
    assert host.table == first and trial.trouble() == ""
    trial.remove()
    assert host.table == THEIRS


@pytest.mark.parametrize("mended", ["HOME=/elsewhere\n", "XDG_DATA_HOME = /elsewhere\n"])
def test_lines_under_a_table_that_moves_the_home_are_not_provably_ours(two, host, mended):
    own, _ = two
    host.table = mended + unmarked(own, own.here.places.user_home)
    first = host.table
    settled(own, "cron")
    assert host.table.startswith(first)


def test_a_block_of_ours_that_lost_its_end_takes_no_line_of_the_next(two, host):
    own, trial = two
    settled(own, "cron")
    trial.install("cron", at="04:10")
    lines = host.table.splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if line.startswith("# safekept: end"))
    host.table = "".join(lines[:cut] + lines[cut + 1 :])
    own.remove()
    assert trial.program in host.table and own.program not in host.table and trial.trouble() == ""
    assert host.table.startswith(THEIRS + "# safekept: begin ")


# ── systemd and launchd ────────────────────────────────────────────────────────────────────────────


def test_a_timer_of_another_home_has_a_name_of_its_own(two, host):
    own, trial = two
    settled(own, "systemd")
    assert host.active == {"safekept.timer"}, "the plain name is for the HOME that the machine knows"
    trial.install("systemd")
    named = f"safekept-{stores_of(trial.here).id}.timer"
    assert host.active == {"safekept.timer", named}
    assert host.units[named].startswith(trial.config), "systemd does not look there by itself"
    assert (own.trouble(), trial.trouble()) == ("", "")
    assert trial.remove().left == [] and host.active == {"safekept.timer"} and host.units == {}
    assert own.trouble() == ""


def test_a_timer_of_an_earlier_version_does_not_stop_the_one_of_another_home(two, host):
    own, trial = two
    settled(own, "systemd")
    plain = Call(trial.call().command, environment=trial.call().environment, home="/h")
    plan = plan_installation(trial.machine, "systemd", plain, 1000)
    for path, text in plan.files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    record = {"version": 1, "host": "systemd", "user": "", "time": 1.0, "directories": [], "table": False}
    files = {path: digest_of(text.encode()) for path, text in plan.files.items()}
    stop, after = ([list(words) for words in given] for given in (plan.stop, plan.after))
    put_record(trial, {**record, "files": files, "stop": stop, "after": after})
    assert trial.trouble().startswith("systemd runs ") and "safekept.timer" in trial.trouble()
    trial.install("systemd")
    assert host.active == {"safekept.timer", f"safekept-{stores_of(trial.here).id}.timer"}
    assert not any(os.path.exists(path) for path in files), "what the earlier version wrote went"
    put_record(trial, {**record, "files": {}, "stop": stop, "after": after})
    trial.remove()
    assert "safekept.timer" in host.active and own.trouble() == ""


def test_a_unit_of_other_stores_under_our_name_is_not_replaced(two, host, tmp_path):
    own, _ = two
    elsewhere = {"XDG_DATA_HOME": str(tmp_path / "data"), "PATH": "/usr/bin"}
    plan = plan_installation(own.machine, "systemd", Call((own.program,), environment=elsewhere), 1000)
    service = next(iter(plan.files))
    os.makedirs(os.path.dirname(service))
    with open(service, "w", encoding="utf-8") as file:
        file.write(plan.files[service])
    with pytest.raises(FileTaken, match="is the schedule of another HOME"):
        settled(own, "systemd")
    assert find_leftovers(own.machine, "", 1000, stores_of(own.here)) is None


def test_an_agent_of_launchd_has_a_label_for_each_home(two):
    own, trial = two
    labels = []
    for user in (own, trial):
        plan = plan_installation(user.machine, "launchd", user.call(), 501)
        ((path, text),) = plan.files.items()
        labels.append(os.path.basename(path).removesuffix(".plist"))
        assert f"<string>{labels[-1]}</string>" in text and plan.stop[0][-1] == f"gui/501/{labels[-1]}"
    assert labels[0] == "dev.safekept.schedule"
    assert labels[1] == f"dev.safekept.schedule.{stores_of(trial.here).id}"
