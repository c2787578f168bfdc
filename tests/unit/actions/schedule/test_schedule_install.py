"""Installing writes exactly what is shown, and removing takes exactly that back.

systemctl, launchctl and crontab are fakes here; `compat/schedule/test_schedule_hosts.py` asks real ones.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest

from safekept.actions.schedule.host import Machine, NoHost, find_host, plan_installation
from safekept.actions.schedule.install import FileTaken, HostRefused, install, installed, rediscovered, remove
from safekept.actions.schedule.whose import stores_of
from safekept.schedule.hosts.call import Call

CALL = Call(("/opt/safekept", "schedule", "run", "--quiet"), home="/home/ada/.hermes")
ADA = Call(CALL.command, user="ada", home=CALL.home)


class FakeHost:
    """Stands in for systemctl, launchctl and crontab: keeps a table, remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.table: str | None = None
        self.fails: dict[str, str] = {}

    def run(self, words, given=""):
        self.asked.append(tuple(words))
        for part, said in self.fails.items():
            if part in " ".join(words):
                return 1, said
        if tuple(words) == ("crontab", "-l"):
            return (1, "no crontab for ada\n") if self.table is None else (0, self.table)
        if tuple(words) == ("crontab", "-"):
            self.table = given
        if tuple(words) == ("crontab", "-r"):
            self.table = None
        return 0, ""


@pytest.fixture(autouse=True)
def usual(here, monkeypatch):
    """The HOME of these tests is the one that the machine knows for their user."""
    monkeypatch.setattr("safekept.actions.schedule.whose.registered_home", lambda: here.places.user_home)


def planned(here, one, kind, call):
    """What would be installed for the stores of that HOME."""
    whose = call if call.user else replace(call, stores=stores_of(here))
    return plan_installation(one, kind, whose, 1000)


@pytest.fixture
def host():
    return FakeHost()


def machine(tmp_path, **changes):
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    given = {
        "environment": {"PATH": str(tmp_path / "bin")},
        "user_home": str(tmp_path / "user"),
        "config": str(tmp_path / "user" / ".config"),
        "login": "ada",
        "root": str(root),
        "platform": "linux",
    }
    return Machine(**{**given, **changes})


def everything_below(path) -> dict[str, str]:
    found = {}
    for directory, folders, names in os.walk(path):
        for name in folders:
            found[os.path.join(directory, name)] = "directory"
        for name in names:
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                found[os.path.join(directory, name)] = file.read()
    return {name: text for name, text in found.items() if ".local" not in name}


# ── which host ─────────────────────────────────────────────────────────────────────────────────────


