"""What `safekept schedule` and `safekept notify` say, at a terminal and as JSON, and what they never say."""

from __future__ import annotations

import json
import os
import re
import stat

import pytest

from conftest import missing_part
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.offsite.web_server import WebServer

SECRET = "tk-5ecr3t"


@pytest.fixture
def user(tmp_path):
    os.makedirs(tmp_path / "user" / ".hermes" / "memories")
    (tmp_path / "user" / ".hermes" / "config.yaml").write_text("a: 1\n")
    (tmp_path / "user" / ".hermes" / "SOUL.md").write_text("kind\n")
    (tmp_path / "user" / ".hermes" / "memories" / "MEMORY.md").write_text("- one\n")
    return str(tmp_path / "user")


@pytest.fixture
def say(monkeypatch, user):
    return spoken(monkeypatch, user)


def configure(user: str, text: str) -> None:
    os.makedirs(os.path.join(user, ".config", "safekept"), exist_ok=True)
    with open(os.path.join(user, ".config", "safekept", "config.toml"), "w", encoding="utf-8") as file:
        file.write(text)


# ── run and show ───────────────────────────────────────────────────────────────────────────────────


def test_a_run_says_what_it_did_and_when_it_is_next(say, user):
    said = say("schedule", "run", "--dry-run")
    assert said.code == 0
    assert said.out.splitlines()[0] == "Would do 1 of 4 things now"
    assert said.out.splitlines()[-1] == "Nothing was done"
    said = say("schedule", "run")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("All done, ")
    assert lines[1].startswith(f"    snapshot of {user}/.hermes: done: snapshot ")
    assert lines[-1].startswith("  Next run   ")
    assert lines[-1].endswith("03:30")
    assert say("schedule", "run").out.splitlines()[0] == "Nothing is due"
    said = say("schedule", "run", "--quiet")
    assert (said.code, said.out, said.err) == (0, "", "")


def test_a_run_as_json_is_one_document(say):
    document = json.loads(say("schedule", "run", "--json").out)
    assert document["state"] == "done"
    assert [step["state"] for step in document["steps"]] == ["done"]
    assert set(document) == {"version", "operation", "started", "state", "seconds", "steps", "next"}


def test_a_failed_snapshot_is_exit_code_1_and_not_quiet(say, user):
    say("schedule", "run")
    os.rename(os.path.join(user, ".hermes"), os.path.join(user, "moved"))
    said = say("schedule", "run", "--now", "--quiet")
    assert said.code == 1
    assert said.out.splitlines()[0].startswith("Failed, ")
    assert f"snapshot of {user}/.hermes: failed: " in said.out
    os.rename(os.path.join(user, "moved"), os.path.join(user, ".hermes"))


def test_a_dead_destination_is_exit_code_3(say, user, tmp_path):
    configure(user, f'[[destination]]\nname = "nas"\nurl = "file:{tmp_path}/away"\nsame_disk = true\n')
    said = say("schedule", "run", "--json")
    document = json.loads(said.out)
    assert said.code == 3
    assert [(step["task"], step["state"]) for step in document["steps"]] == [
        (f"snapshot:{user}/.hermes", "done"),
        ("push:nas", "failed"),  # nothing leaves before there is a second way into the vault
    ]


def test_a_push_by_hand_is_not_due_again_before_the_night(say, user, tmp_path):
    assert say("schedule", "run").code == 0
    configure(user, f'[[destination]]\nname = "usb"\nurl = "{tmp_path}/usb"\nsame_disk = true\n')
    assert say("vault", "kit").code == say("push", "--acknowledge-kit").code == 0
    assert say("schedule", "run", "--dry-run").out.splitlines()[0] == "Would do 0 of 5 things now"


def test_while_another_run_works_there_is_nothing_to_complain_about(say, user):
    from safekept.core.locks import process_lock

    place = os.path.join(user, ".local", "share", "safekept", "schedule", "lock")
    with process_lock(place, "scheduled work"):
        said = say("schedule", "run")
        assert said.code == 0
        assert said.out.startswith("Nothing to do: process ")
        assert say("schedule", "run", "--quiet").out == ""


