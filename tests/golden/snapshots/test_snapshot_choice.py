"""Which snapshot is meant: by number, by `latest`, of this machine, and never one by mistake."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from dataclasses import replace

import pytest

from safekept.home.scan.scanning import Selection
from safekept.vault.storage import FileKind
from support.commands.error_texts import error_code
from support.home.homes import make_hermes_home, tree_facts
from support.vault.snapshots import opened, take

HOUR = 3_600_000_000_000


@pytest.fixture
def home(here):
    return make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=())


def put(home, name, text):
    with open(os.path.join(home, name), "w") as file:
        file.write(text)


def read(home, name):
    with open(os.path.join(home, name)) as file:
        return file.read()


def quick(here, home):
    return take(here, home, kind="quick", selection=Selection(quick=True)).id[:8]


def rewritten(here, **changes):
    """The newest snapshot again with other facts, in place of itself; its id."""
    from safekept.vault.snapshots import list_snapshots

    with opened(here) as repository:
        old = list_snapshots(repository)[0][-1]
        new = repository.save_snapshot(replace(old, id="", original="", **changes))
        repository.storage.delete(FileKind.SNAPSHOT, old.id)
        return new.id


# `latest`


def test_latest_brings_a_lost_home_back_whole_and_names_the_newer_state(here, home, say, tmp_path):
    whole = take(here, home).id[:8]
    assert say("snapshot", "restore", whole, "--into", str(tmp_path / "whole")).code == 0
    newer = quick(here, home)
    shutil.rmtree(home)
    done = say("snapshot", "restore", "latest", "--yes")
    assert done.code == 0, done.err
    left_out = (".", "_external")
    assert tree_facts(home, skip=left_out) == tree_facts(str(tmp_path / "whole"), skip=left_out)
    assert f"  Snapshot   {whole} (number 2, manual, " in done.out
    hint = f"Newer state files are in the quick snapshot {newer}: `safekept snapshot restore {newer}`\n"
    assert hint in done.out
    assert say("snapshot", "restore", newer, "--yes").code == 0


def test_latest_is_the_quick_one_where_there_is_no_whole_one(here, home, say):
    newer = quick(here, home)
    done = say("snapshot", "restore", "latest", "--yes")
    assert done.code == 0 and f"  Snapshot   {newer} (number 1, quick, " in done.out
    assert "the quick set only" in done.out
    assert "Newer state files" not in done.out


def test_latest_with_a_path_is_the_whole_one_and_names_the_newer_part_that_holds_it(here, home, say):
    put(home, "SOUL.md", "first")
    whole = take(here, home).id[:8]
    put(home, "SOUL.md", "second")
    newer = quick(here, home)
    put(home, "SOUL.md", "hijacked")
    done = say("snapshot", "restore", "latest", "SOUL.md", "--yes")
    assert done.code == 0 and f"  Snapshot   {whole} (" in done.out
    first = f"`latest` is the newest snapshot of the whole home; {newer} (quick) is newer"
    assert done.out.splitlines()[0] == first
    assert read(home, "SOUL.md") == "first"
    skill = next(
        os.path.relpath(os.path.join(directory, name), home)
        for directory, _, names in os.walk(os.path.join(home, "skills"))
        for name in names
    )
    os.unlink(os.path.join(home, skill))
    done = say("snapshot", "restore", "latest", skill, "--yes")
    assert done.code == 0 and f"  Snapshot   {whole} (" in done.out
    assert os.path.exists(os.path.join(home, skill))


def test_latest_means_the_same_to_those_who_read(here, home, say):
    put(home, "SOUL.md", "first")
    take(here, home)
    put(home, "SOUL.md", "second")
    newer = quick(here, home)
    assert say("snapshot", "show", "latest", "SOUL.md").out == "first"
    assert say("snapshot", "show", newer, "SOUL.md").out == "second"


NARROWED = {
    "profile": ("--profile", "coder"),
    "exclude": ("--exclude", "memories"),
    "no secrets": ("--no-secrets",),
    "quick": ("--quick",),
}


@pytest.mark.parametrize("how", NARROWED)
def test_a_narrowed_snapshot_never_counts_as_the_newest_whole_one(here, home, say, how):
    os.makedirs(os.path.join(home, "profiles", "coder"), exist_ok=True)
    put(home, "profiles/coder/SOUL.md", "of a profile")
    assert say("snapshot", "--exclude", "no-such-file").code == 0, "narrowed by a flag, whatever it meets"
    whole = json.loads(say("snapshot", "--json").out)["id"]
    part = json.loads(say("snapshot", *NARROWED[how], "--json").out)["id"]
    rows = {one["id"]: one for one in json.loads(say("snapshot", "list", "--json").out)["snapshots"]}
    assert (rows[whole]["partial"], rows[part]["partial"]) == (False, True)
    assert sum(one["partial"] for one in rows.values()) == 2
    plan = json.loads(say("snapshot", "restore", "latest", "--dry-run", "--json").out)
    assert plan["snapshot"]["id"] == whole
    drill = json.loads(say("drill", "--json").out)
    assert drill["name"] == whole
    status = json.loads(say("status", "--json").out)["homes"][0]
    assert (status["last_snapshot"]["id"], status["last_whole"]["id"]) == (part, whole)
    kept = json.loads(say("snapshot", "forget", "--keep-last", "1", "--dry-run", "--json").out)["plan"][
        "keep"
    ]
    assert {whole, part} <= {one["id"] for one in kept}, "each kind keeps its own newest"


def test_a_home_of_which_there_are_only_parts_is_not_protected(here, home, say):
    assert say("snapshot", "--no-secrets").code == 0
    found = json.loads(say("status", "--json").out)["verdict"]
    assert (found["level"], found["reasons"][0]["code"]) == ("not-protected", "no-whole-snapshot")
    assert json.loads(say("status", "--short", "--json").out)["level"] == "not-protected"
    assert say("snapshot").code == 0
    assert "no-whole-snapshot" not in say("status", "--json").out


# Numbers


def test_a_short_number_is_never_the_start_of_an_id(here, home, say):
    first = take(here, home).id
    digits = re.compile("[1-9]")
    while not digits.match(first):
        first = rewritten(here, tags=("kind:manual", f"label:{first[:6]}"))
    put(home, "SOUL.md", "mine")
    number = first[0] if first[0] != "1" else first[:2] if first[1].isdecimal() else "9"
    done = say("snapshot", "restore", number, "--yes")
    assert done.code == 1
    assert done.err == (
        f"There is no snapshot number {number}; the oldest is number 1\n\n"
        "  Kept       Nothing was changed\n"
        "  Next       See them all: `safekept snapshot list`\n"
        "  Error      no-such-snapshot\n"
    )
    assert read(home, "SOUL.md") == "mine"
    assert say("snapshot", "restore", first[:4], "--yes").code == 0


def test_number_nought_is_no_snapshot(here, home, say):
    take(here, home)
    done = say("snapshot", "show", "0")
    assert done.code == 1 and "There is no snapshot number 0" in done.err


# Empty paths


@pytest.mark.parametrize(
    "words",
    [
        ("snapshot", "restore", "1", "", "--yes"),
        ("snapshot", "restore", "1", "SOUL.md", "", "--yes"),
        ("snapshot", "show", "1", ""),
        ("history", ""),
        ("import", "FILE", "--only", "", "--force"),
    ],
)
def test_an_empty_path_is_refused_and_never_means_everything(here, home, say, words, tmp_path):
    take(here, home)
    if "FILE" in words:
        archive = str(tmp_path / "whole.zip")
        assert say("backup", "-o", archive).code == 0
        words = tuple(archive if word == "FILE" else word for word in words)
    put(home, "SOUL.md", "mine")
    done = say(*words)
    assert done.code == 2, done.out
    assert "is empty" in done.err
    assert done.out == ""
    assert read(home, "SOUL.md") == "mine"


# Other machines, and times that have not come yet


def test_a_snapshot_of_another_host_is_shown_and_is_not_latest(here, home, say):
    put(home, "SOUL.md", "of this host")
    mine = take(here, home).id[:8]
    put(home, "SOUL.md", "of the other host")
    take(here, home)
    other = rewritten(here, hostname="otherhost", time_ns=time.time_ns() + HOUR // 3600)[:8]
    assert say("snapshot", "show", "latest", "SOUL.md").out == "of this host"
    assert say("snapshot", "show", "1", "SOUL.md").out == "of this host"
    assert say("snapshot", "show", other, "SOUL.md").out == "of the other host"
    lines = say("snapshot", "list").out.splitlines()
    row = next(line for line in lines if other in line)
    assert row.endswith("(on otherhost)") and row.split()[0] == other, "it has no number"
    assert next(line for line in lines if mine in line).startswith("1  ")
    rows = json.loads(say("snapshot", "list", "--json").out)["snapshots"]
    assert [(row["number"], row["host"] == "otherhost") for row in rows] == [(None, True), (1, False)]


def test_on_a_new_machine_the_snapshots_of_the_old_one_have_the_numbers(here, home, say):
    put(home, "SOUL.md", "of the old machine")
    take(here, home)
    short = rewritten(here, hostname="oldmachine")[:8]
    shutil.rmtree(home)
    done = say("snapshot", "restore", "latest")
    assert done.code == 0, done.err
    assert read(home, "SOUL.md") == "of the old machine"
    assert f"  Made of    {home} on oldmachine\n" in done.out
    row = next(line for line in say("snapshot", "list").out.splitlines() if short in line)
    assert row.startswith("1  ") and row.endswith("(on oldmachine)")


def test_a_snapshot_in_the_future_is_marked_and_is_not_latest(here, home, say):
    put(home, "SOUL.md", "by the clock")
    take(here, home)
    put(home, "SOUL.md", "of the future")
    take(here, home)
    future = rewritten(here, time_ns=time.time_ns() + 24 * HOUR)[:8]
    assert say("snapshot", "show", "latest", "SOUL.md").out == "by the clock"
    row = next(line for line in say("snapshot", "list").out.splitlines() if future in line)
    assert " in the future " in row
    assert say("snapshot", "restore", "latest", "--yes").code == 0
    assert read(home, "SOUL.md") == "by the clock"


def test_a_snapshot_in_the_future_is_better_than_none(here, home, say):
    take(here, home)
    rewritten(here, time_ns=time.time_ns() + 24 * HOUR)
    shutil.rmtree(home)
    assert say("snapshot", "restore", "latest").code == 0
    assert os.path.exists(os.path.join(home, "SOUL.md"))


# Words


def test_the_history_of_a_directory_says_that_it_is_one(here, home, say):
    short = take(here, home).id[:8]
    done = say("history", "memories")
    assert done.code == 1
    assert "`memories` is a directory; a history is that of one file\n" in done.err
    assert f"`safekept snapshot show {short} memories`" in done.err
    os.unlink(os.path.join(home, "SOUL.md"))
    os.mkdir(os.path.join(home, "SOUL.md"))
    done = say("history", "SOUL.md")
    assert done.code == 0
    assert "In the home there is a directory of that name now\n" in done.out


def test_a_link_in_the_way_of_a_restore_is_told_in_the_words_of_a_restore(here, home, say, tmp_path):
    short = take(here, home).id[:8]
    shutil.rmtree(os.path.join(home, "memories"))
    os.symlink(tmp_path, os.path.join(home, "memories"))
    done = say("snapshot", "restore", "latest", "--yes")
    assert done.code == 1 and error_code(done.err) == "landing-through-link"
    assert "import" not in done.err
    assert "move it away, then run the command again\n" in done.err
    assert f"`safekept snapshot restore {short} --into DIR`" in done.err


def test_with_several_homes_a_bare_number_is_refused_and_the_ids_are_named(here, home, say):
    ours = take(here, home).id[:8]
    other = make_hermes_home(os.path.join(here.places.user_home, ".other"), profiles=(), awkward=False)
    theirs = take(here, other).id[:8]
    put(home, "SOUL.md", "as it is")
    for words in (
        ("snapshot", "restore", "1", "--yes"),
        ("restore", "1", "--yes"),
        ("snapshot", "show", "1"),
        ("snapshot", "pin", "1"),
        ("snapshot", "forget", "1", "--yes"),
        ("drill", "1"),
    ):
        done = say(*words)
        assert done.code == 1, words
        assert "`1` is a number, and 2 homes have snapshots with numbers" in done.err
        assert f"`{ours}`" in done.err and f"`{theirs}`" in done.err and "--home DIR" in done.err
    assert read(home, "SOUL.md") == "as it is"
    assert say("snapshot", "show", "1", "--home", home).code == 0
    assert say("snapshot", "show", ours).code == say("snapshot", "show", "latest").code == 0


def test_latest_is_never_what_a_restore_stored_by_itself(here, home, say):
    first = take(here, home).id
    put(home, "SOUL.md", "broken")
    assert say("snapshot", "restore", "latest", "--yes").code == 0
    shown = json.loads(say("snapshot", "show", "latest", "--json").out)
    assert (shown["snapshot"]["id"], shown["snapshot"]["number"]) == (first, 1)
