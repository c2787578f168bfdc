"""What was once wrong in plain use: each of these was a defect, and must not come back."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from safekept.actions.alarms.alarms import open_alarms
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.core.locks import AlreadyRunning, process_lock
from support.home.homes import tree_facts
from support.offsite.pushes import machine, with_disk
from support.places import CHECKOUT
from support.restoring.drills import flip
from support.vault.snapshots import take


def receipts(here):
    return glob.glob(os.path.join(here.places.data_directory, "receipts", "*.json"))


# ── drill ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_that_is_no_archive_is_a_mistake_and_no_alarm(here, home, say):
    text = os.path.join(here.places.user_home, "notes.txt")
    with open(text, "w") as file:
        file.write("no archive\n" * 100)
    done = say("drill", text)
    assert done.code == 1 and "archive-unknown" in done.err
    assert receipts(here) == [] and open_alarms(here) == ()
    assert "drill" not in say("status").out


def test_an_archive_of_ours_that_is_no_archive_any_more_is_an_alarm(here, home, say):
    archive = os.path.join(here.places.user_home, "kept.zip")
    assert say("backup", "-o", archive).code == 0
    with open(archive, "wb") as file:
        file.write(b"\0" * 5000)
    assert say("drill", archive).code == 1
    assert len(receipts(here)) == 1
    assert [one.kind for one in open_alarms(here)] == ["drill"]


def test_nothing_is_called_complete_while_the_store_is_damaged(here, home, say):
    take(here, home)
    (index,) = glob.glob(os.path.join(here.places.vault, "index", "*"))[:1]
    flip(index, os.path.getsize(index) // 2)
    said = json.loads(say("drill", "--json").out)
    rows = {row["check"]: row for row in said["rows"]}
    assert rows["store"]["state"] == "failed"
    assert rows["complete"]["state"] == "unknown"
    assert rows["complete"]["text"] == "the store is damaged, so this is unknown"


# ── guard ──────────────────────────────────────────────────────────────────────────────────────────


def test_what_guard_prints_runs_also_where_the_home_became_a_plain_file(here, home, say):
    before = tree_facts(home)
    ruin = f"rm -rf {shlex.quote(home)} && echo ruined > {shlex.quote(home)}"
    done = say("guard", "--home", home, "--", "sh", "-c", ruin)
    assert done.code == 3
    (command,) = {one for one in re.findall(r"`([^`]+)`", done.err) if "snapshot restore" in one}
    aside, _, restore = command.partition(" && ")
    assert aside == f"mv {shlex.quote(home)} {shlex.quote(home + '.file')}"
    (alarm,) = open_alarms(here)
    assert alarm.restore[0] == command
    refused = say(*shlex.split(restore)[1:])
    assert refused.code == 1 and f"`{aside}`" in refused.err
    subprocess.run(["sh", "-c", aside], check=True)
    assert say(*shlex.split(restore)[1:], "--yes").code == 0
    after = tree_facts(home)
    assert {path for path in before if before[path] != after.get(path)} <= {"."}


# ── the journal ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["status", "--short"],
        ["log"],
        ["snapshot"],
        ["undo"],
        ["rollback"],
        ["doctor"],
        ["backup"],
        ["rollback", "--undo"],
    ],
)
def test_a_journal_that_is_a_pipe_holds_nobody_up(here, home, words):
    os.makedirs(here.places.data_directory)
    os.mkfifo(os.path.join(here.places.data_directory, "journal.jsonl"))
    environment = {"HOME": here.places.user_home, "PATH": os.environ["PATH"], "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "safekept", *words],
        env={**environment, "PYTHONPATH": os.path.join(CHECKOUT, "src")},
        cwd=here.places.user_home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in (0, 1, 3, 4), done.stderr
    assert "Traceback" not in done.stderr
    if words in (["snapshot"], ["backup"], ["log"], ["doctor"]):
        assert "not a regular file" in done.stdout + done.stderr


# ── off this host ──────────────────────────────────────────────────────────────────────────────────


def test_a_sealed_archive_that_was_fetched_says_what_opens_it(here, home, say, tmp_path):
    key = os.path.join(here.places.user_home, "key.txt")
    public = re.search(r"age1[0-9a-z]+", say("backup", "keygen", "-o", key).out)
    assert public is not None
    config = os.path.join(here.places.user_home, ".config", "safekept", "config.toml")
    os.makedirs(os.path.dirname(config), exist_ok=True)
    disk = os.path.join(str(tmp_path), "disk")
    archives = os.path.join(here.places.user_home, "archives")
    os.makedirs(archives)
    with open(config, "w") as file:
        file.write(
            f'[[destination]]\nname = "disk"\nurl = "file:{disk}"\ntakes = ["archives"]\nsame_disk = true\n'
        )
        file.write(f'[backup]\noutput = "{archives}"\n')
    assert say("backup", "--seal", public[0]).code == 0
    pushed = say("push", "disk")
    assert pushed.code == 0, pushed.err
    into = os.path.join(str(tmp_path), "fetched")
    os.makedirs(into)
    done = say("pull", "disk", "--archive", "latest", "--into", into)
    assert done.code == 0, done.err
    assert re.search(r"Restore with: `safekept import \S+\.age --identity KEYFILE`", done.out), done.out
    assert "KEYFILE holds the private half of the key that it was sealed to" in done.out
    with open(config, "a") as file:
        file.write(f'[seal]\nidentity = ["{key}"]\n')
    os.unlink(glob.glob(os.path.join(into, "*.age"))[0])
    done = say("pull", "disk", "--archive", "latest", "--into", into)
    assert re.search(r"Restore with: `safekept import \S+\.age`", done.out), done.out


def test_a_push_leaves_no_lock_behind_and_takes_away_those_of_earlier_ones(tmp_path):
    here = with_disk(machine(tmp_path), tmp_path / "disk")
    held = os.path.join(here.places.data_directory, "push-0123456789abcdef.lock")
    for name in ("push-fedcba9876543210.lock", "push-00.lock"):
        with open(os.path.join(here.places.data_directory, name), "w"):
            pass
    with process_lock(held, "push"):
        push(here, PushRequest("disk"))
        assert glob.glob(os.path.join(here.places.data_directory, "push-*.lock")) == [held]


def test_a_lock_that_goes_with_its_holder_is_never_held_twice(tmp_path):
    """Many processes, each in and out again: never two inside at once, and no file is left."""
    lock, inside = os.path.join(str(tmp_path), "some.lock"), os.path.join(str(tmp_path), "inside")
    code = (
        "import os, sys\n"
        "from safekept.core.locks import process_lock\n"
        "for _ in range(60):\n"
        "    with process_lock(sys.argv[1], 'test', 600.0, remove=True):\n"
        "        os.close(os.open(sys.argv[2], os.O_CREAT | os.O_EXCL | os.O_WRONLY))\n"
        "        os.unlink(sys.argv[2])\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, lock, inside], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in running:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert not os.path.exists(lock)
    with process_lock(lock, "test", remove=True), pytest.raises(AlreadyRunning):
        with process_lock(lock, "test", remove=True):
            pass