def test_show_says_when_it_last_ran_how_it_ended_and_when_it_runs_next(say, user):
    said = say("schedule", "show")
    assert said.out.splitlines()[:3] == [
        "Nothing is installed here",
        "Install it with: `safekept schedule install`",
        "  Last run   never",
    ]
    say("schedule", "run")
    lines = say("schedule", "show").out.splitlines()
    assert ", all done in " in lines[2]
    # With nothing that starts it, there is no next time.
    work = lines[lines.index("Regular work; none of it happens by itself now") + 1 :]
    assert work[0].split() == ["LAST", "DONE", "WHAT"]
    assert re.fullmatch(rf"  \d{{4}}-\S+ \d\d:\d\d  snapshot of {user}/\.hermes", work[1]), work
    assert [line.split()[0] for line in work if line.endswith(f" small drill of {user}/.hermes")] == ["never"]
    document = json.loads(say("schedule", "show", "--json").out)
    assert document["installed"] is None
    assert document["last"]["state"] == "done"
    assert document["next"] > document["last"]["started"]
    assert {row["task"].partition(":")[0] for row in document["tasks"]} == {
        "snapshot",
        "prune",
        "drill",
        "small-drill",
    }


# ── install and remove ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def fake_systemd(tmp_path, monkeypatch):
    """A systemctl that writes down what it is asked; not the real one."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    (place / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return lambda: (tmp_path / "asked").read_text().splitlines() if (tmp_path / "asked").exists() else []


@pytest.fixture
def usual(user, monkeypatch):
    """The HOME is the one that the machine knows for this user, and its unit has the plain name."""
    monkeypatch.setattr("safekept.actions.schedule.whose.registered_home", lambda: user)


def units(user: str) -> list[str]:
    place = os.path.join(user, ".config", "systemd", "user")
    return sorted(os.listdir(place)) if os.path.isdir(place) else []


def test_nothing_is_installed_without_being_shown_and_agreed_to(say, user, fake_systemd, usual):
    said = say("schedule", "install", "--host", "systemd")
    assert said.code == 1
    assert f"  File       {user}/.config/systemd/user/safekept.service" in said.out
    assert "      OnCalendar=*-*-* 03:30:00" in said.out
    assert "  Command    systemctl --user enable --now safekept.timer" in said.out
    assert "`loginctl enable-linger`" in said.out
    assert "Agree to it: `safekept schedule install --host systemd --yes`" in said.err
    assert (units(user), fake_systemd()) == ([], [])
    said = say("schedule", "install", "--host", "systemd", "--dry-run")
    assert said.code == 0
    assert said.out.splitlines()[-1] == "Nothing was written"
    assert (units(user), fake_systemd()) == ([], [])


def test_install_show_and_remove(say, user, fake_systemd):
    """For a HOME that is not the one that the machine knows: systemd is told where its units lie."""
    assert say("schedule", "install", "--host", "systemd", "--yes").code == 0
    name = units(user)[0].removesuffix(".service")
    assert re.fullmatch("safekept-[0-9a-f]{8}", name)
    assert units(user) == [f"{name}.service", f"{name}.timer"]
    paths = [os.path.join(user, ".config", "systemd", "user", one) for one in units(user)]
    with open(paths[0], encoding="utf-8") as file:
        service = file.read()
    assert '"schedule" "run" "--quiet"' in service
    assert f'Environment="HOME={user}"' in service
    shown = say("schedule", "show").out.splitlines()
    assert shown[0] == "Installed with systemd"
    work = shown[shown.index("Regular work") + 1 :]
    assert work[0].split() == ["LAST", "DONE", "NEXT", "WHAT"] and work[1].split()[:2] == ["never", "within"]
    assert say("schedule", "remove").code == 1
    said = say("schedule", "remove", "--yes")
    assert (said.code, said.out.splitlines()[-1]) == (0, "Removed 2 files")
    assert units(user) == []
    assert fake_systemd() == [
        f"--user link {paths[0]} {paths[1]}",
        "--user daemon-reload",
        f"--user enable --now {name}.timer",
        f"--user is-active {name}.timer",  # `show` asks whether it would run
        f"--user disable --now {name}.timer",
        f"--user disable {name}.service",
        "--user daemon-reload",
    ]
    said = say("schedule", "remove", "--yes")
    assert said.code == 1
    assert error_code(said.err) == "schedule-not-installed"


def test_settings_that_only_this_shell_has_are_named_and_never_written(
    say, user, fake_systemd, usual, monkeypatch
):
    monkeypatch.setenv("SAFEKEPT_NOTIFY_NTFY", f"https://ntfy.example/{SECRET}")
    monkeypatch.setenv("SAFEKEPT_VAULT_PATH", os.path.join(user, "vault"))
    said = say("schedule", "install", "--host", "systemd", "--yes")
    assert "only this shell has them: `SAFEKEPT_NOTIFY_NTFY`" in said.out
    with open(os.path.join(user, ".config", "systemd", "user", "safekept.service"), encoding="utf-8") as file:
        service = file.read()
    assert f"SAFEKEPT_VAULT_PATH={user}/vault" in service
    assert SECRET not in service + said.out + said.err


def test_a_home_that_is_not_there_is_not_looked_after(say, user):
    said = say("schedule", "install", "--home", os.path.join(user, "nowhere"), "--dry-run", "--host", "cron")
    assert said.code == 1
    assert error_code(said.err) == "home-not-found"


def test_whose_schedule_it_is_takes_both_options(say, monkeypatch):
    said = say("schedule", "show", "--system")
    assert said.code == 2
    assert "--system and --user-name go together." in said.err
    said = say("schedule", "show", "--system", "--user-name", "nobody-of-that-name")
    assert said.code == 2
    assert "names `nobody-of-that-name`, and there is no such user" in said.err


# ── the system's schedule for a user ───────────────────────────────────────────────────────────────


@pytest.fixture
def system(tmp_path, monkeypatch, say):
    """root's places below a throwaway root, and a user `ada` whose home directory is in it."""
    home = tmp_path / "home" / "ada"
    make_hermes_home(str(home / ".hermes"))
    places = tuple(
        str(tmp_path / place) for place in ("etc/safekept", "var/lib/safekept", "var/cache/safekept")
    )
    monkeypatch.setattr("safekept.settings.loading.SYSTEM_PLACES", places)
    monkeypatch.setattr("safekept.settings.loading._home_of", lambda name: str(home))
    monkeypatch.setattr("safekept.settings.policies.SYSTEM_ARCHIVES", str(tmp_path / "var" / "backups"))
    return tmp_path


