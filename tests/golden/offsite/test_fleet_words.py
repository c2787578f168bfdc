"""What `safekept fleet` says: every host in a line of 80 columns, what is late, wrong or locked."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from dataclasses import replace

import pytest

from safekept.actions.drill.drill_report import mark_snapshot
from safekept.actions.offsite.fleet import FleetRequest, look_at_fleet
from safekept.core.events import silent
from safekept.vault.repo.lock_file import LockIdentity
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.restoring.drills import flip
from support.restoring.rebuilds import add_sessions
from support.users.contexts import throwaway
from support.users.unprivileged import NOBODY, as_nobody, nobodys, ssh_to_itself  # noqa: F401
from support.vault.snapshots import take

HOUR = 3600 * 10**9
AS_IT_IS = LockIdentity.of_this_process


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A destination with five vaults: fresh, late, with a loss, of two hosts, and one whose key is lost."""
    directory = tmp_path_factory.mktemp("fleet")
    disk = directory / "disk"
    disk.mkdir()
    now = time.time_ns()
    with pytest.MonkeyPatch.context() as patch:

        def on(host):
            own = AS_IT_IS()
            patch.setattr(
                LockIdentity, "of_this_process", classmethod(lambda cls: replace(own, hostname=host))
            )

        def vault(number, *moments, home=".hermes"):
            here = throwaway(directory / f"machine-{number}")
            place = os.path.join(here.places.user_home, home)
            make_hermes_home(place, profiles=(), awkward=False)
            for host, hours, change in moments:
                on(host)
                if change:
                    change(place)
                taken = take(here, place, now_ns=now - hours * HOUR, check="always")
            if number < 4:
                mark_snapshot(here, taken.snapshot, silent)
            return here

        machines = [
            vault(1, ("ada", 30, None), ("ada", 3, None)),
            vault(2, ("brahe-with-a-very-long-name", 100, None)),
            vault(3, ("curie", 30, lambda home: add_sessions(home, "abcdef")), ("curie", 2, lose_sessions)),
            vault(4, ("darwin", 5, None), ("euler", 6, None)),
            vault(5, ("fermi", 4, None)),
        ]
    for number, here in enumerate(machines, 1):
        shutil.copytree(here.places.vault, disk / f"{number}000000000000000")
    archives = disk / "archives" / "gauss"
    archives.mkdir(parents=True)
    for day in ("01", "02"):
        (archives / f"hermes-backup-202611{day}-033000.tar.zst.age").write_bytes(b"x" * 1000)
        (archives / f"hermes-backup-202611{day}-033000.tar.zst.age.sha256").write_bytes(b"x")
    return str(disk), [here.places.vault_key_file for here in machines[:4]]


def lose_sessions(home):
    import contextlib
    import sqlite3

    with contextlib.closing(
        sqlite3.connect(os.path.join(home, "state.db"), isolation_level=None)
    ) as connection:
        connection.execute("delete from messages")
        connection.execute("delete from sessions where id != 'session-0'")


@pytest.fixture
def say(monkeypatch, tmp_path):
    user = tmp_path / "admin"
    user.mkdir()
    return spoken(monkeypatch, str(user))


def keys(fleet):
    return [word for path in fleet[1] for word in ("--key-file", path)]


def plain(text, fleet):
    text = text.replace(fleet[0], "DISK")
    text = re.sub(r"…\S*(machine-\d/user/\.hermes)", r"…PATH/\1", text)
    text = re.sub(r"\d+(\.\d)? KB", "SIZE", text)
    # When what nobody opened arrived is the time at which these tests began.
    text = re.sub(r"SIZE +\d+ (s|min) +- +", "SIZE AGE - ", text)
    return re.sub(r"the last \d+ (s|min) ago", "the last AGE ago", text)


def test_every_host_has_its_line_and_what_is_wrong_stands_below(fleet, say):
    shown = say("fleet", fleet[0], *keys(fleet))
    assert shown.code == 0, shown.err
    assert plain(shown.out, fleet) == (
        "DISK: 5 homes on 6 hosts in 5 vaults, 1 of them not opened\n"
        "HOST             HOME                        LAST     VERIFIED   STATE\n"
        "ada              …PATH/machine-1/user/.hermes 3 h      proven today ok\n"
        "brahe-with-a-ve… …PATH/machine-2/user/.hermes 4 days   proven today OVERDUE\n"
        "curie            …PATH/machine-3/user/.hermes 2 h      proven today ALARM\n"
        "darwin           …PATH/machine-4/user/.hermes 5 h      sound      not proven\n"
        "euler            …PATH/machine-4/user/.hermes 6 h      sound      not proven\n"
        "5000000000000000 1 snapshot, SIZE AGE - no key\n"
        "    curie: 9 of 10 sessions are gone\n"
        "    curie: all 40 messages are gone\n"
        "gauss            2 archives, SIZE, the last AGE ago\n"
    )
    assert max(map(len, shown.out.splitlines()[1:])) <= 80