def test_systemd_is_taken_only_where_it_runs_and_can_be_asked(tmp_path):
    os.makedirs(tmp_path / "root" / "run" / "systemd" / "system")
    os.makedirs(tmp_path / "runtime" / "systemd" / "private")
    os.makedirs(tmp_path / "bin")
    (tmp_path / "bin" / "crontab").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "crontab").chmod(0o755)
    environment = {"PATH": str(tmp_path / "bin")}
    asked = {**environment, "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    assert find_host(machine(tmp_path, environment=asked), system=False) == "systemd"
    assert find_host(machine(tmp_path), system=False) == "cron"  # nobody to ask, as after `su`
    assert find_host(machine(tmp_path), system=True) == "systemd"
    assert find_host(machine(tmp_path, root=str(tmp_path / "container")), system=True) == "cron"
    assert find_host(machine(tmp_path, platform="darwin"), system=False) == "launchd"


def test_without_systemd_and_cron_it_says_what_to_do(tmp_path):
    with pytest.raises(NoHost) as caught:
        find_host(machine(tmp_path), system=False)
    assert caught.value.what == "Neither systemd nor cron is there to wake safekept"
    assert caught.value.kept == "Nothing was installed"
    assert "`safekept schedule run --quiet` every hour" in caught.value.advice()[1]


def test_lingering_is_explained_to_whom_it_concerns(tmp_path, here):
    one = machine(tmp_path)
    assert "`loginctl enable-linger`" in planned(here, one, "systemd", CALL).notes[0]
    assert planned(here, one, "systemd", ADA).notes == []
    os.makedirs(tmp_path / "root" / "var" / "lib" / "systemd" / "linger")
    (tmp_path / "root" / "var" / "lib" / "systemd" / "linger" / "ada").write_text("")
    assert planned(here, one, "systemd", CALL).notes == []


# ── there and back ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["systemd", "launchd", "cron"])
@pytest.mark.parametrize("call", [CALL, ADA], ids=["user", "system"])
def test_what_is_installed_is_what_was_shown_and_removing_leaves_what_was_there(
    tmp_path, here, host, kind, call
):
    host.table = "0 1 * * * true\n"
    plan = planned(here, machine(tmp_path), kind, call)
    before = everything_below(tmp_path)
    install(here, plan, host.run)
    after = everything_below(tmp_path)
    written = {path: text for path, text in after.items() if text != "directory" and path not in before}
    assert written == plan.files
    assert all(os.stat(path).st_mode & 0o777 == 0o644 for path in written)
    assert [words for words in host.asked if words[0] != "crontab"] == plan.start
    if plan.table:
        assert host.table == "0 1 * * * true\n" + plan.table
    found = installed(here)
    assert set(found.states().values()) <= {"as installed"}
    host.asked.clear()
    done = remove(here, found, host.run)
    assert (done.left, done.remarks) == ([], [])
    assert everything_below(tmp_path) == before
    assert host.table == "0 1 * * * true\n"
    assert [words for words in host.asked if words[0] != "crontab"] == [*plan.stop, *plan.after]
    assert installed(here) is None


def test_a_user_without_a_crontab_has_none_again_afterwards(tmp_path, here, host):
    install(here, planned(here, machine(tmp_path), "cron", CALL), host.run)
    assert host.table is not None
    remove(here, installed(here), host.run)
    assert host.table is None


@pytest.mark.parametrize("others", ["", "0 1 * * * true\n"])
def test_lines_that_cron_did_not_let_go_of_are_never_said_to_be_removed(tmp_path, here, host, others):
    """By what is in the table afterwards: there are programs that end with 0 and change nothing."""
    host.table = others or None
    install(here, planned(here, machine(tmp_path), "cron", CALL), host.run)
    table = host.table

    def unmoved(words, given=""):
        return host.run(words, given) if tuple(words) == ("crontab", "-l") else (0, "")

    with pytest.raises(HostRefused) as refused:
        remove(here, installed(here), unmoved)
    assert refused.value.what == "The lines of the schedule are still in your crontab"
    assert refused.value.kept == "Your crontab was left as it is"
    assert "Take them out: `crontab -e`" in [str(step) for step in refused.value.next_steps]
    assert host.table == table and installed(here) is not None
    host.fails["crontab -r"] = "not here"
    if not others:
        with pytest.raises(HostRefused):
            remove(here, installed(here), host.run)
        host.fails.clear()
    remove(here, installed(here), host.run)
    assert host.table == (others or None) and installed(here) is None


def test_installing_twice_is_installing_once(tmp_path, here, host):
    plan = planned(here, machine(tmp_path), "systemd", CALL)
    before = everything_below(tmp_path)
    for _ in range(2):
        install(here, plan, host.run)
    remove(here, installed(here), host.run)
    assert everything_below(tmp_path) == before


def test_another_host_takes_the_place_of_the_one_before(tmp_path, here, host):
    one = machine(tmp_path)
    before = everything_below(tmp_path)
    install(here, planned(here, one, "cron", CALL), host.run)
    install(here, planned(here, one, "systemd", CALL), host.run)
    assert host.table is None
    assert installed(here).host == "systemd"
    install(here, planned(here, one, "cron", CALL), host.run)
    assert everything_below(tmp_path) == before
    assert ("systemctl", "--user", "disable", "--now", "safekept.timer") in host.asked
    assert host.table is not None


@pytest.mark.parametrize("kind", ["systemd", "launchd", "cron"])
def test_what_nothing_remembers_any_more_is_found_and_removed(tmp_path, here, host, kind):
    one = machine(tmp_path)
    assert rediscovered(planned(here, one, kind, CALL), host.run) is None
    before = everything_below(tmp_path)
    host.table = "0 1 * * * true\n"
    install(here, planned(here, one, kind, CALL), host.run)
    shutil.rmtree(here.places.data_directory)
    assert installed(here) is None
    found = rediscovered(planned(here, one, kind, Call(("safekept",))), host.run)
    remove(here, found, host.run)
    files = [path for path, text in everything_below(tmp_path).items() if text != "directory"]
    assert files == [path for path, text in before.items() if text != "directory"]
    assert host.table == "0 1 * * * true\n"


def test_a_file_of_somebody_else_is_never_replaced(tmp_path, here, host):
    plan = planned(here, machine(tmp_path), "systemd", CALL)
    timer = next(path for path in plan.files if path.endswith(".timer"))
    os.makedirs(os.path.dirname(timer))
    with open(timer, "w", encoding="utf-8") as file:
        file.write("[Timer]\n")
    before = everything_below(tmp_path)
    with pytest.raises(FileTaken) as caught:
        install(here, plan, host.run)
    assert caught.value.what == f"`{timer}` exists, and safekept did not write it"
    assert caught.value.kept == "It was left as it is; nothing was installed"
    assert everything_below(tmp_path) == before
    assert host.asked == []


def test_a_file_that_was_changed_since_is_left_and_named(tmp_path, here, host):
    plan = planned(here, machine(tmp_path), "systemd", CALL)
    install(here, plan, host.run)
    service, timer = plan.files
    with open(timer, "a", encoding="utf-8") as file:
        file.write("# mine\n")
    found = installed(here)
    assert found.states() == {service: "as installed", timer: "changed"}
    done = remove(here, found, host.run)
    assert (done.files, done.left) == ([service], [timer])
    assert os.path.exists(timer)


def test_where_the_host_refuses_everything_is_taken_back(tmp_path, here, host):
    host.fails["enable"] = "Failed to enable unit: no bus\n"
    plan = planned(here, machine(tmp_path), "systemd", CALL)
    before = everything_below(tmp_path)
    with pytest.raises(HostRefused) as caught:
        install(here, plan, host.run)
    assert caught.value.what == (
        "`systemctl --user enable --now safekept.timer` ended with status 1: Failed to enable unit: no bus"
    )
    assert caught.value.kept == "What was written for it was taken back; nothing is installed"
    assert everything_below(tmp_path) == before
    assert installed(here) is None
    (entry,) = here.journal.read()
    assert (entry.verb, entry.state) == ("schedule-install", "failed")


def test_a_crontab_that_cannot_be_read_is_not_written_over(tmp_path, here, host):
    host.fails["crontab -l"] = "You (ada) are not allowed to use this program (crontab)\n"
    with pytest.raises(HostRefused) as caught:
        install(here, planned(here, machine(tmp_path), "cron", CALL), host.run)
    assert caught.value.kept == "Your crontab was left as it is"
    assert ("crontab", "-") not in host.asked


def test_a_place_that_cannot_be_written_is_said(tmp_path, here, host):
    (tmp_path / "user").mkdir(exist_ok=True)
    (tmp_path / "user" / ".config").write_text("a file")
    with pytest.raises(HostRefused, match="cannot be written"):
        install(here, planned(here, machine(tmp_path), "systemd", CALL), host.run)
    assert host.asked == []


def test_a_program_that_is_missing_has_the_status_of_a_shell(tmp_path):
    assert machine(tmp_path).run(("systemctl", "x")) == (127, "systemctl is not installed")