def test_root_looks_after_a_user_with_stores_that_the_user_cannot_reach(say, system, monkeypatch):
    from safekept.archive.sealing.age.keys import AgeIdentity

    monkeypatch.setenv("SAFEKEPT_BACKUP_SEAL", str(AgeIdentity.generate().recipient))
    said = say("schedule", "run", "--system", "--user-name", "ada", "--json")
    assert said.code in (0, 3), said.err  # the made home has a damaged database on purpose
    document = json.loads(said.out)
    assert document["steps"][0]["task"] == f"snapshot:{system}/home/ada/.hermes"
    assert os.path.exists(system / "var/lib/safekept/ada/vault/config")
    assert stat.S_IMODE(os.stat(system / "etc/safekept/ada/vault.key").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(system / "var/lib/safekept/ada").st_mode) == 0o700
    archives = system / "var/backups/hermes"
    assert stat.S_IMODE(os.stat(archives).st_mode) == 0o700
    assert [name[-8:] for name in os.listdir(archives)] == [".zip.age"]
    # The user's own directories got nothing.
    assert sorted(os.listdir(system / "home/ada")) == [".hermes"]
    assert say("schedule", "show").out.splitlines()[2] == "  Last run   never"


def test_the_units_of_the_system_name_the_user(say, system):
    said = say("schedule", "install", "--system", "--user-name", "ada", "--host", "systemd", "--dry-run")
    assert "/etc/systemd/system/safekept-ada.timer" in said.out
    assert 'Environment="SAFEKEPT_SYSTEM_USER=ada"' in said.out
    assert f'Environment="SAFEKEPT_HOME={system}/home/ada/.hermes"' in said.out
    said = say("schedule", "install", "--system", "--user-name", "ada", "--host", "cron", "--dry-run")
    assert "/etc/cron.d/safekept-ada" in said.out