def test_a_wide_terminal_shows_more_and_nothing_at_the_right_is_ever_cut(fleet, say, monkeypatch):
    monkeypatch.setattr("safekept.cli.commands.offsite.fleet.fleet_width", lambda: 120)
    monkeypatch.setattr("safekept.cli.commands.offsite.fleet._days", lambda when: "1,234 d")
    monkeypatch.setattr("safekept.actions.offsite.fleet_vault.FleetHome.proven", 1.0)
    rows = say("fleet", fleet[0], *keys(fleet)).out.splitlines()[1:7]
    assert max(map(len, rows)) <= 120
    assert "brahe-with-a-very-long-name " in rows[2]
    assert [row.split()[-1] for row in rows[1:4]] == ["ok", "OVERDUE", "ALARM"]
    assert all("proven 1,234 d" in row for row in rows[1:6])


@pytest.mark.parametrize(
    ("some", "more", "code"),
    [
        ([0], [], 0),
        ([0], ["--overdue", "2"], 3),
        ([0, 1], [], 3),
        ([0, 1], ["--overdue", "200"], 0),
        ([0, 1], ["--overdue", "0"], 0),
        ([0, 3], [], 3),
        ([0, 1, 2], [], 4),
        ([0, 1, 2], ["--fast", "--overdue", "0"], 0),
    ],
)
def test_the_exit_code_says_fresh_late_or_alarm(fleet, say, some, more, code):
    opened = [word for number in some for word in ("--key-file", fleet[1][number])]
    assert say("fleet", fleet[0], *opened, "--check", *more).code == code
    assert say("fleet", fleet[0], *opened, *more).code == 0, "only where it is asked for"


def test_a_vault_without_its_key_is_shown_by_what_can_be_seen_and_can_be_late(fleet, say, tmp_path):
    document = json.loads(say("fleet", fleet[0], "--json").out)
    assert [vault["state"] for vault in document["vaults"]] == ["locked"] * 5
    first = document["vaults"][0]
    assert first["snapshots"] == 2 and first["bytes"] > 10_000 and first["homes"] == []
    assert first["reason"] == "no key that was given opens it" and first["level"] == "machine-lost"
    late = look_at_fleet(throwaway(tmp_path), FleetRequest(fleet[0]), now=time.time() + 3 * 86400)
    assert all(vault.overdue for vault in late.vaults) and late.exit_code == 3
    assert late.archives[0].overdue


def test_the_document_and_the_metrics_say_the_same(fleet, say):
    document = json.loads(say("fleet", fleet[0], *keys(fleet), "--json").out)
    assert (document["level"], document["exit_code"]) == ("partly", 4) and document["overdue_hours"] == 48.0
    homes = {home["host"]: home for vault in document["vaults"] for home in vault["homes"]}
    where = homes["curie"]["home"]
    losses = ("9 of 10 sessions are gone", "all 40 messages are gone")
    assert homes["curie"]["alarms"] == [f"lost in {where}: {text}" for text in losses]
    assert homes["brahe-with-a-very-long-name"]["overdue"] is True
    assert homes["ada"]["snapshots"] == 2 and homes["ada"]["databases"] == "sound"
    assert document["archives"] == [
        {**document["archives"][0], "host": "gauss", "archives": 2, "bytes": 2000, "overdue": False}
    ]
    metrics = say("fleet", fleet[0], *keys(fleet), "--prometheus", "--check")
    assert metrics.code == 4
    lines = metrics.out.splitlines()
    assert 'safekept_fleet_vault_open{vault="5000000000000000"} 0' in lines
    assert "safekept_fleet_status_code 4" in lines
    late = [line for line in lines if line.startswith("safekept_fleet_home_overdue") and line.endswith(" 1")]
    assert len(late) == 1 and 'host="brahe-with-a-very-long-name"' in late[0]
    assert "→" not in metrics.out, "no text of an alarm"
    refused = say("fleet", fleet[0], "--prometheus", "--json")
    assert refused.code == 2


