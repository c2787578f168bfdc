"""What a drill says: the verdict first, every row, what to do next; plain, as JSON, with its exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest

from safekept.actions.status.status import look
from safekept.core.processes.process import process_space
from support.commands.error_texts import error_code
from support.commands.in_process import spoken
from support.home.homes import make_hermes_home
from support.places import CHECKOUT
from support.restoring.drills import drilled, flip, place_of_file, put
from support.users.contexts import throwaway
from support.vault.snapshots import take


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("made")
    here = throwaway(directory)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    take(here, home)
    return directory


@pytest.fixture
def here(made, tmp_path):
    """The same user again, in the same place for every test: what one of them damages the next has whole."""
    place = tmp_path / "copy"
    shutil.copytree(made, place, symlinks=True)
    return throwaway(place)  # the vault in it still knows the home by the path that it had


@pytest.fixture
def home(made):
    return os.path.join(made, "user", ".hermes")


@pytest.fixture
def say(monkeypatch, here):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return spoken(monkeypatch, here.places.user_home)


def plain(text, here, home):
    """Without what differs each time: ids, times, places."""
    text = text.replace(here.places.user_home, "USER").replace(home, "HOME")
    text = re.sub(r"receipts/\d{8}-\d{6}-[0-9a-f]{6}\.json", "receipts/RECEIPT", text)
    text = re.sub(r"snapshot [0-9a-f]{8}", "snapshot ID", text)
    text = re.sub(r"pack [0-9a-f]{12}", "pack PACK", text)
    text = re.sub(r"taken \d+ (s|min) ago", "taken AGE ago", text)
    text = re.sub(r"Time( +)[\d.]+ s", r"Time\1SECONDS", text)
    text = re.sub(r"[\d,]+ bytes", "BYTES bytes", text)
    # How deep the home lies decides how many directories lead to it.
    text = re.sub(r" +\d+  \d+ directories read, \d+ pieces", " N  N directories read, N pieces", text)
    return re.sub(r"\d+(\.\d)? KB", "SIZE", text)


GOOD = """\
Proven restorable: snapshot ID, taken AGE ago, of HOME
  store        passed N  N directories read, N pieces in the index
  restore      passed        31  31 files and links, landed as by a real restore
  files        passed        31  31 files, BYTES bytes, each against its recorded hash
  metadata     passed        57  permissions, times, links and directories of 57 entries
  secrets      passed         4  4 files, readable by their owner only
  databases    passed         1  1 database passed the full integrity check
  foreign keys passed         1  every row that refers to another finds it
  full-text    passed         2  every full-text index agrees with its text
  tables       passed         1  the tables that the agent needs
  census       passed         8  8 counts as recorded
  persona      passed         1  1 file, present and readable
  memories     passed         2  2 files, present and readable
  settings     passed         2  2 files, each one parses
  agent        left out          Hermes Agent is not installed here
  complete     passed        31  it holds everything that it was asked to
  Restored   31 files, SIZE
  Time       SECONDS
  Receipt    USER/.local/share/safekept/receipts/RECEIPT