def test_what_others_can_change_is_not_run_by_root_every_night(say, system, monkeypatch, tmp_path):
    if os.geteuid() != 0:
        missing_part("needs root, to have a program of somebody else")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "safekept").write_text("#!/bin/sh\n")
    (theirs / "safekept").chmod(0o755)
    os.chown(theirs, 65534, 65534)
    monkeypatch.setenv("SAFEKEPT_LAUNCHER", str(theirs / "safekept"))
    words = ("schedule", "install", "--system", "--user-name", "ada", "--host", "systemd")
    for more in ("--dry-run", "--yes"):
        said = say(*words, more)
        assert said.code == 1
        assert error_code(said.err) == "program-of-another"
        assert f"`{theirs}/safekept` can be changed by others, and root would run it every night" in said.err
        assert "Nothing was installed" in said.err


def test_only_root_installs_a_schedule_of_the_system(say, system, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said = say("schedule", "install", "--system", "--user-name", "ada", "--host", "systemd", "--yes")
    assert said.code == 1
    assert error_code(said.err) == "needs-root"


# ── notify test ────────────────────────────────────────────────────────────────────────────────────


def test_nobody_set_up_is_said(say):
    said = say("notify", "test")
    assert said.code == 2
    assert "No way to notify you is set up" in said.err
    assert "Kept       Nothing was sent" in said.err


def test_a_test_says_how_it_went_with_each_and_shows_no_secret(say, user):
    with WebServer() as web, WebServer(status=404) as wrong:
        configure(
            user,
            f'[notify]\nping = "{web.url}/{SECRET}"\nntfy = "{wrong.url}/{SECRET}"\n'
            f'email = ["ada@example.org"]\nsendmail = "/bin/false"\n',
        )
        assert say("notify", "test", "--dry-run").out.splitlines()[0] == "Would tell"
        assert web.heard == []
        said = say("notify", "test")
        assert said.code == 3
        host, other = (server.url.removeprefix("http://") for server in (web, wrong))
        assert said.out.splitlines() == [
            "Reached 1 of 3",
            f"    ping at {host}: reached",
            f"    ntfy at {other}: it answered 404 Not Found",
            "    email to ada@example.org: it ended with status 1",
        ]
        as_json = say("notify", "test", "--json")
        assert [one["ok"] for one in json.loads(as_json.out)["targets"]] == [True, False, False]
        assert web.heard[0].body.startswith(b"safekept: a test from ")
    assert SECRET not in said.out + said.err + as_json.out + as_json.err


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f'ntfy = "{SECRET}"', "sets `notify.ntfy` to something that is no URL"),
        (f'ntfy = ["https://x/{SECRET}"]', "sets `notify.ntfy` to something, which is not a text"),
        ('events = ["gossip"]', "sets `notify.events` to gossip"),
        ('command = "x \'y"', "`notify.command` cannot be taken apart into words"),
        ("deadline = -1", "sets `notify.deadline` to -1, which is below zero"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_without_showing_a_secret(say, user, text, what):
    configure(user, f"[notify]\n{text}\n")
    said = say("schedule", "show")
    assert said.code == 2
    assert what in said.err
    assert SECRET not in said.out + said.err


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('at = "half past three"', "which is not a time of the day: 'half past three'"),
        ('battery = "sometimes"', "sets `schedule.battery` to 'sometimes'"),
        ('metered = "light"', "sets `schedule.metered` to 'light'"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(say, user, text, what):
    configure(user, f"[schedule]\n{text}\n")
    said = say("schedule", "show")
    assert said.code == 2
    assert what in said.err