def test_a_single_vault_is_a_fleet_of_its_hosts(fleet, say):
    shown = say("fleet", os.path.join(fleet[0], "4000000000000000"), "--key-file", fleet[1][3])
    assert shown.code == 0 and "2 homes on 2 hosts in 1 vault\n" in shown.out
    assert "darwin" in shown.out and "euler" in shown.out


@pytest.mark.parametrize("server", ["", "sftp://disk"])
def test_a_directory_that_is_closed_to_us_hides_no_vault(fleet, nobodys, server):  # noqa: F811
    disk, user = os.path.join(nobodys, "disk"), os.path.join(nobodys, "user")
    shutil.copytree(fleet[0], disk)
    os.mkdir(user)
    if os.getuid() == 0:
        for directory, names, files in os.walk(nobodys):
            for name in (*names, *files):
                os.chown(os.path.join(directory, name), NOBODY, NOBODY)
    os.mkdir(os.path.join(disk, "lost+found"), 0o000)
    closed = os.path.join(disk, "2000000000000000")
    os.chmod(closed, 0o000)
    path = f"{ssh_to_itself(nobodys)}:/usr/bin:/bin"

    def look():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", path)
            done = spoken(patch, user)("fleet", server + disk, "--json")
            listed = spoken(patch, user)("destinations", "show", server + disk)
            return done.out, done.err, listed.out, listed.err

    out, err, listed, trouble = as_nobody(look)
    assert out, err
    vaults = {vault["directory"]: vault for vault in json.loads(out)["vaults"]}
    assert sorted(vaults) == [f"{number}000000000000000" for number in range(1, 6)]
    shut = vaults.pop("2000000000000000")
    assert (shut["state"], shut["level"]) == ("unreadable", "not-protected")
    assert shut["reason"] == f"`{server}{closed}` does not let us list it: Permission denied"
    assert all(vault["state"] == "locked" and vault["snapshots"] for vault in vaults.values())
    shut_there = f"2000000000000000: cannot be read: `{server}{closed}/snapshots` does not let us list it"
    assert shut_there in listed and listed.count("  Vault  ") == 5, trouble


def test_one_vault_that_cannot_be_read_hides_no_other(fleet, say, tmp_path):
    disk = tmp_path / "disk"
    shutil.copytree(fleet[0], disk)
    config = disk / "1000000000000000" / "config"
    flip(str(config), 30)
    snapshots = disk / "2000000000000000" / "snapshots"
    flip(str(snapshots / os.listdir(snapshots)[0]), 30)
    shown = say("fleet", str(disk), *keys(fleet), "--check")
    assert shown.code == 4 and "1000000000000000 2 snapshots" in shown.out
    assert "    1000000000000000: " in shown.out
    assert "    2000000000000000: 1 snapshot file cannot be read\n" in shown.out
    assert "darwin" in shown.out


def test_an_empty_place_is_no_fleet(say, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = say("fleet", str(empty), "--check")
    assert refused.code == 10 and refused.err == (
        f"`{empty}` holds no vault and no archives\n"
        "\n"
        "  Kept       Nothing was changed\n"
        "  Next       See that the place is the right one, and that the disk behind it is mounted\n"
        "             Name a destination, its URL, or the path of a vault\n"
        "  Error      empty-fleet\n"
    )
    assert say("fleet", "nowhere").code == 2
    missing = say("fleet", str(tmp_path / "gone"))
    assert missing.code == 10 and error_code(missing.err) == "empty-fleet"


def test_a_key_file_named_after_its_vault_is_tried_first(fleet, tmp_path, monkeypatch):
    """With a thousand keys and a thousand vaults, trying them in turn would be half a million tries."""
    from safekept.actions.offsite import fleet as action

    named = []
    for number, path in enumerate(fleet[1], 1):
        named.append(shutil.copyfile(path, tmp_path / f"{number}000000000000000.key"))
    tried = []
    real = action.open_vault

    def counted(context):
        tried.append(context.places.source_vault)
        return real(context)

    monkeypatch.setattr(action, "open_vault", counted)
    request = FleetRequest(fleet[0], tuple(map(str, reversed(named))), counts=False)
    look_at_fleet(throwaway(tmp_path), request)
    assert sorted(tried.count(place) for place in set(tried)) == [1, 1, 1, 1, 5], "the fifth has no key here"