"""


def test_a_good_drill(say, here, home):
    done = say("drill", "--home", home)
    assert done.code == 0, done.err
    shown = plain(done.out, here, home)
    assert shown == GOOD
    assert done.err == ""


def test_a_drill_that_failed_names_what_and_what_to_do(say, here, home):
    pack, place = place_of_file(here, "memories/MEMORY.md", home)
    flip(pack, place.offset + 20)
    done = say("drill", "latest", "--home", home)
    assert done.code == 1
    lines = plain(done.out, here, home).splitlines()
    assert lines[0] == "NOT proven: 2 checks failed for snapshot ID, taken AGE ago, of HOME"
    why = "damaged in the vault: the authentication tag does not match (pack PACK)"
    assert f"  files        FAILED        31  1 of 31 files: `memories/MEMORY.md`: {why}" in lines
    assert f"  memories     FAILED         2  1 of 2 files: `memories/MEMORY.md`: {why}" in lines
    assert lines[-3:] == [
        "  Next       See what else is damaged: `safekept vault check --read-data`",
        "             Keep what is sound: `safekept vault repair`, then store the rest again: "
        "`safekept snapshot --home HOME`, and prove it: `safekept drill --home HOME`",
        "             Look for an older version of it: `safekept history memories/MEMORY.md --home HOME`",
    ]


def test_the_json_of_a_drill_is_its_receipt(say, here, home):
    done = say("drill", "--home", home, "--json")
    document = json.loads(done.out)
    assert document["ok"] is True
    assert document["subject"] == "snapshot"
    assert [row["check"] for row in document["rows"]][:3] == ["store", "restore", "files"]
    assert document["next"] == document["commands"] == []
    with open(document["receipt"], encoding="utf-8") as file:
        kept = json.load(file)
    assert kept == {
        name: value for name, value in document.items() if name not in ("receipt", "next", "commands")
    }
    with open(os.path.join(CHECKOUT, "docs", "reference", "json.md"), encoding="utf-8") as file:
        section = file.read().partition("\n## drill\n")[2].partition("\n## ")[0]
    assert [name for name in document if f"`{name}`" not in section] == []


def test_lists_say_which_snapshot_was_proven(say, home):
    assert "  proven" not in say("snapshot", "list", "--home", home).out
    assert say("drill", "--home", home, "--small").code == 0
    assert "  proven" not in say("snapshot", "list", "--home", home).out  # a part of it proves no whole
    assert say("drill", "--home", home).code == 0
    listed = say("snapshot", "list", "--home", home)
    assert "  proven" in listed.out
    shown = say("snapshot", "show", "1", "--home", home)
    assert re.search(r"\n  Proven     restored and checked by a drill \d+ (s|min) ago\n", shown.out)
    (snapshot,) = json.loads(say("snapshot", "list", "--home", home, "--json").out)["snapshots"]
    assert snapshot["proven"].startswith("20")
    assert snapshot["number"] == 1


def test_a_small_drill_says_that_it_is_one(say, here, home):
    done = say("drill", "--home", home, "--small")
    assert done.code == 0
    first = plain(done.out, here, home).splitlines()[0]
    assert first == (
        "Proven restorable: snapshot ID, taken AGE ago, of HOME (a small drill: the state files and a sample)"
    )


def test_an_archive_is_drilled_by_its_name(say, here):
    put(here.places.user_home, "notes.txt", "no archive\n")
    assert say("backup", "-o", "mine.zip").code in (0, 3)
    done = say("drill", "mine.zip")
    assert done.code == 0, done.out
    assert done.out.startswith(f"Proven restorable: {here.places.user_home}/mine.zip\n")
    refused = say("drill", "notes.txt")
    assert refused.code == 1 and refused.out == ""
    assert error_code(refused.err) == "archive-unknown" and "is not an archive" in refused.err
    missing = say("drill", "./none.zip")
    assert missing.code == 1
    assert error_code(missing.err) == "archive-not-found" and missing.err.startswith("There is no archive `")
    assert "Did you mean: `safekept drill" in " ".join(say("drill", "./mien.zip").err.split())


def test_an_incomplete_snapshot_has_an_exit_code_of_its_own(say, here, tmp_path):
    own = os.path.join(here.places.user_home, ".hermes")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "note.md").write_text("elsewhere")
    shutil.rmtree(os.path.join(own, "sessions"))
    os.symlink(tmp_path / "outside", os.path.join(own, "sessions"))
    assert say("snapshot").code == 3
    done = say("drill")
    assert done.code == 3
    assert done.out.startswith("Proven restorable, as far as it goes: snapshot ")
    assert "  complete     left out       1  by its own account: `sessions`: " in done.out


def test_what_does_not_go_together_is_said(say):
    assert say("drill", "--checkpoints", "--small").code == 2
    done = say("drill", "--destination", "nas")
    assert done.code != 0
    assert "nas" in done.err


def test_a_drill_without_room_says_the_numbers(say, monkeypatch, home):
    from safekept.actions.drill import place as drill_place

    monkeypatch.setattr(drill_place, "free_bytes", lambda path: 12_345)
    done = say("drill", "--home", home)
    assert done.code == 1
    assert re.match(
        r"There is no room to restore into: a drill needs [\d,]+ bytes; `.*` has 12,345;",
        done.err,
    )
    assert error_code(done.err) == "no-room"
    assert "  Kept       Nothing was changed; what was restored for the drill has been removed\n" in done.err
    assert "  Next       Name a directory on a disk with room: `safekept drill --scratch DIR`\n" in done.err


def test_what_a_killed_drill_left_is_mentioned(say, here, home):
    left = os.path.join(
        here.places.data_directory, "scratch", f"safekept-drill-999999999-{process_space()}-aa"
    )
    os.makedirs(os.path.join(left, "home"))
    done = say("drill", "--home", home)
    assert done.code == 0
    assert done.err == "Note: removed what 1 killed drill had left behind\n"
    assert not os.path.exists(left)


def test_checkpoints_are_drilled(say, here):
    nothing = say("drill", "--checkpoints")
    assert nothing.code == 1
    assert "There are no checkpoints yet, so there is nothing to prove" in nothing.err
    assert "Take one, in a project: `safekept checkpoint`" in nothing.err
    project = os.path.join(here.places.user_home, "work")
    put(project, "pyproject.toml", "[project]\n")
    put(project, "src/a.py", "a = 1\n")
    assert say("checkpoint", project).code == 0
    put(project, "src/a.py", "a = 2\n")
    done = say("drill", "--checkpoints")
    assert done.code == 0, done.out
    lines = plain(done.out, here, "-").splitlines()
    assert lines[0] == "Proven restorable: the checkpoints in USER/.local/share/safekept/checkpoints"
    assert "  git fsck     passed         1  plain git finds nothing wrong" in lines
    assert "  rollback     passed         2  the newest point of 1 project: 2 files, BYTES bytes" in lines
    with open(os.path.join(project, "src", "a.py"), encoding="utf-8") as file:
        assert file.read() == "a = 2\n"  # a drill rolls nothing back
    assert say("drill", "--checkpoints", project).code == 0
    packs = os.path.join(here.places.data_directory, "checkpoints", "store", "objects", "pack")
    (pack,) = (os.path.join(packs, name) for name in os.listdir(packs) if name.endswith(".pack"))
    flip(pack, os.path.getsize(pack) - 30)
    damaged = say("drill", "--checkpoints")
    assert damaged.code == 1
    assert damaged.out.startswith("NOT proven: ")
    assert "  git fsck     FAILED " in damaged.out
    assert "  Next       See which checkpoints are touched: `safekept checkpoint status`\n" in damaged.out


def test_status_knows_when_it_was_last_proven(say, here):
    own = os.path.join(here.places.user_home, ".hermes")
    assert say("snapshot").code == 0
    assert say("drill").code == 0
    found = look(here)
    assert any(one.home == own and one.drill is not None and one.drill.ok for one in found.homes)


def test_a_key_that_others_can_read_is_named_and_the_printed_commands_clear_it(say, home):
    os.chmod(os.path.join(home, ".env"), 0o644)
    os.chmod(home, 0o755)
    assert say("snapshot", "--home", home).code == 0
    failed = say("drill", "--home", home)
    assert failed.code == 1
    assert "Others can read .env. Close it to them: `safekept doctor --fix" in failed.out
    assert (
        "Then store it so: `safekept snapshot" in failed.out and "and prove it: `safekept drill" in failed.out
    )
    for words in (("doctor", "--fix"), ("snapshot",), ("drill",)):
        done = say(*words, "--home", home)
    assert done.code == 0, done.out


def test_the_printed_way_out_of_a_failed_drill_ends_its_alarm(say, here):
    own = os.path.join(here.places.user_home, ".hermes")
    put(own, "gateway.json", '{"port": [80}')
    assert say("snapshot").code == 0
    failed = say("drill")
    assert failed.code == 1
    assert failed.out.startswith("NOT proven: 1 check failed for snapshot ")
    following = failed.out[failed.out.index("\n  Next       ") :].splitlines()[1:]
    again = "make a new one: `safekept snapshot`, and prove it: `safekept drill`"
    assert following == [
        "  Next       Look for an older version of it: `safekept history gateway.json`",
        f"             {own} had not changed by the drill, so it had the same problem. "
        f"Mend it there, then {again}",
    ]
    why = "failed: gateway.json: "
    for screen in ("status", "doctor"):
        shown = " ".join(say(screen).out.split())
        assert why in shown and "(settings)" in shown and again in shown, shown
        assert "safekept backup" not in shown, "an archive ends no alarm about a snapshot"
    assert re.search(r"\n  Seen       \d+ (s|min) ago\n", say("doctor").out)
    assert say("status", "--acknowledge").code == 0
    shown = " ".join(say("status").out.split())  # it still is so, and the same one would fail again
    assert why in shown and "Make a new one: `safekept snapshot`, and prove it: `safekept drill`" in shown
    put(own, "gateway.json", '{"port": 80}')
    assert say("snapshot").code == 0
    assert say("drill").code == 0
    for screen in ("status", "doctor"):
        assert why not in " ".join(say(screen).out.split())


def test_setup_again_after_a_failed_proof_proves_a_new_snapshot(here):
    from safekept.actions.setup.survey import Survey, find_homes

    own = os.path.join(here.places.user_home, ".hermes")
    put(own, "gateway.json", '{"port": [80}')
    take(here, own)
    homes = tuple(one for one in find_homes(here) if one.place.home == own)
    assert Survey(homes, (), look(here)).unkept == ()
    assert not drilled(here, home=own).receipt.ok
    assert Survey(homes, (), look(here)).unkept == homes
    put(own, "gateway.json", '{"port": 80}')
    take(here, own)
    found = Survey(homes, (), look(here))
    assert (found.unkept, found.unproven) == ((), homes), "that one may be good, and is proven as it is"
